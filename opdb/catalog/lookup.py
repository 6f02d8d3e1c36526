"""Questions to the user's database in one call: ``opdb.query`` and ``opdb.show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opdb.catalog.query import Filters, ask
from opdb.catalog.store import Store
from opdb.core.settings import database_url

if TYPE_CHECKING:
    from opdb.catalog.query import Row


def query(question: str, *, where: str | None = None, db: str | None = None, **filters: Any) -> list[Row]:
    """The rows that answer a question about the catalog, as dicts with stable keys; `opdb query`.

    ``question``: ops, params, types, torch, rules, backends, socs, errata, support, ...  ``filters``: ``op``, ``backend``,
    ``soc``, ``sdk``, ``dtype``, ``torch_op``, each a name or a list of names.  ``where``: a condition over the columns, e.g.
    "validates <> 'yes'".  ``db``: a URL or path; by default OPDB_URL, then the user's database.  docs/reference/sql-views.md
    documents the columns.

    Raises OpdbError for an unknown question, name, or column, and if there is no database: `opdb init` creates one.

    >>> import opdb
    >>> [row["ops"] for row in opdb.query("torch", torch_op="aten.softmax.int")]
    ['Softmax', 'Transpose, Softmax, Transpose']
    """
    return ask(Store(database_url(db)), question, Filters(**filters), where)


def show(op: str, *, db: str | None = None) -> dict[str, Any]:
    """One op in full, as its spec states it: `opdb show OP --json` without measurements.

    ``db``: as in ``query``.  Raises OpdbError for an unknown op.

    >>> import opdb
    >>> opdb.show("LayerNorm")["params"]["epsilon"]["type"]
    'f32 = 0.001'
    """
    from opdb.core.errors import OpdbError
    from opdb.core.guess import did_you_mean

    catalog = Store(database_url(db)).load_op(op)
    if op not in catalog.ops:
        hint = did_you_mean(op, catalog.ops, lists="'opdb query ops' lists the known ones")
        raise OpdbError(f"unknown op '{op}'{hint}")
    return catalog.ops[op].model_dump(mode="json")
