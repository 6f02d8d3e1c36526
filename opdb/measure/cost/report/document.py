"""An estimate and a difference as JSON, and back; keys are only ever added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opdb.measure.cost.difference import Difference, compare
from opdb.measure.cost.errata import ErratumPrice
from opdb.measure.cost.figures import Estimate, SimulatedChip
from opdb.core.errors import OpdbError

#: Figures that add up over several graphs.
_SUMS = (
    "us", "us_lower", "us_upper", "cycles", "cycles_lower", "cycles_upper", "read_bytes", "filled_bytes",
    "spilled_bytes", "written_bytes", "missing_ops", "nodes", "seconds",
)  # fmt: skip


def estimate_json(e: Estimate) -> dict[str, Any]:
    """One graph: times in microseconds, sizes in bytes."""
    return {
        "name": e.graph,
        **{name: getattr(e, name) for name in _SUMS},
        "at_least": e.at_least,
        "missing": list(e.missing),
        "precision": e.precision,
        "busy": dict(e.busy),
        "groups": [vars(g) for g in e.groups],
    }


def whole_json(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """The simulation's description, the sums over all graphs, and each graph under "graphs"."""
    first = estimates[0]
    return {
        "soc": first.soc,
        "qnn": first.sdk,
        "build_id": first.build_id,
        "simulator": dict(first.chip.words),
        **total(estimates),
        "at_least": any(e.at_least for e in estimates),
        "missing": [name for e in estimates for name in e.missing],
        "graphs": [estimate_json(e) for e in estimates],
    }


def total(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """The figures of graphs that run one after the other."""
    return {name: sum(getattr(e, name) for e in estimates) for name in _SUMS}


def difference_json(d: Difference) -> dict[str, Any]:
    """The additional cost of the other graph; ``ratio`` is of cycles."""
    return {
        "us": d.us,
        "cycles": d.cycles,
        "ratio": d.ratio,
        "noise": d.noise,
        "same_simulator": d.same_simulator,
        "by_ops": [{**vars(c), "us": c.us} for c in d.by_ops()],
        "other": estimate_json(d.after),
    }


def errata_json(prices: Iterable[ErratumPrice]) -> list[dict[str, Any]]:
    """The cost of avoiding each erratum; ``us`` is null, with the reason ``why``, if there is no graph without it."""
    return [vars(p) for p in prices]


def is_saved(document: Any) -> bool:
    """True if a JSON document is the output of `opdb cost --json`, and not an op config."""
    return isinstance(document, dict) and {"build_id", "simulator", "cycles", "graphs"} <= document.keys()


def whole(document: Mapping[str, Any]) -> Estimate:
    """All graphs of ``whole_json`` as one estimate, without groups.  Raises OpdbError if a figure is missing."""
    try:
        graphs = document["graphs"]
        return Estimate(
            graph=" + ".join(str(g["name"]) for g in graphs),
            soc=str(document["soc"]),
            build_id=str(document["build_id"]),
            chip=SimulatedChip.of(document["simulator"]),
            precision=graphs[0]["precision"],
            missing=tuple(document["missing"]),
            **{name: document[name] for name in _SUMS},
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise OpdbError(f"it is not what 'opdb cost --json' prints: {type(error).__name__} {error}") from None


def compare_saved(
    estimates: Sequence[Estimate], saved: Mapping[str, Any], recipe: str | None
) -> Difference:
    """The difference between the estimates of a model, quantized by ``recipe``, and a document of ``opdb cost --json``.

    Raises OpdbError for a document that is damaged, or for another chip, library or precision.
    """
    before, after = whole(whole_json(estimates)), whole(saved)
    same = {
        "chip": (before.soc, after.soc),
        "QNN version": (before.build_id, after.build_id),
        "precision": (recipe or before.precision, saved.get("quantize") or after.precision),
    }
    for what, (here, there) in same.items():
        if here != there:
            raise OpdbError(f"it is of another {what}: {there or 'default'}, here {here or 'default'}")
    return compare(before, after)
