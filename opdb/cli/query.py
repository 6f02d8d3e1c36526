"""query."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.catalog.schema.names import STATUS_COLUMNS
from opdb.cli import completion
from opdb.cli.help import ASK, App, Command
from opdb.cli.option_groups import TableOptions, with_option_groups
from opdb.cli.options import Db, Format, Json, Ops, store
from opdb.cli.output import print_rows
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.catalog.query import Filters


#: The formats for people, in which rows of "support" that differ only in the SDK are one row.
FOR_PEOPLE = (Format.table, Format.md, Format.html)
#: The columns of "support" in these; the others say what was measured with each SDK.
SUPPORT = (
    "op",
    "type_row",
    "cells",
    "backend",
    "soc",
    "sdk",
    "status",
    "why",
    "errata",
    "since",
    *STATUS_COLUMNS,
)
#: What a library and opdb's rules disagree about: the columns of --disagree.
DISAGREEMENT = ("op", "backend", "soc", "sdk", "ours", "validates", "rules", "reasons", "detail", "config")


class _Query(Command):
    """The command query, whose help lists the questions."""

    def more(self) -> Mapping[str, list[tuple[str, str]]]:
        from opdb.catalog.query import QUESTIONS

        return {"Questions": [(q.name, q.about) for q in QUESTIONS.values()]}


def add_to(app: App) -> None:
    app.command(cls=_Query, example="opdb query support --op MatMul --soc SM8650", group=ASK)(query)


@dataclass(frozen=True)
class QueryOptions:
    """All options, in the order of the help."""

    op: Ops = None
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            metavar="BACKEND",
            help="QNN backend, e.g. HTP; may be repeated.",
            autocompletion=completion.backends,
        ),
    ] = None
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            "--name",
            metavar="SOC",
            help="SoC, e.g. SM8650, '8 Gen 3'; may be repeated.",
            autocompletion=completion.socs,
        ),
    ] = None
    sdk: Annotated[
        list[str] | None,
        typer.Option(
            "--sdk",
            metavar="VERSION",
            help="QNN SDK, e.g. 2.47; may be repeated.",
            autocompletion=completion.sdks,
        ),
    ] = None
    dtype: Annotated[
        list[str] | None,
        typer.Option("--dtype", metavar="TYPE", help="Data type in any slot, e.g. uq8; may be repeated."),
    ] = None
    torch_op: Annotated[
        list[str] | None,
        typer.Option("--torch-op", metavar="TARGET", help="ATen target, e.g. aten.relu; may be repeated."),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITION", help="Condition over the columns, e.g. \"validates <> 'yes'\"."
        ),
    ] = None
    disagree: Annotated[
        bool, typer.Option("--disagree", help="For runs: only where a library and opdb's rules disagree.")
    ] = False
    pivot: Annotated[
        bool,
        typer.Option(
            "--pivot", help="For support: a line per op and kind of data types, a column per backend and SoC."
        ),
    ] = False
    each_sdk: Annotated[
        bool,
        typer.Option(
            "--each-sdk",
            help="For support: a row for each SDK, with what was measured; else SDKs with equal rows are ranges in tables.",
        ),
    ] = False
    table: TableOptions = TableOptions()
    format_: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="table, json, csv, md, html or parquet.")
    ] = Format.table
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Output file; default: standard output.  Parquet needs a file.",
        ),
    ] = None
    json: Json = False
    db: Db = None

    def filters(self) -> Filters:
        """The filters for the rows."""
        from opdb.catalog.query import Filters

        return Filters(
            self.op, self.backend, self.soc, self.sdk, self.dtype, self.torch_op, self.disagree or None
        )

    def by_importance(self, columns: Sequence[str]) -> Sequence[str]:
        """Columns for a narrow terminal: those with one value, which a filter gives, come last."""
        of_filters = {"op": self.op, "backend": self.backend or self.soc, "soc": self.soc, "sdk": self.sdk}
        return sorted(columns, key=lambda c: len(of_filters.get(c) or ()) == 1)

    def title(self, question: str) -> str:
        """A title: the question with its filters."""
        asked = (self.op, self.backend, self.soc, self.sdk, self.dtype, self.torch_op)
        words = (v for values in asked for v in values or ())
        return " ".join([question, *words, self.where or ""]).strip()


@with_option_groups
def query(
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            autocompletion=completion.questions,
            help="What to list; see below.",
        ),
    ],
    options: QueryOptions,
) -> None:
    """Query the catalog: support, types, rules, chips, errata.

    docs/reference/sql-views.md documents the columns.
    """
    from opdb.catalog.query import QUESTIONS, errata_notes, stream
    from opdb.catalog.query.sdk_ranges import by_range
    from opdb.catalog.schema.views import ABOUT

    question = _renamed(question, options.disagree)
    catalog, notes = store(options.db), []
    rows: Iterable[dict[str, Any]] = stream(catalog, question, options.filters(), options.where)
    found = QUESTIONS[question]
    chosen = list(found.columns)
    types = {c.name: c.type for c in ABOUT[found.view].columns}
    if options.pivot:
        from opdb.catalog.query.pivot import pivot as turned

        if question != "support":
            raise OpdbError(f"--pivot turns 'support' into a table of ops and targets, not '{question}'")
        turned_rows = turned(rows, by_soc=bool(options.soc))
        rows, chosen = turned_rows.rows, turned_rows.columns
        notes = errata_notes(catalog, turned_rows.errata)
    table, first = options.table, () if options.pivot else options.by_importance(found.first)
    format_ = Format.json if options.json else options.format_
    if question == "support" and not options.pivot and format_ in FOR_PEOPLE and not options.each_sdk:
        chosen = table.chosen(chosen, question) if table.columns else list(SUPPORT)
        rows = by_range(rows, chosen)
    if options.disagree and not options.json and table.columns is None:
        chosen, first = list(DISAGREEMENT), DISAGREEMENT
    if table.columns is not None:
        chosen = table.chosen(chosen, question)
        rows = ({c: row[c] for c in chosen} for row in rows)
    layout = table.layout(first)
    print_rows(rows, chosen, format_, options.title(question), options.output, types, notes, layout)


def _renamed(question: str, disagree: bool) -> str:
    """The current name of a question; prints a line to stderr if an old name was used."""
    from opdb.catalog.query import RENAMED

    new = "runs" if question == "evidence" and disagree else RENAMED.get(question, question)
    if new != question:
        print(f"opdb: the question '{question}' is called '{new}' now", file=sys.stderr)
    return new
