"""generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.help import EXTEND, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Json, Ops, known_op
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.cli.screen import print_whole
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.codegen.artifact import Definitions
    from opdb.codegen.writer import Difference, Outcome


def add_to(app: App) -> None:
    app.command(example="opdb generate --check", group=EXTEND)(generate)


#: Cache of rendered outputs with their inputs, below the root of the checkout (opdb.codegen.cache).
MEMORY = "build/rendered.json"


def repository() -> Path:
    """The root of the checkout that opdb runs from.  Raises OpdbError if opdb is installed as a package."""
    from opdb.core.errors import OpdbError
    from opdb.core.settings import _PACKAGE, is_source_tree

    if not is_source_tree():
        raise OpdbError(
            "this command needs a checkout of opdb (git clone, pip install -e .); this opdb is installed as a package"
        )
    return _PACKAGE.parent


@dataclass(frozen=True)
class GenerateOptions:
    """All options, in the order of the help."""

    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 with a diff if something is not current.")
    ] = False
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what would change.")] = False
    op: Ops = None
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Overwrite files that were edited by hand; with --check: render everything anew."
        ),
    ] = False
    list_: Annotated[bool, typer.Option("--list", help="List the outputs.")] = False
    database: DatabaseOptions = DatabaseOptions()
    json: Json = False


@with_option_groups
def generate(
    targets: Annotated[list[str] | None, typer.Argument(metavar="TARGET", help="Only these outputs.")] = None,
    options: GenerateOptions = GenerateOptions(),
) -> None:
    """Regenerate everything that the specs determine."""
    from opdb.codegen import writer
    from opdb.codegen.targets import TARGETS

    if options.list_:
        if options.json:
            print_json([{"name": t.name, "about": t.description} for t in TARGETS])
        else:
            print("\n".join(f"{t.name:22} {t.description}" for t in TARGETS))
        return
    root = repository()
    catalog = options.database.brought_up_to_date().snapshot()
    ops = [known_op(name, catalog.ops) for name in options.op or ()]
    only = targets or ()
    if options.check or options.diff:
        with working("compare"):
            differences = _differences(catalog, root, only, ops, options)
        _print_differences(differences, options.json)
        if options.check and differences:
            raise typer.Exit(1)
        return
    with working("generate"):
        outcome = writer.generate(
            catalog, root, TARGETS, only=only, ops=ops, force=options.force, memory=root / MEMORY
        )
    _print_outcome(outcome, options.json)


def _differences(
    catalog: Definitions, root: Path, only: Sequence[str], ops: Sequence[str], options: GenerateOptions
) -> Sequence[Difference]:
    """The outputs that are not current; with --check, uses the cache of rendered outputs."""
    from opdb.codegen import writer
    from opdb.codegen.targets import TARGETS

    if not options.check:
        return writer.diff(catalog, root, TARGETS, only=only, ops=ops)
    known = None if options.force else root / MEMORY
    return writer.check(catalog, root, TARGETS, only=only, ops=ops, memory=known)


def _print_differences(differences: Sequence[Difference], json: bool) -> None:
    if json:
        print_json([{"path": d.name, "kind": d.kind, "diff": d.diff} for d in differences])
        return
    for d in differences:
        print_whole(f"{d.kind}: {d.name}\n{d.diff}", end="")
    if differences:
        files = counted(len(differences), "file is", "files are")
        print(f"{files} not current; run: opdb generate")
    else:
        print("everything generated is current")


def _print_outcome(outcome: Outcome, json: bool) -> None:
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
