"""What code at run time knows of a fault of a vendor library: the fields of specs/errata that decide what follows from it.

``opdb.generated.constants.errata`` has one of these for each record.  The module needs neither pydantic nor YAML.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What goes wrong where a fault occurs.
EFFECTS = ("wrong-result", "not-finalized", "crash", "refuses-valid", "imprecise")
CAUSES = ("graph-preparation", "kernel", "unknown")
EXECUTIONS = ("emulator", "device", "unknown")
#: What avoiding a fault costs.  Small: at most one more op per node, no more MACs, at most twice the bytes.
COSTS = ("none", "small", "large")
#: Workarounds that are no function.  Another candidate of the lowering takes over, and without one the node is not
#: lowered; another candidate takes over, and without one the op is used with a warning, since the condition on the config
#: does not settle whether the fault shows (data or memory decide); the node is not lowered.
OTHER_CANDIDATE, PREFER_OTHER, REJECT = "other-candidate", "prefer-other-candidate", "reject"


def record_path(ident: str) -> str:
    """The file of an erratum in the project; e.g. specs/errata/htp/HTP-0042.yaml."""
    return f"specs/errata/{ident.partition('-')[0].lower()}/{ident}.yaml"


@dataclass(frozen=True)
class Erratum:
    """One fault of a vendor library.  ``id``: e.g. HTP-0042, the same as in specs/errata, SQL and the pages."""

    id: str
    backend: str  # e.g. HTP
    op: str  # the op whose configs are judged; "" for a fault of several ops without a condition on one of them
    title: str  # starts with the effect
    effect: str  # one of EFFECTS
    cause: str  # one of CAUSES
    workaround: str  # the name of a workaround, OTHER_CANDIDATE, PREFER_OTHER or REJECT
    cost_class: str  # one of COSTS, or "" where nobody measured it
    cost_note: str
    seen: tuple[tuple[str, tuple[str, ...], str], ...]  # library, SoCs, date
    seen_on_device: bool
    absent_on_device: bool
    execution: str  # one of EXECUTIONS
    since: str | None  # first and last version of QNN; None: open
    until: str | None
    arch: tuple[int, ...]  # Hexagon versions; (): all
    socs: tuple[str, ...]  # (): all
