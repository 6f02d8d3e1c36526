"""The questions as SQL views: what they are called, what their columns mean, and how they are made.

A view holds no data, so it is never migrated: an upgrade drops all views, migrates the tables and makes the views
of this version (``migrations/env.py``).  Names begin with ``v_``.
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
    """SQL as SQLAlchemy's ``text`` takes it: a colon is a colon, and values are named by one."""
    return re.sub(r":(?=\w)", r"\\:", sql).replace(VALUES, ":")


def drop_views(connection: Connection) -> None:
    """Drops every view whose name begins with v_; the last one made is dropped first."""
    from sqlalchemy import inspect, text

    found = {v for v in inspect(connection).get_view_names() if v.startswith("v_")}
    known = [v for v in reversed(_SELECTS) if v in found]
    for name in [*sorted(found - _SELECTS.keys()), *known]:
        connection.execute(text(f'DROP VIEW "{name}"'))


def create_views(connection: Connection) -> None:
    """Makes the views; the tables must be those of this version."""
    from sqlalchemy import text

    for statement in _statements(connection.dialect.name == "postgresql").values():
        connection.execute(text(escaped(statement)))


def views_are_current(found: Mapping[str, str]) -> bool:
    """Whether these views of an SQLite database, name -> SQL, are those that ``create_views`` makes."""
    return found == _statements(postgres=False)


def _statements(postgres: bool) -> dict[str, str]:
    return {name: f"CREATE VIEW {name} AS {made(Dialect(postgres))}" for name, made in _SELECTS.items()}
