"""The command line: the only code that prints or exits.

Each command imports what it needs when it runs, so that ``opdb --help`` and ``opdb query`` start fast.
Exit status: 0 fine, 1 a check failed, 2 bad use or bad input (one clear message on stderr, no traceback).
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module

import typer

from opdb import __version__
from opdb.core.errors import OpdbError

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


#: The modules of commands in the order of the help, and the names that each adds.
_COMMANDS = {
    "database": ("init", "sync", "lint", "db"),
    "add_op": ("add-op",),
    "generation": ("generate",),
    "questions": ("query", "diff", "show", "explain", "doctor"),
    "check": ("validate", "check"),
    "conformance": ("conformance",),
    "evidence": ("evidence",),
    "probe": ("probe",),
    "errata": ("errata",),
    "libraries": ("libraries",),
    "compile": ("compile",),
    "recipes": ("recipe",),
    "cost": ("cost",),
    "opdb.plugins.packages.commands.build": ("build",),
    "run": ("run",),
    "opdb.plugins.executorch.commands.debug": ("debug",),
    "context": ("context",),
    "package": ("package",),
    "opdb.plugins.cloud_ai.commands.aic": ("aic",),
    "opdb.plugins.executorch.commands.executorch": ("executorch",),
    "imports": ("import", "export"),
    "opdb.plugins.executorch.commands.demo": ("demo",),
}


def _register(command: str = "") -> None:
    """Adds the commands of every module; of one module alone if ``command`` is one of its names."""
    owners = [module for module, names in _COMMANDS.items() if command in names]
    for module in owners or _COMMANDS:
        import_module(module if "." in module else f"opdb.cli.{module}").add_to(app)


def run() -> None:
    """The entry point ``opdb``: ``main`` in a process of its own.

    Once PyTorch is imported, Python takes a second to shut down, so the process exits directly after its exit handlers.
    """
    try:
        main()
    except SystemExit as end:
        if "torch" not in sys.modules or not isinstance(end.code, int | None):
            raise
        atexit._run_exitfuncs()  # temporary files and child processes
        for stream in (sys.stdout, sys.stderr):
            with suppress(BrokenPipeError):  # e.g. opdb check ... | head
                stream.flush()
        os._exit(end.code or 0)


def main() -> None:
    """The command that ``sys.argv`` has; raises SystemExit."""
    # Models live until the end: collecting every 700 objects takes a fifth of the time.
    gc.set_threshold(150_000)
    _register(sys.argv[1] if len(sys.argv) > 1 else "")
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
