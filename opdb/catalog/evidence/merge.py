"""A colleague's evidence taken in: newer cells replace older ones of the same key, and nothing else is touched."""

from __future__ import annotations

from dataclasses import dataclass, field

from opdb.catalog.evidence import Cell, Evidence, Run
from opdb.core.errors import OpdbError


@dataclass
class Merge:
    """``evidence``: what holds after it; ``added``, ``replaced``: cells of the file that hold now; ``left``: those that do not."""

    evidence: Evidence
    added: list[Cell] = field(default_factory=list)
    replaced: list[Cell] = field(default_factory=list)
    left: list[Cell] = field(default_factory=list)


def merge(ours: Evidence, theirs: Evidence, name: str) -> Merge:
    """``theirs``, from the file ``name``, merged into ``ours``; both stay as they are.

    A key has its execution in it: what an emulator and what a device showed are never one cell.  Of one key the newer holds; of
    one day ours does.  Raises OpdbError where the file calls another library by a version that is known.
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
    """A version names one library: another build under it is another library, whose answers are not comparable.

    A device has a library of its own, built for it.
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
