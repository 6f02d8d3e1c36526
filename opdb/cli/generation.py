"""generate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.options import Db, Json, Ops, Specs, brought_up_to_date, known_op
from opdb.cli.output import print_json


def add_to(app: typer.Typer) -> None:
    app.command()(generate)


#: Below the root of the checkout: what rendering gave here, from which inputs (opdb.codegen.cache).
MEMORY = "build/rendered.json"


def repository() -> Path:
    """The root of the checkout that opdb runs from.  Raises OpdbError for an installed opdb."""
    from opdb.core.errors import OpdbError
    from opdb.core.settings import _PACKAGE, is_source_tree

    if not is_source_tree():
        raise OpdbError(
            "this command needs a checkout of opdb (git clone, pip install -e .); this opdb is installed as a package"
        )
    return _PACKAGE.parent


def generate(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]...", help="Only these outputs.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 with a diff if something is not current.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what would change.")] = False,
    op: Ops = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Overwrite files that were edited by hand; with --check: render everything anew."
        ),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the outputs.")] = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Regenerate everything that the specs determine."""
    from opdb.codegen import writer
    from opdb.codegen.targets import TARGETS

    if list_:
        print("\n".join(f"{t.name:22} {t.description}" for t in TARGETS))
        return
    root = repository()
    opened, report = brought_up_to_date(db, specs)
    catalog = opened.snapshot(report.catalog)
    ops = [known_op(name, catalog.ops) for name in op or ()]
    only = targets or ()
    if check or diff:
        if check:
            known = None if force else root / MEMORY
            differences = writer.check(catalog, root, TARGETS, only=only, ops=ops, memory=known)
        else:
            differences = writer.diff(catalog, root, TARGETS, only=only, ops=ops, memory=root / MEMORY)
        if json:
            print_json([{"path": d.name, "kind": d.kind, "diff": d.diff} for d in differences])
        else:
            for d in differences:
                print(f"{d.kind}: {d.name}\n{d.diff}", end="")
            print(
                "everything generated is current"
                if not differences
                else f"{len(differences)} files are not current; run: opdb generate"
            )
        if check and differences:
            raise typer.Exit(1)
        return

    outcome = writer.generate(catalog, root, TARGETS, only=only, ops=ops, force=force, memory=root / MEMORY)
    if json:
        print_json(
            {
                "written": list(outcome.written),
                "removed": list(outcome.removed),
                "unchanged": outcome.unchanged,
            }
        )
        return
    for path in outcome.written:
        print(f"wrote   {path}")
    for path in outcome.removed:
        print(f"removed {path}")
    print(f"{len(outcome.written)} written, {len(outcome.removed)} removed, {outcome.unchanged} unchanged")
