"""import cloud-ai."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.help import App
from opdb.cli.import_export import Force, Output, import_app, write_drafts
from opdb.cli.option_groups import DatabaseOptions
from opdb.cli.options import Db, Json, Specs


def add_to(app: App) -> None:
    """Nothing to do: importing this module adds the command to the group ``import``."""


@import_app.command("cloud-ai", example="opdb import cloud-ai custom_op_config.yaml -o drafts")
def import_cloud_ai(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The custom_op_config.yaml of a Cloud AI package.")
    ],
    output: Output = None,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Draft the specs of the custom ops of a Cloud AI package."""
    from opdb.plugins.cloud_ai.importer import read

    write_drafts(file, read(file), output, force, DatabaseOptions(db, specs), json)
