"""Facts that opdb ships: the documented ops and backends of QNN, and ATen's schemas.  refresh.py makes them.

They repeat what the documents say; only ``observed_dtypes`` and ``observed_rows`` were measured.  Reading them
needs neither torch nor the vendor's libraries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean

SDK = "2.25.0"
TORCH = "2.13.0"
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class DocumentedTensor:
    """One input or output slot.  ``facts`` has the rarer entries under the names of the data files."""

    slot: str  # the document's position; e.g. in[0], in[0..m]
    name: str  # a short name; e.g. input, gamma
    mandatory: bool
    variadic: bool
    dtypes: tuple[str, ...]  # short names; () where the backend decides
    rank: tuple[int, int | None] | None  # smallest and largest (None: no limit); None: not stated
    shape: tuple[str, ...] | None  # symbols, numbers, formulas; "..." is any number of dims
    constraints: tuple[Facts, ...]
    facts: Facts = field(repr=False)


@dataclass(frozen=True)
class DocumentedParam:
    """One parameter.  ``default`` is a value, {"expr": ...}, {"by_param": ...} or {"unset": true}."""

    name: str
    mandatory: bool
    dtype: str  # short name, or "backend"
    shape: tuple[str, ...] | None  # of a tensor parameter; None for a scalar
    default: Any  # None: not stated
    enum: Mapping[str, int]
    constraints: tuple[Facts, ...]
    facts: Facts = field(repr=False)


@dataclass(frozen=True)
class DocumentedBackend:
    """One backend's supplement: the rows of its table, and what it adds for single slots."""

    name: str
    source: str  # e.g. HtpOpDefSupplement.html@2.25.0#LayerNorm
    rows: tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]  # configuration, slot -> dtypes
    #: slot or parameter -> "rank", "static", "quant", "constraints" -> entries, each with its "config"
    slots: Mapping[str, Mapping[str, tuple[Facts, ...]]]


@dataclass(frozen=True)
class DocumentedOp:
    name: str
    source: str  # e.g. MasterOpDef.html@2.25.0#LayerNorm
    since: str  # SDK
    inputs: tuple[DocumentedTensor, ...]
    params: tuple[DocumentedParam, ...]
    outputs: tuple[DocumentedTensor, ...]
    constraints: tuple[Facts, ...]
    backends: Mapping[str, DocumentedBackend]
    facts: Facts = field(repr=False)


@dataclass(frozen=True)
class AtenArgument:
    name: str
    type: str  # PyTorch's spelling; e.g. Tensor?, int[2], Scalar
    kwarg_only: bool
    has_default: bool
    default: Any

    @property
    def optional(self) -> bool:
        """True if the argument may be None."""
        return self.type.endswith("?")


@dataclass(frozen=True)
class AtenSchema:
    target: str  # e.g. aten.native_layer_norm.default
    arguments: tuple[AtenArgument, ...]
    returns: tuple[str, ...]

    def argument(self, name: str) -> AtenArgument | None:
        return next((a for a in self.arguments if a.name == name), None)


def documented_ops() -> tuple[str, ...]:
    """The names of all ops that opdb has facts about, in alphabetical order."""
    return tuple(sorted({**_qnn()["ops"], **_newer()["ops"]}))


@cache
def documented_op(name: str) -> DocumentedOp:
    """The facts about one op.  Raises OpdbError, with the nearest name, if it is not documented."""
    for table in (_qnn(), _newer()):
        if name in table["ops"]:
            break
    else:
        raise OpdbError(f"QNN documents no op '{name}'{_hint(name, documented_ops())}")
    raw, origin = table["ops"][name], table["provenance"]
    backends = {b: _backend(b, name, e) for b, e in raw.get("backends", {}).items()}
    backends |= {
        b: _backend(b, name, t[name]) for b, t in _backends().items() if b != "provenance" and name in t
    }
    return documented(name, raw, f"{origin['document']}@{origin['sdk']}#{name}", backends)


def documented(name: str, raw: Facts, source: str, backends: Mapping[str, DocumentedBackend]) -> DocumentedOp:
    """Builds an op from facts in the format of the data files (qnn-2.25.0.json)."""
    return DocumentedOp(
        name,
        source,
        raw["since"],
        tuple(map(_tensor, raw.get("inputs", ()))),
        tuple(map(_param, raw.get("params", ()))),
        tuple(map(_tensor, raw.get("outputs", ()))),
        tuple(raw.get("constraints", ())),
        backends,
        raw,
    )


def observed_dtypes(backend: str, op: str) -> tuple[str, ...]:
    """The types that a library accepted in all slots at once (QNN CPU); () if it was not probed."""
    found = _observed(backend, op)
    return tuple(found) if isinstance(found, list) else ()


def observed_rows(backend: str, op: str) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """The type rows (slot -> type) that a library printed for an op, by configuration; {} if it printed none."""
    found = _observed(backend, op)
    return found if isinstance(found, dict) else {}


def observed_source(backend: str) -> str:
    """The probe run that observed a backend, e.g. probe CPU 2.47.0."""
    return str(_data("observed.json")["provenance"][backend])


def observed_sdk(backend: str) -> str:
    """The SDK of the observed library, e.g. 2.47."""
    return ".".join(observed_source(backend).split()[-1].split(".")[:2])


def _observed(backend: str, op: str) -> Any:
    return _data("observed.json").get(backend, {}).get(op)


@cache
def aten_schema(target: str) -> AtenSchema:
    """The schema of one overload.  Raises OpdbError, with the nearest name, if it is unknown."""
    known = _data(f"aten-{TORCH}.json")["targets"]
    if target not in known:
        missing = f"aten.{target.removeprefix('aten.')}" if "." in target else f"aten.{target}.default"
        raise OpdbError(
            f"PyTorch {TORCH} has no target '{target}' that returns tensors{_hint(missing, known)}"
        )
    raw = known[target]
    arguments = tuple(
        AtenArgument(a["name"], a["type"], a.get("kwarg_only", False), "default" in a, a.get("default"))
        for a in raw["arguments"]
    )
    return AtenSchema(target, arguments, tuple(raw["returns"]))


def torch_targets(op: str) -> tuple[str, ...]:
    """The ATen targets with the meaning of a QNN op, most common first; () if none is known."""
    return tuple(_data("torch-names.json").get(op, ()))


def summary(op: str) -> str | None:
    """A one-sentence description of an op in opdb's own words; None if there is none."""
    found = _data("summaries.json").get(op)
    return None if found is None else str(found)


def _tensor(raw: Facts) -> DocumentedTensor:
    dtypes = raw.get("dtypes", "backend")
    rank = raw.get("rank")
    return DocumentedTensor(
        raw["slot"],
        raw["name"],
        raw.get("mandatory", False),
        raw.get("repeated", False),
        () if isinstance(dtypes, str) or "backend" in dtypes else tuple(dtypes),
        None if rank is None else (rank.get("min", 0), rank.get("max")),
        None if "shape" not in raw else tuple(raw["shape"]),
        tuple(raw.get("constraints", ())),
        raw,
    )


def _param(raw: Facts) -> DocumentedParam:
    return DocumentedParam(
        raw["name"],
        raw.get("mandatory", False),
        raw["dtype"],
        tuple(raw["shape"]) if "shape" in raw else None,
        raw.get("default"),
        raw.get("enum", {}),
        tuple(raw.get("constraints", ())),
        raw,
    )


def _backend(backend: str, op: str, raw: Facts) -> DocumentedBackend:
    origin = _backends()["provenance"]
    source = raw.get("source") or f"{origin['documents'][backend]}@{origin['sdk']}#{op}"
    rows = tuple(
        (config, {s: (cell,) if isinstance(cell, str) else tuple(cell) for s, cell in row.items()})
        for config, row in raw["rows"]
    )
    slots = {
        s: {k: tuple(v) for k, v in e.items() if isinstance(v, list)} for s, e in raw.get("slots", {}).items()
    }
    return DocumentedBackend(backend, source, rows, slots)


def _hint(name: str, known: Any) -> str:
    return did_you_mean(name, known, most=3)


def _qnn() -> Any:
    return _data(f"qnn-{SDK}.json")


def _newer() -> Any:
    return _data("qnn-newer.json")


def _backends() -> Any:
    return _data(f"backends-{SDK}.json")


@cache
def _data(name: str) -> Any:
    return json.loads((files("opdb.catalog.facts") / "data" / name).read_text(encoding="utf-8"))
