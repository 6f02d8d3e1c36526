"""A wrong command line in one line: the command, what is wrong, and the cure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

from opdb.core.guess import did_you_mean

#: Typer's error for a wrong command line.  Its classes are Click's or a copy of them, by version; these names are in all of them.
UsageError: Any = typer.BadParameter.__mro__[1]
#: Options of other tools: the option that does the same here, and how it is written.
ELSEWHERE = {
    "--html": ("--format", "--format html -o FILE.html"),
    "--csv": ("--format", "--format csv"),
    "--chip": ("--soc", "--soc"),
    "--target": ("--soc", "--soc"),
    "--quantise": ("--quantize", "--quantize"),
}


def line(error: Any) -> str:
    """The line about a UsageError, which names the help of its command; "" if the command only shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    path = "opdb" if error.ctx is None else error.ctx.command_path
    command = path.partition(" ")[2]
    fault = _fault(error, error.ctx)
    return f"{f'{command}: ' if command else ''}{fault} (see {path} --help)"


def _fault(error: Any, context: Any) -> str:
    said = str(error.format_message()).removesuffix(".")
    command = context and context.command
    if (option := getattr(error, "option_name", None)) and said.startswith("No such option"):
        options = list(_options(command))
        instead = ELSEWHERE.get(option)
        if instead is not None and instead[0] in options:
            return f"no option {option}; give {instead[1]}"
        return f"no option {option}{did_you_mean(option, options)}"
    if said.startswith("No such command"):
        name = said.split("'")[1]
        return f"no command '{name}'{did_you_mean(name, command.list_commands(context))}"
    if said.startswith("Missing"):
        name = said.split("'")[1].strip("{}")
        return f"{name if name.startswith('-') or not name.islower() else name.upper()} is missing"
    if said.startswith("Invalid value"):
        said = said.replace("Invalid value for ", "").replace("'", "", 2)
        said = said.replace("Value error, ", "").partition(", unable to parse")[0]
        return said.replace("Input should be a valid integer", "give a whole number").replace(
            "Input should be a valid number", "give a number"
        )
    return said[:1].lower() + said[1:]


def _options(command: Any) -> Iterable[str]:
    return [o for p in command.params for o in p.opts if o.startswith("--")] if command else []
