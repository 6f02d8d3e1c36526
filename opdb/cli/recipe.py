"""recipe show."""

from __future__ import annotations

from typing import Annotated

import typer

from opdb.cli import screen
from opdb.cli.help import BUILD, App
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.cli.screen import print_whole

recipe_app = App(
    "recipe", example="opdb recipe show 8a8w", help="How models are quantized: recipes by name, or in a file."
)


def add_to(app: App) -> None:
    app.add(recipe_app, BUILD)


@recipe_app.command(example="opdb recipe show 8a8w")
def show(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A name, or a .yaml file. [all names]")
    ] = None,
    json: Json = False,
) -> None:
    """Print a recipe, or without a name the list of recipes.

    The recipe is printed with everything that it says, as YAML that --quantize takes.
    """
    from opdb.lower.quantize.recipe import named, names
    from opdb.spec.rules import dump_data

    if recipe is None:
        found = [named(n) for n in names()]
        if json:
            print_json([{"name": r.name, "about": r.about} for r in found])
            return
        width = max(len(r.name) for r in found)
        for r in found:
            print(f"{r.name:{width}}  {r.about}")
        return
    said = named(recipe).spelled()
    if json:
        print_json(said)
    else:
        print_whole(dump_data(said, screen.width()) if screen.is_terminal() else dump_data(said), end="")
