"""init, sync, lint, db."""

from __future__ import annotations

import json as js
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.help import EXTEND, MAINTAIN, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Db, Json, Specs, open_catalog, store
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.cli.screen import print_whole
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.catalog.store.current import SyncReport

db_app = App("db", example="opdb db check", help="Manage the database: upgrade, check, dump, restore, views.")


def add_to(app: App) -> None:
    app.command(example="opdb init", group=MAINTAIN)(init)
    app.command(example="opdb sync", group=MAINTAIN)(sync)
    app.command(example="opdb lint", group=EXTEND)(lint)
    app.add(db_app, MAINTAIN)


#: Longer lists of changed files are only counted; --json has them all.
LISTED = 20


def _print_report(report: SyncReport, name: str, json: bool) -> None:
    groups = {k: getattr(report, k) for k in ("added", "changed", "removed", "unchanged")}
    if json:
        print_json({"database": name, **{k: list(v) for k, v in groups.items()}, "hash": report.hash})
        return
    touched = [(kind, path) for kind in ("added", "changed", "removed") for path in groups[kind]]
    if len(touched) <= LISTED:
        for kind, path in touched:
            print(f"{kind:8} specs/{path}")
    counts = ", ".join(f"{len(v)} {k}" for k, v in groups.items())
    print(f"{name}: {counts}; catalog {report.hash[:12]}")


@with_option_groups
def init(database: DatabaseOptions, json: Json = False) -> None:
    """Create or upgrade the database, and load what opdb ships.

    That is all specs, and the evidence: what was measured with Qualcomm's libraries.
    """
    from opdb.catalog.migrate import upgrade
    from opdb.core.settings import database_url, specs_folder

    folder = specs_folder(database.specs)
    with working("create the tables and load the specs"):
        upgrade(database_url(database.db))
        opened = store(database.db)
        opened.load_shipped()
        report = opened.sync(folder)
    _print_report(report, opened.name, json)


@with_option_groups
def sync(
    database: DatabaseOptions,
    json: Json = False,
    full: Annotated[bool, typer.Option("--full", help="Read unchanged files again too.")] = False,
) -> None:
    """Update the database from the specs, in one transaction."""
    from opdb.core.settings import specs_folder

    opened = store(database.db)
    with working("read the specs"):
        opened.load_shipped()
        report = opened.sync(specs_folder(database.specs), full)
    _print_report(report, opened.name, json)


def lint(specs: Specs = None, json: Json = False, db: Db = None) -> None:
    """Check the specs: arguments, names, meanings, spelling."""
    from opdb.core.settings import specs_folder
    from opdb.judge.lint import lint as run

    catalog = open_catalog(db) if specs is None else None  # a given folder may be in no database
    problems = run(specs_folder(specs), catalog)
    if json:
        print_json(
            [{"path": p.path, "line": p.line, "column": p.column, "message": p.message} for p in problems]
        )
    else:
        for problem in problems:
            print(problem)
        print(counted(len(problems), "problem"), file=sys.stderr)
    if problems:
        raise typer.Exit(1)


@db_app.command(example="opdb db upgrade")
def upgrade(db: Db = None, json: Json = False) -> None:
    """Create the tables, or upgrade them to this version of opdb."""
    from opdb.catalog.migrate import upgrade as run
    from opdb.core.settings import database_url

    run(database_url(db))
    name = store(db).name
    if json:
        print_json({"database": name})
    else:
        print(f"{name}: up to date")


@db_app.command(example="opdb db check --db sqlite:///catalog.db")
def check(db: Db = None, json: Json = False) -> None:
    """Check that the tables are the ones this version of opdb needs."""
    from opdb.catalog.migrate import check as run
    from opdb.core.settings import database_url

    differences = run(database_url(db))
    if json:
        print_json(differences)
    else:
        print("\n".join(differences) or f"{store(db).name}: the tables are those of this version")
    if differences:
        raise typer.Exit(1)


@db_app.command(example="opdb db dump -o history.jsonl")
def dump(
    db: Db = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; default: standard output."),
    ] = None,
    json: Json = False,
) -> None:
    """Dump the history: runs, results, evidence.

    As lines of JSON, which 'opdb db restore' reads.
    """
    from opdb.core.files import write_atomically

    lines = store(db).dump()
    if output is None:
        for line in lines:
            sys.stdout.write(line if line.endswith("\n") else line + "\n")
        return
    write_atomically(output, "".join(line if line.endswith("\n") else line + "\n" for line in lines))
    _print_written(output, json)


@db_app.command(example="opdb db restore history.jsonl")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that 'opdb db dump' wrote.")],
    db: Db = None,
    json: Json = False,
) -> None:
    """Restore a history that 'opdb db dump' wrote."""
    from opdb.core.errors import OpdbError

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OpdbError(f"{file}: cannot read: {error}") from None
    opened = store(db)
    with working("restore"):
        count = opened.restore(text.splitlines(), str(file))
    if json:
        print_json({"database": opened.name, "records": count})
    else:
        print(f"{opened.name}: {counted(count, 'record')} restored")


@db_app.command(example="opdb db datasette -o metadata.json")
def datasette(
    db: Db = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; default: standard output."),
    ] = None,
    json: Json = False,
) -> None:
    """Write Datasette's metadata: the views and their columns."""
    from opdb.catalog.query.datasette import datasette as describe
    from opdb.core.errors import OpdbError
    from opdb.core.files import write_atomically

    opened = store(db)
    if not opened.database.sqlite:
        raise OpdbError(f"{opened.name}: Datasette reads SQLite files; name one with --db or OPDB_URL")
    with opened.reading():  # checks that its tables are of this version
        document = describe(Path(opened.name))
    if output is None:
        print_json(document)
        return
    write_atomically(output, js.dumps(document, indent=2, ensure_ascii=False) + "\n")
    command = f"datasette --immutable {opened.name} -m {output} --setting suggest_facets off"
    if json:
        print_json({"file": str(output), "bytes": output.stat().st_size, "command": command})
    else:
        print(f"{output}: read with: {command}")


@db_app.command(example="opdb db views -o sql-views.md")
def views(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Output file; default: standard output."),
    ] = None,
    json: Json = False,
) -> None:
    """Write the views and what their columns mean, as Markdown."""
    from opdb.catalog.query.view_docs import markdown
    from opdb.catalog.schema.views import ABOUT
    from opdb.core.files import write_atomically

    text = "".join(f"{line}\n" for line in markdown())
    if output is not None:
        write_atomically(output, text)
        _print_written(output, json)
    elif json:
        print_json(
            [{"view": name, "columns": [vars(c) for c in view.columns]} for name, view in ABOUT.items()]
        )
    else:
        print_whole(text, end="")


def _print_written(file: Path, json: bool) -> None:
    size = file.stat().st_size
    if json:
        print_json({"file": str(file), "bytes": size})
    else:
        print(f"{file}: {counted(size, 'byte')}")
