"""Decides if a fault of a vendor library on a target is avoided, warned of, or ignored.

A fault counts only within its scope: its backend, its versions of QNN, its architectures and SoCs.  There:

1. an id in ``target.ignored`` is ignored;
2. ``refuses-valid`` is avoided, because the library refuses anything else;
3. ``target.errata`` decides if it is given;
4. on the emulator every fault is avoided: numbers from there must be correct;
5. for a device a fault is avoided
   - if it comes from graph preparation (every ``not-finalized`` does): preparation runs on the host and its result goes into
     the binary, so the device gets it too;
   - if a device has shown it;
   - if it is cheap to avoid (``none``: no op, MAC or byte more; ``small``: at most one more op per node, no more MACs,
     at most twice the bytes), unless public evidence from a device says that it is absent there.
   Every other fault was only seen on the emulator and would be costly to avoid: the op stays as PyTorch defines it, and a warning
   names the fault, where it was seen, and what avoiding it would cost.

Rule 5 draws the line where a mistake is cheap: a workaround of cost ``small`` that a device does not need costs a copy at
most; one of cost ``large`` can cost more than the rest of the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.sdk import sdk_number
from opdb.judge.errata.records import RECORDS
from opdb.runtime.checks import Violation
from opdb.runtime.errata import OTHER_CANDIDATE, PREFER_OTHER, REJECT, Erratum

AVOID, WARN, IGNORE = "avoid", "warn", "ignore"
CHEAP = ("none", "small")


def decide(erratum: Erratum, target: Target) -> str:
    """AVOID, WARN or IGNORE for a fault that ``target`` has; see the module.  Does not check the scope."""
    if erratum.id in target.ignored:
        return IGNORE
    if erratum.effect == "refuses-valid":
        return AVOID
    if target.errata is not None:
        return target.errata
    if target.execution == "emulator":
        return AVOID
    prepared = erratum.effect == "not-finalized" or erratum.cause == "graph-preparation"
    if prepared or erratum.seen_on_device:
        return AVOID
    return AVOID if erratum.cost_class in CHEAP and not erratum.absent_on_device else WARN


def in_scope(erratum: Erratum, target: Target) -> bool:
    """True if the backend, QNN version, architecture and SoC of ``target`` are among those that have the fault."""
    context = target.context()
    if context.backend != erratum.backend:
        return False
    if erratum.since is not None and context.sdk < sdk_number(erratum.since):
        return False
    if erratum.until is not None and context.sdk > sdk_number(erratum.until):
        return False
    if erratum.arch and context.arch not in erratum.arch:
        return False
    return not erratum.socs or target.soc in erratum.socs


@lru_cache(4096)
def policy(erratum_id: str, target: Target) -> str:
    """``decide`` for a fault in scope, IGNORE for any other."""
    erratum = RECORDS[erratum_id]
    return decide(erratum, target) if in_scope(erratum, target) else IGNORE


def active(erratum_id: str, target: Target) -> bool:
    """True if ``target`` has the fault and avoids it."""
    return policy(erratum_id, target) == AVOID


def refuses(erratum_id: str, target: Target) -> bool:
    """True if an op with the fault is not used on ``target``, even if no other candidate is left."""
    return active(erratum_id, target) and RECORDS[erratum_id].workaround != PREFER_OTHER


def excludes(violation: Violation, target: Target) -> bool:
    """True if an op with this violation is not used on ``target``: because of a rule, or of an erratum that the policy avoids."""
    return refuses(violation.erratum, target) if violation.erratum else violation.refuses


def known_errata(ids: Iterable[str]) -> frozenset[str]:
    """The ids in the records' spelling.  Raises OpdbError for an id without a record."""
    found = frozenset(i.upper() for i in ids)
    for unknown in sorted(found - RECORDS.keys()):
        hint = did_you_mean(unknown.replace("O", "0"), RECORDS, lists="'opdb query errata' lists them")
        raise OpdbError(f"unknown erratum '{unknown}'{hint}")
    return found


def warning(erratum: Erratum) -> str:
    """The fault in one line: what happens, where it was seen, what avoiding it would cost."""
    return f"{erratum.title} ({seen_where(erratum)}); avoiding it {costs(erratum)}"


def seen_where(erratum: Erratum) -> str:
    """E.g. seen on the emulator, HTP 2.47.0 for SM8350 and SM8650."""
    place = {"device": "on a device", "emulator": "on the emulator"}.get(erratum.execution, "")
    seen = "; ".join(
        f"{library} for {' and '.join(socs)}" if socs else library for library, socs, _ in erratum.seen
    )
    absent = "; a device did not show it" if erratum.absent_on_device else ""
    return "seen " + ", ".join(p for p in (place, seen) if p) + absent if place or seen else "not measured"


def costs(erratum: Erratum) -> str:
    """The cost of avoiding it, as a verb and its object."""
    if erratum.cost_note:
        return f"costs {erratum.cost_note}"
    if erratum.workaround == REJECT:
        return "leaves the node to the CPU"
    if erratum.workaround in (OTHER_CANDIDATE, PREFER_OTHER):
        return "takes another lowering"
    return {"none": "costs nothing", "small": "costs at most one op more", "large": "costs a lot"}.get(
        erratum.cost_class, "has a cost that was not measured"
    )
