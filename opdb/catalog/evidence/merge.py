"""Merges a colleague's evidence: newer cells replace older ones with the same key, and nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from opdb.catalog.evidence import Cell, Evidence, Run
from opdb.core.errors import OpdbError


@dataclass
class Merge:
    """``evidence``: the merged cells; ``added``, ``replaced``: cells taken from the file; ``left``: cells not taken."""

    evidence: Evidence
    added: list[Cell] = field(default_factory=list)
    replaced: list[Cell] = field(default_factory=list)
    left: list[Cell] = field(default_factory=list)


def merge(ours: Evidence, theirs: Evidence, name: str) -> Merge:
    """Merges ``theirs``, from the file ``name``, into a copy of ``ours``.

    Keys include the execution, so emulator and device results never share a cell.  The newer cell of a key wins; on the same
    day ours does.  Raises OpdbError if the file uses a known version for a different library.
    """
    _same_libraries([*ours.runs], [*theirs.runs], name)
    merged = Merge(Evidence(dict(ours.cells)))
    for key, cell in theirs.cells.items():
        known = ours.cells.get(key)
        if known is not None and known.run.date >= cell.run.date:
            merged.left.append(cell)
            continue
        (merged.added if known is None else merged.replaced).append(cell)
        merged.evidence.cells[key] = cell
    return merged


def _same_libraries(ours: list[Run], theirs: list[Run], name: str) -> None:
    """Raises OpdbError if a version names two different builds, whose results would not be comparable.

    Devices have their own builds of the library.
    """
    known: dict[tuple[str, ...], Run] = {}
    for run in [*ours, *theirs]:
        key = (run.package, run.version, run.backend, run.execution)
        first = known.setdefault(key, run)
        if (first.build_id, first.sha256) != (run.build_id, run.sha256):
            raise OpdbError(
                f"{name}: its {run.library} is another library than the known one of that version: build {run.build_id or '?'}, "
                f"SHA-256 {run.sha256[:12] or '?'}, not {first.build_id or '?'}, {first.sha256[:12] or '?'}; nothing was merged: "
                "export it again under the version that this build has"
            )
