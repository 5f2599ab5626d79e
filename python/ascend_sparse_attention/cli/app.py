# SPDX-License-Identifier: Apache-2.0
"""Puts the commands of `sfa` together.

A command module offers `register(app)`. It imports torch only inside its command, so that `sfa --help` answers at once.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .. import __version__
from . import check, check_submission, compare, env, trace
from .console import OutputError, UsageError, error_console

# What a shell reports of a program that SIGPIPE ended.
_EXIT_CLOSED = 141


class _Interrupted(Exception):
    """Ctrl-C, on its way past typer, which would answer it without a word."""


class _Group(TyperGroup):
    """Takes what typer would turn into its own exit codes (1 on a closed pipe) and hands it to `main`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error
        except BrokenPipeError as error:
            raise OutputError("the output's reader has gone", closed=True) from error


app = typer.Typer(
    name="sfa",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Check the precision of sparse flash attention on Ascend NPUs, GPUs and CPUs.",
    epilog="Exit code: 0 pass, 1 fail, 2 wrong usage, unreadable input or lost output.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfa {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version and stop.")
    ] = False,
) -> None:
    """The options of `sfa` itself."""


for _command in (check, trace, check_submission, compare, env):
    _command.register(app)


def main() -> NoReturn:
    """Run the command of `sys.argv`; exit code 0 pass, 1 fail, 2 wrong usage, unreadable input or lost output."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character gets its code, not an error.
            stream.reconfigure(errors="backslashreplace")
    code = _run()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = _EXIT_CLOSED
        _drop_output()
    except OSError as error:
        code = _complain(f"the output could not be written: {error.strerror or error}")
        _drop_output()
    sys.exit(code)


def _run() -> int:
    try:
        app(prog_name="sfa")
    except SystemExit as end:
        # typer and rich, where they write themselves (--help, --version), make exit code 1 of a closed pipe.
        if isinstance(end.__context__, BrokenPipeError):
            _drop_output()
            return _EXIT_CLOSED
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 2
    except UsageError as error:
        return _complain(str(error))
    except OutputError as error:
        if not error.closed:
            _complain(str(error))
        _drop_output()
        return _EXIT_CLOSED if error.closed else 2
    except (_Interrupted, KeyboardInterrupt):
        _complain("interrupted", prefix="")
        return 130
    except OSError as error:
        # Text that typer itself wrote (--help), or the system's trouble with something that no command foresaw.
        lost = error.filename is None and error.strerror is not None
        code = _complain(f"the output could not be written: {error.strerror}" if lost else str(error))
        _drop_output()
        return code
    except Exception:
        # A fault of this program. Exit code 1 would say that the operator failed.
        traceback.print_exc()
        return 2
    return 0


def _complain(message: str, prefix: str = "error: ") -> int:
    """One line on standard error; returns the exit code of wrong usage."""
    with contextlib.suppress(OutputError):
        error_console().print(f"{prefix}{message}", style="red", markup=False, highlight=False, soft_wrap=True)
    return 2


def _drop_output() -> None:
    """Standard output that takes nothing any more would complain once again when the interpreter flushes it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
