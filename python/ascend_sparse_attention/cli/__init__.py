# SPDX-License-Identifier: Apache-2.0
"""The command line `sfa`. One file a command; `app.py` puts them together."""

from .app import main

__all__ = ["main"]
