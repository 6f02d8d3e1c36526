"""The state of the catalog in the database."""

from __future__ import annotations

from datetime import UTC, datetime

from opdb.catalog.store.reader import Reader
from opdb.core.errors import OpdbError


def now() -> str:
    """The current time in the format of the tables: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def catalog_hash(reader: Reader) -> str | None:
    """The catalog's hash after the last sync; None before the first."""
    found = reader.value("SELECT hash FROM snapshot")
    return None if found is None else str(found)


def require_synced(reader: Reader, name: str) -> None:
    if catalog_hash(reader) is None:
        raise OpdbError(f"{name}: no specs have been loaded; load them with 'opdb sync'")
