"""The reasons that a node is refused which matter: not those of candidates for other forms of the node, and each one once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opdb.judge.errata.records import RECORDS
from opdb.runtime.forms import Reason

#: What opdb.lower.violations puts before the reason of an op that changes a layout.
_LAYOUT = re.compile(r"^the \w+ that brings \S+ (?:into|from) its layout: ")
#: What comes before the values in a reason; a candidate's condition on the node has some, a tensor that QNN does not have has none.
_GOT = "; got "


def mattering(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """``reasons`` without those of candidates that do not apply, if others do; the target's reasons stay, in the candidates' order.

    A candidate that is refused for the reasons of an earlier one is left out, and so is what an op that changes a layout has in common
    with its op.  If no candidate applies, what QNN does not have at all comes before the conditions of single candidates.
    """
    by_form: dict[str, list[Reason]] = {}
    for reason in dict.fromkeys(reasons):
        by_form.setdefault(reason.form, []).append(reason)
    groups = list(by_form.values())
    applying = [group for group in groups if not any(is_condition(r) for r in group)]
    groups = applying or sorted(groups, key=lambda group: _GOT in group[0].message)
    found: list[Reason] = []
    seen: set[str] = set()
    for group in groups:
        own: dict[str, Reason] = {}
        for reason in group:
            own.setdefault(_root(reason), reason)
        if found and all(root in seen and r.rule not in RECORDS for root, r in own.items()):
            continue
        found += own.values()
        seen.update(own)
    return tuple(found)


def is_condition(reason: Reason) -> bool:
    """True if a candidate's mapping refused the node, not the target."""
    return ".M_" in reason.rule


def _root(reason: Reason) -> str:
    """The reason without the values and the op that changes a layout."""
    return _LAYOUT.sub("", reason.message).partition(_GOT)[0]
