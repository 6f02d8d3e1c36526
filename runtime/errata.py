"""The run-time record of a fault in a vendor library: the fields of specs/errata that affect decisions.

``opdb.generated.constants.errata`` has one for each record.  This module needs neither pydantic nor YAML.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The effects of faults.
EFFECTS = ("wrong-result", "not-finalized", "crash", "refuses-valid", "imprecise")
CAUSES = ("graph-preparation", "kernel", "unknown")
EXECUTIONS = ("emulator", "device", "unknown")
#: The costs of avoiding a fault.  Small: at most one extra op per node, no extra MACs, at most twice the bytes.
COSTS = ("none", "small", "large")
#: Workarounds that are not functions.  OTHER_CANDIDATE: another candidate of the lowering is used; without one the node
#: is not lowered.  PREFER_OTHER: another candidate is used; without one the op is used with a warning, because the
#: condition on the config does not determine if the fault occurs (data or memory do).  REJECT: the node is not lowered.
OTHER_CANDIDATE, PREFER_OTHER, REJECT = "other-candidate", "prefer-other-candidate", "reject"


def record_path(ident: str) -> str:
    """The file of an erratum in the project, e.g. specs/errata/htp/HTP-0042.yaml."""
    return f"specs/errata/{ident.partition('-')[0].lower()}/{ident}.yaml"


@dataclass(frozen=True)
class Erratum:
    """One fault in a vendor library.  ``id``: e.g. HTP-0042, the same as in specs/errata, SQL, and the pages."""

    id: str
    backend: str  # e.g. HTP
    op: str  # the op whose configs are judged; "" for a fault of several ops without a condition on any one
    title: str  # starts with the effect
    effect: str  # one of EFFECTS
    cause: str  # one of CAUSES
    workaround: str  # the name of a workaround, OTHER_CANDIDATE, PREFER_OTHER or REJECT
    cost_class: str  # one of COSTS, or "" if not measured
    cost_note: str
    seen: tuple[tuple[str, tuple[str, ...], str], ...]  # library, SoCs, date
    seen_on_device: bool
    absent_on_device: bool
    execution: str  # one of EXECUTIONS
    since: str | None  # first and last version of QNN; None: open
    until: str | None
    arch: tuple[int, ...]  # Hexagon versions; (): all
    socs: tuple[str, ...]  # (): all
