"""Formats ``--help``: commands in groups, one example each, and words of the field instead of Python's types.

    app = App("libraries", example="opdb libraries list", help="...")

    @app.command(example="opdb libraries install 2.51")
    def install(version: ...): ...

An example is one line that fits 80 columns; tests/cli/test_help.py parses each with the command that it stands at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer import Context

#: The groups of ``opdb --help``, in this order; commands without one come last.
ASK, CHECK, BUILD, MEASURE, EXTEND, MAINTAIN = GROUPS = (
    "Ask the catalog",
    "Check a model",
    "Build and run",
    "Measure",
    "Extend",
    "Maintain",
)
OTHER = "More"
Function = TypeVar("Function", bound=Callable[..., Any])


class App(typer.Typer):
    """Typer's app whose commands take an ``example`` and whose help is opdb's; ``name`` is "" for the command opdb itself."""

    def __init__(
        self, name: str = "", *, example: str = "", cls: type[TyperGroup] | None = None, **words: Any
    ) -> None:
        super().__init__(
            name=name or None,
            cls=cls or Group,
            epilog=example or None,
            no_args_is_help=True,
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **words,
        )

    def command(
        self,
        name: str | None = None,
        *,
        example: str = "",
        group: str | None = None,
        cls: type[TyperCommand] | None = None,
        **words: Any,
    ) -> Callable[[Function], Function]:
        """A decorator; ``group``: the heading in the help, one of GROUPS."""
        return super().command(
            name, cls=cls or Command, epilog=example or None, rich_help_panel=group, **words
        )

    def add(self, below: App, group: str | None = None) -> None:
        """Adds an app of commands below its name; ``group``: as in ``command``."""
        self.add_typer(below, name=below.info.name, rich_help_panel=group)


class _Help:
    """The parts of the help that commands and groups have in common."""

    def collect_usage_pieces(self: Any, ctx: Context) -> list[str]:
        arguments = [argument_name(p, usage=True) for p in self.params if is_argument(p)]
        last = ["COMMAND [ARGS]..."] if isinstance(self, TyperGroup) else []
        return ["[OPTIONS]", *arguments, *last]

    def format_options(self: Any, ctx: Context, formatter: Any) -> None:
        found = list(records(self, ctx))
        for title, arguments in (("Arguments", True), ("Options", False)):
            some = [(name, about) for is_one, name, about in found if is_one is arguments]
            if some:
                with formatter.section(title):
                    formatter.write_dl(some)
        for title, rows in self.more().items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def more(self) -> Mapping[str, list[tuple[str, str]]]:
        """Further sections of the help: names and what they mean."""
        return {}

    def format_epilog(self: Any, ctx: Context, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Example"):
                formatter.write(f"{'':{formatter.current_indent}}{self.epilog}\n")

    def parse_args(self: Any, ctx: Context, args: list[str]) -> Any:
        _check_html(self, args)
        return super().parse_args(ctx, args)  # type: ignore[misc]  # the class that this is mixed into


class Command(_Help, TyperCommand):  # type: ignore[misc]  # a mix-in's signatures are looser
    """A command with opdb's help."""


class Group(_Help, TyperGroup):  # type: ignore[misc]  # as above
    """A group of commands with opdb's help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        for title, commands in grouped(self, ctx):
            with formatter.section(title):
                formatter.write_dl([(name, summary(command)) for name, command in commands])


def grouped(group: TyperGroup, ctx: Context) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The headings of a group's help, each with its commands by name."""
    shown = [(name, found) for name in group.list_commands(ctx) if not (found := group.commands[name]).hidden]
    panels = {name: getattr(command, "rich_help_panel", None) for name, command in shown}
    if not any(isinstance(panel, str) for panel in panels.values()):
        yield "Commands", shown
        return
    for title in (*GROUPS, OTHER):
        some = [(n, c) for n, c in shown if (p := panels[n]) == title or (title == OTHER and p not in GROUPS)]
        if some:
            yield title, some


def summary(command: Any) -> str:
    """The first paragraph of a command's help, without its period."""
    return " ".join((command.help or "").partition("\n\n")[0].split()).removesuffix(".")


def records(command: Any, ctx: Context) -> Iterator[tuple[bool, str, str]]:
    """For each parameter with help: True if it is an argument, its name with the metavar, its help."""
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            argument = is_argument(parameter)
            name = argument_name(parameter) if argument else record[0]
            yield argument, name, record[1].replace("  [required]", "")


def is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def argument_name(parameter: Any, usage: bool = False) -> str:
    """An argument in the words of the field, e.g. MODEL; for the usage also whether it can be left out or repeated."""
    name = parameter.metavar or parameter.name.upper()
    if not usage:
        return str(name)
    return f"{name if parameter.required else f'[{name}]'}{'...' * (parameter.nargs != 1)}"


def _check_html(command: Any, args: Sequence[str]) -> None:
    """Raises OpdbError for --html if the command calls it --format html."""
    from opdb.core.errors import OpdbError

    known = {name for p in command.params for name in p.opts}
    if "--format" in known and "--html" not in known and any(a.partition("=")[0] == "--html" for a in args):
        raise OpdbError("--html: write --format html -o FILE")
