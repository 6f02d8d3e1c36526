"""Generates docs/reference/sql-views.md: the views and their columns as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from opdb.catalog.schema.views import ABOUT

_HEAD = """# SQL views

The questions of `opdb query` are views of the database, with the same rows: `opdb query support` reads `v_support`.
They hold no data and are made anew by `opdb init` and `opdb db upgrade`, on SQLite and PostgreSQL alike.

    opdb query runs --where "validates = 'crashed' and backend = 'HTP'" --format parquet --output crashes.parquet
    sqlite3 opdb.db "SELECT op, COUNT(*) FROM v_rules GROUP BY op"
    opdb db datasette --db opdb.db --output metadata.json     # prints how datasette is started with it

`--where` takes any column below: comparisons, `in`, `like`, `is null`, `and`, `or`, `not`, parentheses. It is parsed
and never given to the database as text. `v_support` joins the chips to the table `support`, which has a row for each type row,
class of chips and SDK: `opdb sync`, new evidence and every run that is recorded keep it current. *Declared* means: the SDK has
the row, the chip has what it needs, and no rule forbids it for certain.

`status` says in a word whether a row works: *yes*; *yes, except*, under the conditions in `why`; *no*, for the reason in
`why`; *not known*. It combines the declaration, what was measured, and the errata known for these data types. In tables
`opdb query support` gives SDKs with equal rows as ranges (2.47-2.49); `--each-sdk`, `--json`, `--format csv` and `parquet` have
a row for each.

`opdb query support --pivot` has a line per op and kind of data types (FP16, INT8 ...: the documents' names) and a column per
target. Its cells are the words, with the errata that are the exceptions. Without `--soc` a column counts the chips of each
word.

On a terminal a table shows the columns that answer the question, as many as fit without cutting a word, and names the others in its
last line: `--columns a,b` shows those, `--wide` all; where they do not fit, each row is a block of lines. `--pager` shows the table
in `$PAGER`, or `less`. In a pipe or a file a table always has all columns with values, one line for each row, for `grep` and `awk`.
NO_COLOR switches colors off.
"""


def markdown() -> Iterator[str]:
    """The lines of the page."""
    yield from _HEAD.splitlines()
    for view in sorted(ABOUT.values(), key=lambda v: v.name):
        yield from ("", f"## {view.name}", "", view.about, "", "| column | type | meaning |", "|---|---|---|")
        for c in view.columns:
            unit = f" [{c.unit}]" if c.unit else ""
            about = c.about.replace("|", "\\|")
            yield f"| `{c.name}` | {c.type}{unit} | {about} |"
