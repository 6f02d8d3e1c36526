"""Turns samples of a spec into op configs: one data type per slot, outputs by inference, encodings for quantized types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, Quant, Sparse, TensorConfig, centered
from opdb.judge.validate import check, infer
from opdb.runtime.checks import Undecidable
from opdb.spec.definitions import CompiledOp, Param, Slot
from opdb.spec.each import kind_of

ABSENT = "NULL"
#: Outputs that are known to lie in [0, 1], as a calibration would find: op -> values of `operation` (None: any).
UNIT: dict[str, tuple[int, ...] | None] = {
    "Softmax": None,
    "ElementWiseNeuron": (2, 6),
}  # HARD_SIGMOID, SIGMOID


#: Returns the shapes of a config's outputs, like ``opdb.judge.validate.infer``.
Infer = Callable[[OpConfig], Mapping[str, Any]]


def sample_config(
    compiled: CompiledOp, sample: int, dtypes: Mapping[str, str], infer: Infer = infer
) -> OpConfig:
    """The op config of one sample, with a data type (short name) for each slot.

    Omitted optional inputs before a given one are NULL tensors; later ones are left out.  Weights
    (``weights``) are STATIC.  ``infer`` is by default the generated validator's.  Raises OpdbError for a
    sample whose outputs cannot be inferred.
    """
    values = compiled.definition.samples[sample]
    held = weights(compiled)
    inputs: list[TensorConfig] = []
    for slot in compiled.inputs:
        inputs += _tensors(slot, values.get(slot.name), dtypes[slot.name], slot.name in held)
    while inputs and inputs[-1].type == ABSENT:
        inputs.pop()
    params = tuple(_param(compiled, p, values[p.name]) for p in compiled.params if p.name in values)
    config = OpConfig(compiled.name, tuple(inputs), params, package=compiled.definition.package)
    outputs = [t for s in compiled.outputs for t in _tensors(s, values.get(s.name), dtypes[s.name], False)]
    made = with_outputs(replace(config, outputs=tuple(outputs)), compiled, dtypes, infer)
    if made is None:
        raise OpdbError(f"specs/ops/{compiled.name}.yaml: samples[{sample}]: its outputs cannot be inferred")
    return encoded(compiled, with_sparse(compiled, made))


def kernel_types(compiled: CompiledOp, dtype: str) -> dict[str, str]:
    """A data type for each slot if the first input has ``dtype``: the same, or the first of the slot's own types in the
    type rows (indices, booleans).
    """
    first = compiled.inputs[0].name
    rows = [r.cells for rows in compiled.type_rows.values() for r in rows if r.cells.get(first)]
    kind = kind_of(dtype)

    def distance(cells: Mapping[str, Sequence[str]]) -> tuple[bool, bool]:
        return dtype not in cells[first], kind not in map(kind_of, cells[first])

    row: Mapping[str, Sequence[str]] = min(rows, key=distance, default={})
    of_row = row.get(first, (dtype,))
    like = dtype if dtype in of_row else next((d for d in of_row if kind_of(d) == kind), of_row[0])

    def chosen(slot: Slot) -> str:
        if slot.definition.dtype:
            return slot.definition.dtype[0]
        cell = row.get(slot.name) or (like,)
        return dtype if like in cell else cell[0]

    return {s.name: chosen(s) for s in compiled.slots}


#: Slots whose types follow one another, not the first input.
_OWN_TYPES = {"ElementWiseMux": {"candidates": "f16", "y": "f16"}}


def kernel_configs(compiled: CompiledOp) -> list[OpConfig]:
    """The samples of an op in every data type of its kernel, as far as the op definition accepts them.

    If it refuses outputs of such a type, they are f32.
    """
    kernel = compiled.definition.kernel
    found = []
    for sample in range(len(compiled.definition.samples)):
        for dtype in kernel.dtypes if kernel else ():
            types = kernel_types(compiled, dtype) | _OWN_TYPES.get(compiled.name, {})
            for output in ({}, {s.name: "f32" for s in compiled.outputs}):
                config = sample_config(compiled, sample, types | output)
                if check(config).verdict == "accept":
                    found.append(config)
                    break
    return found


def with_sparse(compiled: CompiledOp, config: OpConfig) -> OpConfig:
    """``config`` with one specified element in each tensor that the op wants sparse."""

    def fitting(t: TensorConfig) -> TensorConfig:
        return replace(t, sparse=Sparse(1, t.rank)) if slot_of(t) in compiled.sparse and t.rank else t

    inputs = tuple(fitting(t) for t in config.inputs)
    return replace(config, inputs=inputs, outputs=tuple(fitting(t) for t in config.outputs))


def weights(compiled: CompiledOp) -> frozenset[str]:
    """The inputs that a model holds as constants: optional ones, and those quantized along an axis."""
    quant = compiled.definition.quant
    return frozenset(
        s.name
        for s in compiled.inputs
        if s.optional or (isinstance(quant.get(s.name), dict) and "axis" in quant[s.name])
    )


def _tensors(slot: Slot, value: Any, dtype: str, static: bool) -> list[TensorConfig]:
    if value is None:
        return [] if slot.output else [TensorConfig(slot.name, dtype, (), ABSENT)]
    kind = "STATIC" if static else "NATIVE"
    if slot.variadic:
        return [TensorConfig(f"{slot.name}[{i}]", dtype, tuple(s), kind) for i, s in enumerate(value)]
    return [TensorConfig(slot.name, dtype, tuple(value), kind)]


def _param(compiled: CompiledOp, param: Param, value: Any) -> ParamConfig:
    d = param.definition
    if d.enum:
        return ParamConfig(param.name, d.base, d.enum[str(value)])
    if not d.dims:
        return ParamConfig(param.name, d.base, _scalar(value, d.base))
    shape = [len(value)] if len(d.dims) == 1 else [len(value), len(value[0]) if value else 0]
    flat = value if len(d.dims) == 1 else [v for row in value for v in row]
    return ParamConfig(param.name, d.base, tuple(_scalar(v, d.base) for v in flat), tuple(shape))


def _scalar(value: Any, dtype: str) -> Any:
    if dtype == "bool8":
        return bool(value)
    return float(value) if BY_SHORT[dtype].qnn.startswith(("FLOAT", "BFLOAT")) else value


def slot_of(tensor: TensorConfig) -> str:
    """The slot of a config's tensor; e.g. xs[1] -> xs."""
    return tensor.name.partition("[")[0]


def resized(tensor: TensorConfig, shape: tuple[int, ...]) -> TensorConfig:
    """The tensor in another shape; scales along an axis follow its size."""
    quant = tensor.quant
    if quant is not None and quant.axis is not None and quant.axis < len(shape) and quant.scale:
        n = shape[quant.axis]
        quant = replace(quant, scale=quant.scale[:1] * n, offset=quant.offset[:1] * n)
    return replace(tensor, shape=shape, quant=quant)


def sparse_within(tensor: TensorConfig) -> TensorConfig:
    """The tensor with at most as many sparse dimensions as dimensions; an op config cannot express more."""
    if tensor.sparse is None or (tensor.type != ABSENT and tensor.sparse.dimensions <= tensor.rank):
        return tensor
    keeps = tensor.type != ABSENT and tensor.rank > 0
    return replace(tensor, sparse=Sparse(tensor.sparse.specified, tensor.rank) if keeps else None)


def with_outputs(
    config: OpConfig, compiled: CompiledOp, dtypes: Mapping[str, str], infer: Infer = infer
) -> OpConfig | None:
    """``config`` with the outputs inferred from its inputs and parameters; None if they cannot be.

    Outputs that the spec does not infer are kept, and so are the attributes of existing ones.
    """
    settled = len(compiled.inferences) == len(compiled.outputs)  # infer answers all or none
    try:
        shapes: Mapping[str, Any] = infer(config) if settled else {}
    except Undecidable:
        return None
    outputs: list[TensorConfig] = []
    for slot in compiled.outputs:
        old = [t for t in config.outputs if slot_of(t) == slot.name]
        if slot.name not in shapes:
            outputs += old
            continue
        fresh = TensorConfig(slot.name, dtypes[slot.name], ())
        if not slot.variadic:
            made = [(slot.name, shapes[slot.name])]
        else:
            made = [(f"{slot.name}[{i}]", s) for i, s in enumerate(shapes[slot.name])]
        for i, (name, shape) in enumerate(made):
            if any(d < 0 for d in shape):
                return None
            like = old[min(i, len(old) - 1)] if old else fresh
            same = (like.name, like.shape) == (name, tuple(shape))
            outputs.append(like if same else replace(like, name=name, shape=tuple(shape)))
    return replace(config, outputs=tuple(outputs))


def encoded(compiled: CompiledOp, config: OpConfig) -> OpConfig:
    """``config`` with an encoding on each tensor of a quantized type, and on no other."""
    first = {slot_of(t): centered(t.dtype) for t in (*config.inputs, *config.outputs)}

    def fitting(t: TensorConfig) -> TensorConfig:
        if not BY_SHORT[t.dtype].quantized or t.type == ABSENT:
            return replace(t, quant=None)
        rule = compiled.definition.quant.get(slot_of(t))
        scale = _product(rule, first) if t.dtype == "sq32" and isinstance(rule, dict) else None
        return replace(t, quant=centered(t.dtype, scale))

    outputs = [unit(t) if _in_unit(config) else fitting(t) for t in config.outputs]
    return replace(config, inputs=tuple(fitting(t) for t in config.inputs), outputs=tuple(outputs))


def _in_unit(config: OpConfig) -> bool:
    if config.op not in UNIT:
        return False
    chosen, operation = UNIT[config.op], [p.value for p in config.params if p.name == "operation"]
    return chosen is None or operation[0] in chosen


def unit(tensor: TensorConfig) -> TensorConfig:
    """The tensor encoded for [0, 1): the smallest stored value is zero."""
    kind = BY_SHORT[tensor.dtype]
    offset = 0 if kind.qnn.startswith("U") else 2 ** (kind.bits - 1)
    quant = Quant("SCALE_OFFSET", (2.0**-kind.bits,), (offset,)) if kind.quantized else None
    return replace(tensor, quant=quant)


def _product(rule: Mapping[str, Any], encodings: Mapping[str, Quant | None]) -> float | None:
    """The value of a scale that a spec derives: ``x.scale * weight.scale``."""
    scale = 1.0
    for factor in str(rule.get("scale", "")).split("*"):
        match = re.fullmatch(r"\s*(\w+)\.scale\s*", factor)
        of = encodings.get(match[1]) if match else None
        if of is None:
            return None
        scale *= of.scale[0]
    return scale
