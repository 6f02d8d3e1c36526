"""Expected failures: the config matches a record of specs/errata, and the result looks like the record's effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.judge.errata.records import RECORDS
from opdb.judge.validate import check
from opdb.runtime.errata import Erratum

_ENDED = frozenset({"no", "crashed", "hung"})
#: Effect -> status -> the values that show it.  A crash comes from an invalid read or write of memory, which can also end in
#: an error or in wrong numbers; a graph that is prepared wrong may also fail only when it runs.
SHOWN: Mapping[str, Mapping[str, frozenset[str]]] = {
    "wrong-result": {"matches": frozenset({"no"})},
    "imprecise": {"matches": frozenset({"no"})},
    "not-finalized": {"finalizes": _ENDED, "executes": frozenset({"no"})},
    "crash": {
        "validates": frozenset({"crashed", "hung"}),
        "finalizes": _ENDED,
        "executes": _ENDED,
        "matches": frozenset({"no"}),
    },
    "refuses-valid": {"validates": frozenset({"no"})},
}


def hits(config: OpConfig, backend: str, soc: str, sdk: str) -> Iterator[Erratum]:
    """Yields the records whose scope and condition a config matches on one library; none if ``backend`` is ''."""
    if backend:
        verdict = check(config, Target(backend, soc or None, sdk or None, execution="emulator"))
        yield from (RECORDS[v.erratum] for v in verdict.violations if v.erratum and not v.undecidable)


def shows(erratum: Erratum, statuses: Mapping[str, str]) -> bool:
    """True if a result looks like the effect of a record."""
    return any(statuses[stage] in values for stage, values in SHOWN[erratum.effect].items())


def explain(
    config: OpConfig, backend: str, soc: str, sdk: str, statuses: Mapping[str, str]
) -> Erratum | None:
    """The record that explains a result, or None."""
    return next((e for e in hits(config, backend, soc, sdk) if shows(e, statuses)), None)


def reason(erratum: Erratum) -> str:
    """Formats a record, e.g. HTP-0042: Gather returns wrong rows."""
    return f"{erratum.id}: {erratum.title}"
