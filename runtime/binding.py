"""Binds an op config to the named, typed arguments of generated validators.

Slots are bound by position, in QNN's order, or by name if every tensor has the name of a slot.
The C code (runtime/src/binding.c) judges the same four rules: INPUTS, PARAMS, OUTPUTS, and UNKNOWN_PARAMS.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.generated.constants.backends import BACKENDS
from opdb.generated.constants.backends import Context as Context
from opdb.runtime.checks import Report, Strength, given

NUMBER = "the number of {}s must be that of the definition"
GIVEN = "every required {} must be given"
ENOUGH = "a variadic slot must have at least its smallest number of tensors"
ONCE = "every parameter must be given once"
KNOWN = "every parameter must be one of the definition"
DTYPE = "every parameter must have the data type of the definition"
SHAPE = "every parameter must have the shape of the definition"
FLOAT32 = struct.Struct("<f")
TYPES_SENTENCE = (
    "the data types must be those of one row of {}'s table (documented, or measured with a library)"
)
ENUM = "every enum parameter must have a value of its enum"


@dataclass(frozen=True)
class Slot:
    name: str
    optional: bool = False
    variadic: bool = False
    minimum: int = 1  # smallest number of tensors in a variadic slot


@dataclass(frozen=True)
class Param:
    name: str
    dtype: str  # short name
    dims: tuple[int | None, ...] = ()  # () for a scalar; None: any length
    required: bool = True
    enum: dict[int, str] = field(default_factory=dict)  # value -> name


@dataclass(frozen=True)
class Signature:
    op: str
    inputs: tuple[Slot, ...]
    params: tuple[Param, ...]
    outputs: tuple[Slot, ...]


#: A context for the op definition only.
ANY = Context()


class Tensor:
    """A tensor with the attributes that rules read."""

    __slots__ = (
        "_config",
        "axis",
        "dtype",
        "encoding",
        "offset",
        "quant",
        "rank",
        "scale",
        "shape",
        "sparse",
        "static",
        "symmetric",
        "type",
    )

    def __init__(self, config: TensorConfig) -> None:
        quant = config.quant
        self.shape = list(config.shape)
        self.rank = len(self.shape)
        self.dtype = config.dtype
        self._config = config
        self.type = config.type
        self.static = config.type == "STATIC"
        self.sparse = config.sparse is not None
        self.encoding = quant.encoding if quant else "NONE"
        self.symmetric = quant.symmetric(config.dtype) if quant else True
        self.axis = -1 if quant is None or quant.axis is None else quant.axis
        scales = tuple(_float32(s) for s in quant.scale) if quant else ()
        offsets = (quant.offset or (0,) * len(scales)) if quant else ()
        self.quant = (self.encoding, self.axis, (quant.bits or 0) if quant else 0, scales, offsets)
        self.scale = scales[0] if scales else 0.0
        self.offset = offsets[0] if offsets else 0

    @property
    def known_values(self) -> list[int] | None:
        """The row-major data of a STATIC integer tensor; None if rules cannot read it."""
        return self._config.values()

    @property
    def values(self) -> list[int]:
        """``known_values``; raises Undecidable if there are none."""
        return given(self.known_values)


def _float32(value: float) -> float:
    """``value`` as QNN stores it; infinite if it is too large."""
    try:
        return float(FLOAT32.unpack(FLOAT32.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _named(tensors: Sequence[TensorConfig], slots: Sequence[Slot]) -> list[str] | None:
    """The slot that each tensor names, ``xs`` for ``xs[1]``; None if they are bound by position."""
    names = [t.name.partition("[")[0] for t in tensors]
    known = {s.name: s.variadic for s in slots}
    seen: set[str] = set()
    for n in names:
        if n not in known or (n in seen and not known[n]):
            return None
        seen.add(n)
    return names or None


def slot_names(tensors: Sequence[TensorConfig], slots: Sequence[Slot]) -> list[str]:
    """The slot name of each tensor: ``xs[1]`` in a variadic slot, "" without a slot."""
    names = _named(tensors, slots)
    if names is None:
        surplus = max(len(tensors) - len(slots) + 1, 0)
        names = [s.name for s in slots for _ in range(surplus if s.variadic else 1)]
        names = (names + [""] * len(tensors))[: len(tensors)]
    variadic = {s.name for s in slots if s.variadic}
    return [f"{n}[{names[:i].count(n)}]" if n in variadic else n for i, n in enumerate(names)]


def arrange(tensors: Sequence[TensorConfig], slots: Sequence[Slot]) -> list[TensorConfig | None]:
    """The tensors in slot order, None if omitted.  ``xs`` or ``xs[1]`` names a variadic tensor."""
    names = _named(tensors, slots)
    if names is None:
        return [None if t.type == "NULL" else t for t in tensors]
    given: dict[str, list[TensorConfig | None]] = {}
    for t, n in zip(tensors, names, strict=True):
        given.setdefault(n, []).append(None if t.type == "NULL" else t)
    out: list[TensorConfig | None] = []
    for slot in slots:
        out += given.get(slot.name) or ([] if slot.variadic else [None])
    while out and out[-1] is None:
        out.pop()
    return out


def bind(config: OpConfig, signature: Signature, report: Report, outputs: bool = True) -> list[Any] | None:
    """The arguments in the order inputs, params, outputs; None if the config cannot be bound.

    A tensor is a ``Tensor`` or None, a variadic slot a list; a parameter is a bool, int, float, str, list, or
    list of lists, or None if absent.  If ``outputs`` is False, they are neither judged nor returned.
    """
    values = _bind_slots(arrange(config.inputs, signature.inputs), signature.inputs, "input", report)
    values += _bind_params(config.params, signature.params, report)
    if outputs:
        values += _bind_slots(arrange(config.outputs, signature.outputs), signature.outputs, "output", report)
    return None if report.violations else values


def bind_inputs(config: OpConfig, signature: Signature) -> tuple[Report, list[Any]]:
    """A report for the rules of shape inference, and its arguments.  Raises Undecidable if the config cannot be bound."""
    report = Report(signature.op)
    args = bind(config, signature, report, outputs=False)
    report.settle()
    assert args is not None  # else it has violations
    return report, args


def check_unknown(
    config: OpConfig, signature: Signature, report: Report, *, strength: Strength = "require"
) -> None:
    """Judges UNKNOWN_PARAMS, which does not prevent binding.  ``strength`` is expect if the backend ignores them."""
    known = {s.name for s in signature.params}
    for p in config.params:
        if p.name not in known:
            report.add(
                "UNKNOWN_PARAMS", KNOWN, f"{p.name} = unknown", strength=strength, path=f"params.{p.name}"
            )


def _bind_slots(
    tensors: list[TensorConfig | None], slots: Sequence[Slot], what: str, report: Report
) -> list[Any]:
    rule, group = what.upper() + "S", what + "s"
    variadic = any(s.variadic for s in slots)
    if len(tensors) > len(slots) and not variadic:
        report.add(rule, NUMBER.format(what), f"{group} = {len(tensors)}", path=group)
        return []
    values: list[Any] = []
    position = 0
    for i, slot in enumerate(slots):
        if slot.variadic:
            count = max(len(tensors) - position - (len(slots) - i - 1), 0)
            many = [None if t is None else Tensor(t) for t in tensors[position : position + count]]
            if None in many:
                report.add(rule, GIVEN.format(what), f"{slot.name} = omitted", path=f"{group}.{slot.name}")
            elif count < slot.minimum:
                report.add(rule, ENOUGH, f"{slot.name} = {count}", path=f"{group}.{slot.name}")
            values.append(many)
            position += count
            continue
        tensor = tensors[position] if position < len(tensors) else None
        if tensor is None and not slot.optional:
            report.add(rule, GIVEN.format(what), f"{slot.name} = omitted", path=f"{group}.{slot.name}")
        values.append(None if tensor is None else Tensor(tensor))
        position += 1
    return values


def _bind_params(params: Sequence[ParamConfig], slots: Sequence[Param], report: Report) -> list[Any]:
    given: dict[str, ParamConfig] = {}
    known = {s.name for s in slots}
    for p in params:
        if p.name in known and p.name in given:
            report.add("PARAMS", ONCE, f"{p.name} = given twice", path=f"params.{p.name}")
        given.setdefault(p.name, p)
    return [_bind_param(given.get(slot.name), slot, report) for slot in slots]


def _bind_param(param: ParamConfig | None, slot: Param, report: Report) -> Any:
    path = f"params.{slot.name}"
    if param is None:
        if slot.required:
            report.add("PARAMS", GIVEN.format("parameter"), f"{slot.name} = omitted", path=path)
        return None
    if param.dtype != slot.dtype:
        report.add("PARAMS", DTYPE, f"{slot.name} = {param.dtype}", path=path)
        return None
    shape = param.shape or ()
    fits = len(shape) == len(slot.dims) and all(d in (None, s) for d, s in zip(slot.dims, shape, strict=True))
    if not fits:
        report.add("PARAMS", SHAPE, f"{slot.name}.shape = [{', '.join(map(str, shape))}]", path=path)
        return None
    if slot.enum and param.value not in slot.enum:
        report.add("PARAMS", ENUM, f"{slot.name} = {param.value}", path=path)
        return None
    if len(shape) == 2:
        return [list(param.value[r * shape[1] : (r + 1) * shape[1]]) for r in range(shape[0])]
    if slot.dtype == "bool8" and not shape:
        return bool(param.value)
    return list(param.value) if shape else param.value


class TypeRow(NamedTuple):
    """One allowed combination of data types."""

    ident: str
    cells: tuple[frozenset[str], ...]  # the allowed types of each slot
    since: int  # first and last SDK that have it; 0: no bound
    until: int
    needs: str  # the Context field that a chip must have; "": none

    def of_sdk(self, sdk: int) -> bool:
        return self.since <= sdk and (not self.until or sdk <= self.until)

    def of_chip(self, context: Context) -> bool:
        return not self.needs or bool(getattr(context, self.needs))

    def holds(self, context: Context) -> bool:
        """True if the SDK and the chip of a target have the row."""
        return self.of_sdk(context.sdk) and self.of_chip(context)


TypeRows = tuple[TypeRow, ...]


def rows(*table: tuple[str, ...], since: int = 0, until: int = 0, needs: str = "") -> TypeRows:
    """Builds type rows from generated code: an id, then each slot's allowed types, separated by blanks."""
    return tuple(
        TypeRow(ident, tuple(frozenset(cell.split()) for cell in cells), since, until, needs)
        for ident, *cells in table
    )


def check_types(
    report: Report,
    backend: str,
    rows: TypeRows,
    signature: Signature,
    tensors: Sequence[Any],
    context: Context = ANY,
) -> None:
    """Judges TYPES_<backend>: the dtypes of the present tensors must match a row that the SDK has.

    The first match is the config's row; the chip must meet its needs.
    """
    dtypes = [
        [t.dtype for t in v if t] if isinstance(v, list) else [] if v is None else [v.dtype] for v in tensors
    ]
    sentence = ""
    for row in rows:
        fits = all(d in cell for cell, found in zip(row.cells, dtypes, strict=True) for d in found)
        if fits and row.of_sdk(context.sdk):
            if row.of_chip(context):
                return
            sentence = BACKENDS[backend].needs[row.needs]
            break
    slots = [s.name for s in (*signature.inputs, *signature.outputs)]
    text = [f"{name} = {found[0] if len(set(found)) == 1 else '[' + ', '.join(found) + ']'}"
            for name, found in zip(slots, dtypes, strict=True) if found]  # fmt: skip
    report.add(f"TYPES_{backend}", sentence or TYPES_SENTENCE.format(backend), ", ".join(text))
