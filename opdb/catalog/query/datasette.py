"""Datasette's metadata for a catalog: documents the views and hides the tables."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from opdb.catalog.schema import metadata
from opdb.catalog.schema.views import ABOUT

_UNITS = {"s": "s"}  # units that Datasette can convert; others go into the description
_TITLE = "opdb: what QNN's documents say of its ops, and what its libraries do"


def datasette(database: PurePath) -> dict[str, Any]:
    """The document for ``datasette FILE -m metadata.json``; ``database`` is the SQLite file.

    Sending SQL is not allowed.  The tables are hidden but still readable; the views show their contents.
    """
    tables: dict[str, Any] = {name: {"hidden": True} for name in [*metadata.tables, "alembic_version"]}
    for view in ABOUT.values():
        units = {c.name: _UNITS[c.unit] for c in view.columns if c.unit in _UNITS}
        tables[view.name] = {
            "title": view.name.removeprefix("v_").replace("_", " "),
            "description": view.about,
            "columns": {c.name: f"{c.about} [{c.unit}]" if c.unit else c.about for c in view.columns},
            **({"units": units} if units else {}),
            **({"facets": list(view.facets)} if view.facets else {}),
        }
    return {
        "title": "opdb",
        "description": _TITLE,
        "databases": {
            database.stem: {
                "description": _TITLE,
                "allow_sql": False,
                "tables": tables,
            }
        },
    }
