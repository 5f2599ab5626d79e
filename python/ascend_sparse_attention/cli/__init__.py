# SPDX-License-Identifier: Apache-2.0
"""The command line `sfa`. One file a command; `app.py` puts them together; `ascend_sparse_attention_cli` starts it."""
