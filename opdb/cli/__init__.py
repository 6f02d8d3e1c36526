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

from opdb.cli import usage_errors
from opdb.cli.help import App
from opdb.cli.screen import wrap_streams
from opdb.core.errors import OpdbError
from opdb.core.plugins import Commands, commands
from opdb.core.version import __version__

app = App(
    example="opdb check model.onnx --soc SM8650",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"opdb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False,
        "--version",
        "-V",
        help="Print opdb's version and exit.",
        is_eager=True,
        callback=_print_version,
    ),
) -> None:
    """Which parts of your model run on a Qualcomm NPU, why the rest does not, and what to change.

    The op-spec database for Qualcomm QNN (AI Engine Direct).  `opdb help COMMAND` tells more about a command.
    """


#: The modules of commands in the order of the help, and the names that each adds; plug-ins insert theirs.
_COMMANDS = {
    "database": ("init", "sync", "lint", "db"),
    "add_op": ("add-op",),
    "generate": ("generate",),
    "query": ("query",),
    "diff": ("diff",),
    "explain": ("show", "explain"),
    "doctor": ("doctor",),
    "check": ("check",),
    "validate": ("validate",),
    "conformance": ("conformance",),
    "evidence": ("evidence",),
    "probe": ("probe",),
    "errata": ("errata",),
    "libraries": ("libraries",),
    "compile": ("compile",),
    "recipe": ("recipe",),
    "cost": ("cost",),
    "run": ("run",),
    "context": ("context",),
    "package": ("package",),
    "import_export": ("import", "export"),
    "about": ("help", "version", "completion"),
}


#: Commands that speak of others.
_ABOUT_ALL = ("help",)


def _modules() -> list[Commands]:
    """All modules of commands, with plug-ins' at their chosen places; a module that extends a group comes after the group."""
    ordered = [Commands(f"opdb.cli.{module}", names) for module, names in _COMMANDS.items()]
    for added in commands():
        before = added.after or added.names[0]
        at = max(i for i, module in enumerate(ordered) if before in module.names)
        ordered.insert(at + 1, added)
    return ordered


def _register(command: str = "") -> None:
    """Adds the commands of every module, or only of the modules with ``command`` if there are any."""
    modules = _modules()
    only = [m for m in modules if command in m.names and command not in _ABOUT_ALL]
    for module in only or modules:
        import_module(module.module).add_to(app)


def run() -> None:
    """The entry point ``opdb``: runs ``main`` and exits the process.

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
    """Runs the command in ``sys.argv``; raises SystemExit."""
    # Models live until the end: garbage collection every 700 objects would take a fifth of the time.
    gc.set_threshold(150_000)
    from opdb.cli import completion
    from opdb.core import foreign

    foreign.hide_warnings(sys.argv)
    words = completion.words() or sys.argv
    _register(words[1] if len(words) > 1 else "")
    wrap_streams()
    try:
        sys.exit(app(standalone_mode=False, prog_name="opdb"))
    except usage_errors.UsageError as error:
        said = usage_errors.line(error)
        print(f"opdb: {said}" if said else error.format_message(), file=sys.stderr)
        sys.exit(2)
    except OpdbError as error:
        for line in str(error).splitlines():
            print(f"opdb: {line}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("opdb: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
