"""add-op."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.options import Db, Specs, synced


def add_to(app: typer.Typer) -> None:
    app.command(name="add-op")(add_op)


def add_op(
    name: Annotated[str, typer.Argument(help="QNN's name of the op, ex) LayerNorm.")],
    torch: Annotated[
        list[str] | None,
        typer.Option(
            "--torch", metavar="TARGET", help="ATen target, ex) aten.relu.default; may be repeated."
        ),
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="OP", help="Take what the facts do not say from this op.")
    ] = None,
    package: Annotated[str | None, typer.Option("--package", help="Op package, if not qti.aisw.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")] = False,
    db: Db = None,
    specs: Specs = None,
) -> None:
    """Write the spec of an op from the bundled facts, regenerate, compile, and prove it."""
    from opdb import authoring
    from opdb.cli.generation import recorder, repository
    from opdb.codegen import writer
    from opdb.codegen.targets import TARGETS
    from opdb.lint import lint
    from opdb.settings import specs_folder

    root, folder = repository(), specs_folder(specs)
    new = authoring.draft(name, folder, torch or (), like, package)
    shown = new.path.relative_to(root) if new.path.is_relative_to(root) else new.path
    print(authoring.changes(new) or new.text, end="")
    if not yes and not typer.confirm(f"\nwrite {shown}?"):
        print("nothing written")
        raise typer.Exit(1)
    authoring.write(new, folder)
    print(f"\nwrote     {shown} ({len(new.text.splitlines())} lines)")
    open_points = [line.removeprefix("# ") for line in new.text.splitlines() if line.startswith("# not ")]
    open_points += [str(p) for p in lint(folder) if Path(p.path).stem == name]

    opened, catalog = synced(db, specs)
    outcome = writer.generate(catalog, root, TARGETS, record=recorder(opened))
    print(f"generated {len(outcome.written)} files, {outcome.unchanged} unchanged")
    authoring.build(root)
    print("compiled  validators, shim and kernel", flush=True)
    status = authoring.prove(name, root, ["--db", db] if db else [])
    for point in open_points:
        print(f"left: {point}")
    if status:
        raise typer.Exit(1)
