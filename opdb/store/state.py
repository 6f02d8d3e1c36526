"""Which catalogue the database holds."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, select

from opdb import schema as t
from opdb.errors import OpdbError


def now() -> str:
    """The time as the tables have it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def catalog_hash(connection: Connection) -> str | None:
    """The hash of the catalogue that the last sync left; None before the first."""
    found = connection.execute(select(t.snapshot.c.hash)).scalar()
    return None if found is None else str(found)


def require_synced(connection: Connection, name: str) -> None:
    if catalog_hash(connection) is None:
        raise OpdbError(f"{name}: no specs have been loaded; load them with 'opdb sync'")
