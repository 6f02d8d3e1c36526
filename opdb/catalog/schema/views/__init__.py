"""The questions as SQL views: their names, the meaning of their columns, and their SQL.

A view holds no data, so it is never migrated: an upgrade drops all views, migrates the tables, and creates this
version's views (``migrations/env.py``).  Names begin with ``v_``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from opdb.catalog.schema.views import definitions, evidence
from opdb.catalog.schema.views.columns import ABOUT, ViewAbout, ViewColumn
from opdb.catalog.schema.views.sql import VALUES, Dialect

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = [
    "ABOUT",
    "VALUES",
    "ViewAbout",
    "ViewColumn",
    "create_views",
    "drop_views",
    "escaped",
    "views_are_current",
]

_SELECTS: dict[str, Callable[[Dialect], str]] = {
    "v_backends": definitions.backends,
    "v_socs": definitions.socs,
    "v_op_torch": definitions.op_torch,
    "v_unchecked": definitions.unchecked,
    "v_rules": definitions.rules,
    "v_ops": definitions.ops,
    "v_params": definitions.params,
    "v_types": definitions.types,
    "v_type_cells": definitions.type_cells,
    "v_torch": definitions.torch,
    "v_errata": definitions.errata,
    "v_results": evidence.results,
    "v_sweeps": evidence.sweeps,
    "v_agreement": evidence.agreement,
    "v_census": evidence.census,
    "v_evidence": evidence.evidence,
    "v_support": evidence.support,
    "v_runs": evidence.runs,
    "v_coverage": evidence.coverage,
}


def escaped(sql: str) -> str:
    """Escapes SQL for SQLAlchemy's ``text``: colons become literal, then VALUES becomes the colon of a parameter."""
    return re.sub(r":(?=\w)", r"\\:", sql).replace(VALUES, ":")


def drop_views(connection: Connection) -> None:
    """Drops every view whose name begins with v_, in the reverse order of creation."""
    from sqlalchemy import inspect, text

    found = {v for v in inspect(connection).get_view_names() if v.startswith("v_")}
    known = [v for v in reversed(_SELECTS) if v in found]
    for name in [*sorted(found - _SELECTS.keys()), *known]:
        connection.execute(text(f'DROP VIEW "{name}"'))


def create_views(connection: Connection) -> None:
    """Creates the views; the tables must be at this version."""
    from sqlalchemy import text

    for statement in _statements(connection.dialect.name == "postgresql").values():
        connection.execute(text(escaped(statement)))


def views_are_current(found: Mapping[str, str]) -> bool:
    """True if these views of an SQLite database (name -> SQL) are the ones ``create_views`` creates."""
    return found == _statements(postgres=False)


def _statements(postgres: bool) -> dict[str, str]:
    return {name: f"CREATE VIEW {name} AS {made(Dialect(postgres))}" for name, made in _SELECTS.items()}
