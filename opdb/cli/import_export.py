"""import xml, udo, header, docs; export xml.  Plug-ins add more."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.help import EXTEND, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Db, Format, Json, Specs, known_op, open_catalog
from opdb.cli.output import print_json, print_rows
from opdb.cli.screen import print_whole
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.author.importers.opxml.collection import Collection
    from opdb.spec.catalog import Catalog

import_app = App(
    "import",
    example="opdb import xml package.xml -o drafts",
    help="Draft specs from files of Qualcomm's SDK and op packages.",
)
export_app = App(
    "export",
    example="opdb export xml LayerNorm --package Mine -o mine.xml",
    help="Write files for Qualcomm's SDK from the specs.",
)

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder for drafts; default: specs/drafts."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite drafts that are there.")]
Formatted = Annotated[
    Format, typer.Option("--format", metavar="FORMAT", help="table, json, csv, md or html.")
]


def add_to(app: App) -> None:
    app.add(import_app, EXTEND)
    app.add(export_app, EXTEND)


@import_app.command("xml", example="opdb import xml package.xml -o drafts")
def import_xml(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="An OpDef collection, as the op package generator reads it."),
    ],
    output: Output = None,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Draft the specs of the custom ops in an XML file."""
    from opdb.author.importers.opxml.read import read

    write_drafts(file, [read(file)], output, force, DatabaseOptions(db, specs), json)


@import_app.command("udo", example="opdb import udo package.json -o drafts")
def import_udo(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON of a UDO package of SNPE.")],
    output: Output = None,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Draft the specs of the ops of a UDO package."""
    from opdb.author.importers.udo import read

    write_drafts(file, read(file), output, force, DatabaseOptions(db, specs), json)


def write_drafts(
    file: Path,
    found: Sequence[Collection],
    output: Path | None,
    force: bool,
    database: DatabaseOptions,
    json: bool,
) -> None:
    """Writes the drafts of packages, and prints the parts that they do not express."""
    from opdb.author.importers.opxml.draft import drafts
    from opdb.core.errors import OpdbError

    catalog, folder = _catalog(database.db, database.specs, output)
    names = [op.name for collection in found for op in collection.ops]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise OpdbError(f"{file}: {', '.join(twice)} is there more than once; a spec has one op of a name")
    taken = [name for name in names if name in catalog.ops]
    if taken and output is None:
        raise OpdbError(
            f"{file}: specs/ops has {', '.join(taken)} already; rename the op, or write the drafts to a folder of "
            "their own with --output"
        )
    made = [d for collection in found for d in drafts(collection, file.name, catalog.backends)]
    for note in (n for collection in found for n in collection.notes):
        print(f"{file}: warning: {note}", file=sys.stderr)
    paths = _write(folder, {d.op: d.text for d in made}, force)
    if json:
        print_json([{"op": d.op, "file": str(paths[d.op]), "not_expressed": list(d.words)} for d in made])
        return
    for d in made:
        print(f"{d.op}: {paths[d.op]}")
        for word in d.words:
            print(f"  not expressed: {word}")


@import_app.command("header", example="opdb import header QnnOpDef.h")
def import_header(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="QnnOpDef.h of an SDK.")],
    drafts: Annotated[bool, typer.Option("--drafts", help="Write drafts of what is new.")] = False,
    output: Output = None,
    force: Force = False,
    fail_on_difference: Annotated[
        bool, typer.Option("--fail-on-difference", help="Exit 1 if there is any difference.")
    ] = False,
    format_: Formatted = Format.table,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Compare the names and enum values of a header with the catalog."""
    from opdb.author.importers import header

    catalog, folder = _catalog(db, specs, output if drafts else Path())
    found = header.read(file)
    rows = header.compare(found, catalog)
    if drafts:
        _say(_write(folder, header.drafts(found, catalog, file.name), force))
    print_rows(rows, header.COLUMNS, Format.json if json else format_, f"{file.name}, op set {found.opset}")
    if rows and fail_on_difference:
        raise typer.Exit(1)


@import_app.command("docs", example="opdb import docs docs/QNN/OpDef --dry-run")
def import_docs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The SDK's docs/QNN/OpDef.")],
    sdk: Annotated[
        str | None,
        typer.Option(
            "--sdk",
            metavar="VERSION",
            help="Version of the SDK, if opdef_version_history.html does not state it.",
            autocompletion=completion.sdks,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report only; write no drafts.")] = False,
    output: Output = None,
    force: Force = False,
    format_: Formatted = Format.table,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Draft what a newer SDK documents.

    New ops, and next versions of specs that change.
    """
    import sys

    from opdb.author.importers.pages.next_version import COLUMNS, update
    from opdb.author.importers.pages.read import read

    catalog, target = _catalog(db, specs, Path() if dry_run else output)
    pages = read(folder, sdk)
    report = update(pages, catalog)
    if not dry_run:
        _say(_write(target, report.drafts, force))
    print_rows(report.rows, COLUMNS, Format.json if json else format_, f"SDK {pages.sdk}")
    print(
        f"SDK {pages.sdk}: {counted(len(pages.ops), 'op')}, {counted(len(report.rows), 'difference')}, "
        f"{counted(len(report.drafts), 'draft')}; "
        f"opdb does not read {counted(report.unread, 'phrase')} about known ops",
        file=sys.stderr,
    )


@export_app.command("xml", example="opdb export xml LayerNorm --package Mine -o mine.xml")
@with_option_groups
def export_xml(
    ops: Annotated[
        list[str],
        typer.Argument(metavar="OP", help="The ops of the collection.", autocompletion=completion.ops),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file; default: standard output."),
    ] = None,
    package: Annotated[
        str | None,
        typer.Option("--package", metavar="NAME", help="Op package; default: the one in the specs."),
    ] = None,
    domain: Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="The package's domain.")] = "aisw",
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="The package's version.")
    ] = "1.0",
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Write the OpDef collection of ops.

    For the op package generator, and for ExecuTorch.
    """
    import sys

    from opdb.author.importers.opxml.limits import LIMITS, left_out
    from opdb.author.importers.opxml.specs import collection
    from opdb.author.importers.opxml.write import write
    from opdb.core.files import write_atomically

    catalog = database.catalog()
    names = list(dict.fromkeys(known_op(name, catalog.ops) for name in ops))
    text = write(collection([catalog.ops[n] for n in names], package, domain, version))
    lost = {part for name in names for part in left_out(catalog.ops[name])}
    missing = {part: why for part, why in LIMITS.items() if part in lost}
    if output is not None:
        write_atomically(output, text)
    if json:
        file = None if output is None else str(output)
        print_json(
            {"file": file, "ops": names, "not_in_the_xml": missing, "xml": text if output is None else None}
        )
        return
    if output is None:
        print_whole(text, end="")
    else:
        print(f"{output}: {', '.join(names)}")
    for part, why in missing.items():
        print(f"not in the XML: {part} ({why})", file=sys.stderr)


def _catalog(db: str | None, specs: Path | None, output: Path | None) -> tuple[Catalog, Path]:
    """The catalog, and the folder of drafts."""
    from opdb.core.errors import OpdbError
    from opdb.core.settings import is_source_tree, specs_folder

    folder = specs_folder(specs)
    if output is None and specs is None and not is_source_tree():
        raise OpdbError("an installed opdb keeps no drafts; name a folder for them with --output")
    return open_catalog(db, specs), folder / "drafts" if output is None else output


def _write(folder: Path, texts: Mapping[str, str], force: bool) -> dict[str, Path]:
    from opdb.author.importers.drafts import write_drafts

    return dict(zip(texts, write_drafts(folder, texts, force), strict=True))


def _say(paths: Mapping[str, Any]) -> None:
    """Prints the written files to stderr, next to the rows."""
    import sys

    for path in paths.values():
        print(f"wrote {path}", file=sys.stderr)
