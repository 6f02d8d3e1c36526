"""Evidence from files <-> SQL: the shipped set, and cells merged from colleagues' files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.catalog.evidence import STAGES, Cell, Evidence, Outcome, Run
from opdb.catalog.evidence.counts import counted, spelled
from opdb.catalog.evidence.format import read, shipped_path
from opdb.catalog.store import support

if TYPE_CHECKING:
    from opdb.catalog.store.reader import Reader, Writer

_RUN = ("backend", "sdk", "soc", "execution", "package", "version", "build_id", "sha256", "date", "host", "generator",
        "seed", "flow")  # fmt: skip
_OUTCOME = (
    "spec",
    "cases",
    "furthest",
    "case",
    "config",
    "stopped",
    "stopped_case",
    "code",
    "code_name",
    "reason",
)


def load_shipped(writer: Writer, path: Path | None = None) -> int | None:
    """Loads the shipped evidence, replacing the previous one; returns the number of cells, None if already loaded.

    Raises OpdbError if the file is damaged.
    """
    path = path or shipped_path()
    if is_loaded(writer, path):
        return None
    sha256 = _sha256(path)
    evidence = read(path) if path.is_file() else Evidence()
    replace(writer, "shipped", evidence)
    writer.run("DELETE FROM evidence_file WHERE origin = 'shipped'")
    writer.insert("evidence_file", [{"origin": "shipped", "sha256": sha256}])
    return len(evidence)


def is_loaded(reader: Reader, path: Path | None = None) -> bool:
    """True if the shipped evidence is the one loaded last."""
    found = reader.value("SELECT sha256 FROM evidence_file WHERE origin = 'shipped'")
    return bool(found == _sha256(path or shipped_path()))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest()


def replace(writer: Writer, origin: str, evidence: Evidence) -> None:
    """Replaces all cells of one origin, and updates the data derived from evidence."""
    writer.run("DELETE FROM support")  # it refers to cells
    writer.run(
        "DELETE FROM evidence_cell WHERE evidence_run_id IN (SELECT id FROM evidence_run WHERE origin = @o)",
        o=origin,
    )
    writer.run("DELETE FROM evidence_outcome WHERE origin = @o", o=origin)
    writer.run("DELETE FROM evidence_run WHERE origin = @o", o=origin)
    first = {
        t: int(writer.value(f"SELECT COALESCE(MAX(id), 0) FROM {t}")) + 1
        for t in ("evidence_run", "evidence_outcome")
    }
    runs = {run: first["evidence_run"] + i for i, run in enumerate(evidence.runs)}
    writer.insert("evidence_run", [_run_row(run, ident, origin) for run, ident in runs.items()])
    outcomes: dict[tuple[str, str, str], list[Outcome]] = {}
    rows: list[dict[str, Any]] = []
    ids: dict[tuple[str, str, str, int], int] = {}
    cells = []
    for cell in evidence.cells.values():
        of = (cell.kind, cell.name, cell.row)
        known = outcomes.setdefault(of, [])
        place = next((i for i, o in enumerate(known) if o is cell.outcome or o == cell.outcome), None)
        if place is None:
            place = len(known)
            known.append(cell.outcome)
            ids[*of, place] = first["evidence_outcome"] + len(rows)
            rows.append(_outcome_row(cell, place, ids[*of, place], origin))
        cells.append(
            {"evidence_outcome_id": ids[*of, place], "evidence_run_id": runs[cell.run], "newest": True}
        )
    writer.insert("evidence_outcome", rows)
    writer.insert("evidence_cell", cells)
    writer.run(MARK_NEWEST)
    support.refresh(writer)


#: Marks the newest cell of each key; on the same day a merged cell wins over a shipped one.
MARK_NEWEST = """
UPDATE evidence_cell SET newest = id IN (
  SELECT x.id FROM (
    SELECT c.id, row_number() OVER (
      PARTITION BY o.kind, o.name, o.type_row, r.backend, r.soc, r.sdk, r.execution
      ORDER BY r.date DESC, r.origin, c.id DESC) AS place
    FROM evidence_outcome AS o
    JOIN evidence_cell AS c ON c.evidence_outcome_id = o.id
    JOIN evidence_run AS r ON r.id = c.evidence_run_id) AS x
  WHERE x.place = 1)"""


def _run_row(run: Run, ident: int, origin: str) -> dict[str, Any]:
    said = {n: getattr(run, n) for n in _RUN} | {"case_limit": run.limit}
    uid = hashlib.sha256(repr(sorted(said.items())).encode()).hexdigest()
    return {"id": ident, "origin": origin, "uid": uid, **said}


def _outcome_row(cell: Cell, place: int, ident: int, origin: str) -> dict[str, Any]:
    o = cell.outcome
    head = {
        "id": ident,
        "origin": origin,
        "kind": cell.kind,
        "name": cell.name,
        "type_row": cell.row,
        "position": place,
    }
    statuses = dict(zip(STAGES, o.statuses, strict=True))
    return (
        head
        | {n: getattr(o, n) for n in _OUTCOME}
        | statuses
        | {"counts": spelled(o), "errata": " ".join(o.errata)}
    )


def stored(reader: Reader, origins: Iterable[str], **where: str) -> Evidence:
    """The cells of these origins: the newest per key; on the same day a merged one wins over a shipped one.

    ``where``: column values to match, e.g. name="Relu", backend="HTP", soc="SM8650".
    """
    tables = {"kind": "o", "name": "o", "backend": "r", "sdk": "r", "soc": "r"}
    narrow = "".join(f" AND {tables[column]}.{column} = @{column}" for column in where)
    order = "ORDER BY r.date, CASE r.origin WHEN 'shipped' THEN 0 ELSE 1 END"
    rows = reader.rows(
        f"""
SELECT r.id AS run_id, o.id AS outcome_id, {", ".join(f"r.{n} AS run_{n}" for n in _RUN)}, r.case_limit,
       o.kind, o.name, o.type_row, o.counts, o.errata,
       {", ".join(f'o."{n}"' for n in _OUTCOME)}
FROM evidence_cell AS c
JOIN evidence_run AS r ON r.id = c.evidence_run_id
JOIN evidence_outcome AS o ON o.id = c.evidence_outcome_id
WHERE r.origin IN @origins{narrow} {order}""",
        origins=list(origins),
        **where,
    )
    found, runs, outcomes = Evidence(), dict[int, Run](), dict[int, Outcome]()
    for row in rows:
        run = runs.get(row["run_id"])
        if run is None:
            run = runs[row["run_id"]] = Run(**{n: row[f"run_{n}"] for n in _RUN}, limit=row["case_limit"])
        outcome = outcomes.get(row["outcome_id"])
        if outcome is None:
            said = {n: row[n] for n in _OUTCOME}
            outcome = outcomes[row["outcome_id"]] = Outcome(
                **said, counts=counted(row["counts"], row["cases"]), errata=tuple(row["errata"].split())
            )
        cell = Cell(row["kind"], row["name"], row["type_row"], run, outcome)
        found.cells[cell.key] = cell
    return found
