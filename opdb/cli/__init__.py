"""The command line: the only code that prints or exits.

Each command imports what it needs when it runs, so that ``opdb --help`` and ``opdb query`` start fast.
Exit status: 0 fine, 1 a check failed, 2 bad use or bad input (one clear message on stderr, no traceback).
"""

from __future__ import annotations

import os
import sys

import typer

from opdb import __version__
from opdb.errors import OpdbError

app = typer.Typer(
    name="opdb",
    help="The op-spec database for Qualcomm QNN (AI Engine Direct).",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"opdb {__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def _options(
    version: bool = typer.Option(
        False, "--version", help="Print opdb's version and exit.", is_eager=True, callback=_print_version
    ),
) -> None:
    """``--version`` is the only option without a command."""


def _register() -> None:
    from opdb.cli import (
        authoring,
        build,
        compile,
        conformance,
        context,
        database,
        demo,
        executorch,
        generation,
        importing,
        judging,
        libraries,
        package,
        probing,
        questions,
        run,
    )

    for module in (
        database,
        authoring,
        generation,
        questions,
        judging,
        conformance,
        probing,
        libraries,
        compile,
        build,
        run,
        context,
        package,
        executorch,
        importing,
        demo,
    ):
        module.add_to(app)


def main() -> None:
    """The entry point ``opdb``."""
    _register()
    try:
        app()
    except OpdbError as error:
        for line in str(error).splitlines():
            print(f"opdb: {line}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("opdb: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
