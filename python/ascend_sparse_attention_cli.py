# SPDX-License-Identifier: Apache-2.0
"""The script `sfa`: what has to stand before the package is imported.

Beside the package and not in it: importing any module of a package imports the package first, and this one imports
torch, which takes seconds in which Ctrl-C has to be answered too.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any, NoReturn

__all__ = ["main"]


def _leave(*_: Any) -> NoReturn:
    """Answer Ctrl-C where nothing of the command has begun, or nothing is left of it.

    An exception would not do: an import may swallow it or turn it into another one.
    """
    os.write(2, b"interrupted\n")
    os._exit(130)


def main() -> NoReturn:
    """Entry point of the `sfa` script: `ascend_sparse_attention.cli.app.main` with its imports guarded."""
    # Whoever started this with SIGINT ignored (a shell does so for its background jobs) wants it ignored.
    answered = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if answered:
        signal.signal(signal.SIGINT, _leave)
    try:
        from ascend_sparse_attention.cli.app import main as run
    except ModuleNotFoundError as error:
        print(f"error: sfa needs {error.name}, which is not installed", file=sys.stderr)
        sys.exit(2)
    except Exception:
        # Exit code 1, Python's own, would say that the operator failed.
        traceback.print_exc()
        sys.exit(2)
    try:
        if answered:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        if answered:
            signal.signal(signal.SIGINT, _leave)


if __name__ == "__main__":
    main()
