"""help, version, completion."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from opdb.cli.help import MAINTAIN, App
from opdb.cli.options import Json
from opdb.core.errors import OpdbError


def add_to(app: App) -> None:
    app.command("help", example="opdb help libraries install", group=MAINTAIN)(help_of)
    app.command(example="opdb version", group=MAINTAIN)(version)
    app.command(example="opdb completion bash >> ~/.bashrc", group=MAINTAIN)(completion)


def help_of(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="E.g. check, or libraries install.")
    ] = None,
) -> None:
    """Show the help of a command, or the list of commands."""
    assert context.parent is not None
    asked: Any = context.parent.command
    where = context.parent
    for name in command or ():
        below = getattr(asked, "commands", {})
        if name not in below:
            raise OpdbError(f"no command '{' '.join(command or ())}'; 'opdb help' lists them")
        asked = below[name]
        where = type(context)(asked, info_name=name, parent=where, resilient_parsing=True)
    typer.echo(asked.get_help(where))


def version(json: Json = False) -> None:
    """Print opdb's version."""
    from opdb.cli.output import print_json
    from opdb.core.version import __version__

    if json:
        print_json({"opdb": __version__})
    else:
        print(f"opdb {__version__}")


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the lines that make a shell complete opdb's words.

    Put them where the shell reads them when it starts:

    \b
      bash  opdb completion bash >> ~/.bashrc
      zsh   opdb completion zsh >> ~/.zshrc
      fish  opdb completion fish > ~/.config/fish/completions/opdb.fish
    """
    from opdb.cli.completion import script

    print(script(shell.value))
