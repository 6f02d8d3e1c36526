"""recipe show, and --quantize of the other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.lower.quantize import Recipe

recipe_app = typer.Typer(
    help="How models are quantized: recipes by name, or in a YAML file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(recipe_app, name="recipe")


@recipe_app.command()
def show(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A name, or a .yaml file. [all names]")
    ] = None,
    json: Json = False,
) -> None:
    """Print a recipe with everything that it says, as YAML that --quantize takes; without a name, what there is."""
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
        print(dump_data(said), end="")


def asked_recipe(quantize: str | None, dtype: str) -> tuple[Recipe | None, str]:
    """The recipe of --quantize, None where nothing is quantized, and the type of floats: the recipe fp16 is --dtype f16.

    Raises OpdbError for an unknown recipe, SpecError for a wrong file.
    """
    from opdb.lower.quantize.recipe import named

    if quantize is None:
        return None, dtype
    found = named(quantize)
    if found.float:
        return None, "f16"
    if dtype != "f32":
        raise OpdbError(f"--dtype {dtype}: a model is quantized from float32; leave --dtype out")
    return found, dtype
