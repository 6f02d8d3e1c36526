"""executorch env, table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.options import Json
from opdb.cli.output import print_json

executorch_app = typer.Typer(
    help="What plugs into ExecuTorch's Qualcomm backend.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(executorch_app, name="executorch")


@executorch_app.command()
def env(
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where to prepare; else the user's cache.")
    ] = None,
    json: Json = False,
) -> None:
    """Prepare the SDK folder for ExecuTorch's Qualcomm flow and print the environment, for eval "$(...)"."""
    from opdb.executorch.env import prepare

    environment = prepare(folder)
    if json:
        print_json(environment.variables)
    else:
        print(environment.shell(), end="")


@executorch_app.command()
def table(json: Json = False) -> None:
    """List the ATen targets whose builders opdb registers, and the QNN ops they become."""
    from opdb.generated.builders import TARGETS

    rows = [
        {"torch_op": target, "forms": [f.name for f in forms]} for target, forms in sorted(TARGETS.items())
    ]
    if json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['torch_op']:44} {', '.join(row['forms'])}")
