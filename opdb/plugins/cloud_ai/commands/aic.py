"""aic skeleton; ``aic check`` is in ``check``.  ``package aic`` makes packages from specs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.help import EXTEND, App
from opdb.cli.option_groups import DatabaseOptions, SourceOptions, with_option_groups
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.cli.progress import working

aic_app = App(
    "aic", example="opdb aic check custom_ops", help="Check and draft custom ops for Qualcomm Cloud AI."
)


def add_to(app: App) -> None:
    from opdb.plugins.cloud_ai.commands.check import check

    aic_app.command(example="opdb aic check custom_ops")(check)
    app.add(aic_app, EXTEND)


@aic_app.callback()
def _group() -> None:
    """Keeps ``aic`` a group even with a single command."""


@aic_app.command(example="opdb aic skeleton model.onnx -o custom_ops")
@with_option_groups
def skeleton(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL.onnx", help="A model with nodes of foreign domains.")
    ],
    folder: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where drafts and packages go.")
    ] = Path("custom_ops"),
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="DOMAIN", help="Only nodes of this domain.")
    ] = None,
    api: Annotated[
        str,
        typer.Option(
            "--api", metavar="VERSION", help="The generation of the interface: 1.17, 5.0.0 or 1.21."
        ),
    ] = "1.21",
    kernel: Annotated[
        list[Path] | None,
        typer.Option("--kernel", metavar="FILE.c", help="C file with the kernel opdb_<op>; may be repeated."),
    ] = None,
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Draft the specs of a model's custom ops.

    Those that have a kernel become a package.
    """
    from opdb.plugins.cloud_ai import aic_package
    from opdb.plugins.cloud_ai import skeleton as maker

    catalog = database.catalog()
    made = maker.make(
        catalog, model, folder, domain=domain, api=api, kernels=kernel or (), force=sources.force
    )
    if not sources.no_build:
        with working("compile the packages"):
            for written in made.packages:
                aic_package.build(written)
    if json:
        print_json(maker.summary(made))
        return
    for op, path in made.drafts.items():
        print(f"{op}: {path}")
        for word in made.words[op]:
            print(f"  not expressed: {word}")
    for written in made.packages:
        print(f"{written.name} for Cloud AI {api}: {', '.join(written.ops)}\nconfig    {written.config}")
    for op, why in made.left.items():
        print(f"{op} is in no package: {why}")
