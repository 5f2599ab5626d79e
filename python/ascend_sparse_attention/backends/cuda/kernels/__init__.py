# SPDX-License-Identifier: Apache-2.0
"""Device code. Importing a module of this package imports triton; the planning side never does."""
