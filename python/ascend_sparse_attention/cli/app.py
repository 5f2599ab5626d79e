# SPDX-License-Identifier: Apache-2.0
"""Puts the commands of `sfa` together.

A command module offers `register(app)`. It imports torch only inside its command, so that `sfa --help` answers at once.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from . import check, check_submission, compare, env, trace
from .console import UsageError, error_console

app = typer.Typer(
    name="sfa",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Check the precision of sparse flash attention on Ascend NPUs, GPUs and CPUs.",
    epilog="Exit code: 0 pass, 1 fail, 2 wrong usage or unreadable input.",
)
for _command in (check, trace, check_submission, compare, env):
    _command.register(app)


def main() -> NoReturn:
    """Entry point of the `sfa` script."""
    try:
        app(prog_name="sfa")
    except UsageError as error:
        error_console().print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        error_console().print("interrupted", style="red")
        sys.exit(130)
    sys.exit(0)
