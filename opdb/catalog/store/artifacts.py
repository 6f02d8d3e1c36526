"""The generated files that are on record."""

from __future__ import annotations

from collections.abc import Iterable

from opdb.catalog.store.reader import Reader, Writer
from opdb.catalog.store.records import ArtifactRecord


def read(reader: Reader) -> dict[str, ArtifactRecord]:
    """By path."""
    inputs: dict[int, list[str]] = {}
    for r in reader.rows("SELECT artifact_id, path FROM artifact_input ORDER BY position"):
        inputs.setdefault(r["artifact_id"], []).append(r["path"])
    found = [
        ArtifactRecord(r["path"], r["target"], r["key"], r["sha256"], tuple(inputs.get(r["id"], ())))
        for r in reader.rows("SELECT * FROM artifact")
    ]
    return {r.path: r for r in sorted(found, key=lambda r: r.path)}


def record(writer: Writer, records: Iterable[ArtifactRecord], removed: Iterable[str]) -> None:
    """Puts these records in place of those with the same paths; forgets ``removed``."""
    records = list(records)
    paths = [r.path for r in records]
    writer.run("DELETE FROM artifact WHERE path IN @paths", paths=[*dict.fromkeys([*removed, *paths])])
    rows = [{"path": r.path, "target": r.target, "key": r.key, "sha256": r.sha256} for r in records]
    writer.insert("artifact", rows)
    found = writer.rows("SELECT id, path FROM artifact WHERE path IN @paths", paths=paths)
    idents = {r["path"]: r["id"] for r in found}
    inputs = [
        {"artifact_id": idents[r.path], "position": i, "path": path}
        for r in records
        for i, path in enumerate(dict.fromkeys(r.inputs))
    ]
    writer.insert("artifact_input", inputs)
