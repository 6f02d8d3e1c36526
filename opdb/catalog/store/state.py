"""Which catalogue the database holds."""

from __future__ import annotations

from datetime import UTC, datetime

from opdb.catalog.store.reader import Reader
from opdb.core.errors import OpdbError


def now() -> str:
    """The time as the tables have it: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def catalog_hash(reader: Reader) -> str | None:
    """The hash of the catalogue that the last sync left; None before the first."""
    found = reader.value("SELECT hash FROM snapshot")
    return None if found is None else str(found)


def require_synced(reader: Reader, name: str) -> None:
    if catalog_hash(reader) is None:
        raise OpdbError(f"{name}: no specs have been loaded; load them with 'opdb sync'")
