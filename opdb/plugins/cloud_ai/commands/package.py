"""package aic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.options import Db, Json, Specs, known_op, synced
from opdb.cli.output import print_json
from opdb.cli.package import Force, Kernel, NoBuild, package_app
from opdb.core.errors import OpdbError


def add_to(app: typer.Typer) -> None:
    """The command stands in the group ``package``, to which importing this module adds it."""


@package_app.command()
def aic(
    ops: Annotated[list[str], typer.Argument(metavar="OP...", help="The ops of the package.")],
    api: Annotated[
        str,
        typer.Option(
            "--api", metavar="VERSION", help="The generation of the interface: 1.17, 5.0.0 or 1.21."
        ),
    ] = "1.21",
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<name>.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the package.")] = "opdb",
    domain: Annotated[
        str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the ops in ONNX files.")
    ] = "com.opdb",
    version: Annotated[
        str | None, typer.Option("--version", metavar="N.N.N", help="The version that the SDK checks.")
    ] = None,
    scratch: Annotated[
        int, typer.Option("--scratch", metavar="BYTES", help="Scratch of an op that needs any.")
    ] = 2**20,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--inputs", metavar="OP=N", help="How many inputs, where it is open; may be repeated."),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--outputs", metavar="OP=N", help="How many outputs; may be repeated.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", metavar="OP.NAME", help="An input or parameter that is left out; may be repeated."
        ),
    ] = None,
    kernel: Kernel = None,
    no_build: NoBuild = False,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Generate a custom-op package for Qualcomm Cloud AI from specs and kernels, and compile it."""
    from opdb.plugins.cloud_ai import aic_package
    from opdb.plugins.cloud_ai.codegen.aic import Choice, Counts

    _, catalog = synced(db, specs)
    names = [known_op(op, catalog.ops) for op in ops]
    counts = Counts(_numbers(inputs, "--inputs"), _numbers(outputs, "--outputs"), frozenset(without or ()))
    choice = Choice(api, name, domain, version, scratch, counts)
    made = aic_package.write(catalog, names, choice, folder, kernels=kernel or (), force=force)
    libraries = () if no_build else aic_package.build(made)
    if json:
        print_json(
            {
                "package": name,
                "ops": list(made.ops),
                "api": api,
                "domain": domain,
                "folder": str(made.folder),
                "files": list(made.files),
                "config": str(made.config),
                "libraries": [str(p) for p in libraries],
            }
        )
        return
    print(f"{name} for Cloud AI {api}: {', '.join(made.ops)}; {len(made.files)} files in {made.folder}")
    print(f"config    {made.config}")
    if no_build:
        print(f"build it with: make -C {made.folder}")
    for path in libraries:
        print(f"library   {path}")


def _numbers(given: list[str] | None, option: str) -> dict[str, int]:
    """OP=N by op.  Raises OpdbError for what is not that."""
    found = {}
    for text in given or ():
        op, _, number = text.partition("=")
        if not number.isdecimal():
            raise OpdbError(f"{option} {text}: expected OP=N, e.g. Concat=3")
        found[op] = int(number)
    return found
