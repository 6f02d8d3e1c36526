"""site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.help import ASK, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Json
from opdb.cli.output import print_json


def add_to(app: App) -> None:
    app.command(example="opdb site -o site", group=ASK)(site)


@with_option_groups
def site(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder of the site; an earlier site in it is replaced."
        ),
    ],
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Write the catalog as a static site with a search.

    It has a page for each op, operator, rule, erratum, error, chip and SDK, and needs no server. With clang and wasm-ld the page of
    an op answers for a configuration that is edited in it.
    """
    from opdb.cli.progress import Stages
    from opdb.plugins.site.write import refuse_foreign, write

    refuse_foreign(output)
    with Stages() as stages:
        stages("opening the database")
        opened = database.brought_up_to_date()
        done = write(opened, output, stages, stages.count)
    if done.left_out:
        print(f"opdb: live verdicts are left out: {done.left_out}", file=sys.stderr)
    if json:
        print_json({
            "folder": str(done.folder), "pages": done.pages, "files": done.files, "bytes": done.size,
            "largest_page": {"path": done.largest[1], "bytes": done.largest[0]}, "verdicts": not done.left_out,
        })  # fmt: skip
        return
    total = sum(done.pages.values())
    print(
        f"{done.folder / 'index.html'}: {total} pages, {done.size / 1e6:.1f} MB; the largest page has {done.largest[0] / 1e3:.0f} kB"
    )
