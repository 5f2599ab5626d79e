# SPDX-License-Identifier: Apache-2.0
"""The command line `sfa`. One file a command; `app.py` puts them together."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Entry point of the `sfa` script."""
    try:
        from .app import main as run  # here, so that Ctrl-C during the imports is answered too

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
