"""The arguments of the references: real values in the order of an op's inputs, and parameters by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opdb.core.op_config import OpConfig, TensorConfig
from opdb.generated import validators
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Array, NoOracle
from opdb.runtime.binding import arrange

ABSENT = TensorConfig("", "f32", (), "NULL")
#: Ops with some real inputs and some whole ones: indices, sizes, truth values.
MIXED = (
    "AxisAlignedBboxTransform", "BatchPermutation", "BoxWithNmsLimit", "CropAndResize", "DequantizeAdd",
    "ElementWiseMux", "ElementWiseSelect", "Gather", "GatherElements", "GatherNd", "GroupQueryAttention", "Gru",
    "Lstm", "MultiClassNms", "Reshape", "RoiAlign", "RoiPooling", "RotaryEmbedding", "ScatterElements", "ScatterNd",
)  # fmt: skip


def meaning(
    config: OpConfig, inputs: Sequence[Array | None]
) -> tuple[OpConfig, list[Array | None], dict[str, Any]]:
    """Returns the config with inputs in the spec's order, their real values (float64, int64 or bool), and the parameters.

    An omitted input is ABSENT, and None among the values.  Raises NoOracle if the documents do
    not define the meaning of the values.
    """
    for t in (*config.inputs, *config.outputs):
        axis = t.quant.axis if t.quant is not None and "AXIS" in t.quant.encoding else None
        if t.quant is not None and axis is not None and t.shape[axis : axis + 1] != (len(t.quant.scale),):
            raise NoOracle(f"{t.name} has not as many scales as elements along their axis")
    real_of = {id(t): data.real(a, t) for a, t in zip(inputs, config.inputs, strict=True) if a is not None}
    arranged = arrange(config.inputs, _slots(config.op))
    given = [None if t is None else real_of.get(id(t)) for t in arranged]
    real = [x.dtype.kind == "f" for x in given if x is not None]
    if any(real) and not all(real) and config.op not in MIXED:
        raise NoOracle(
            f"the documents do not say how {config.op} computes with real and whole numbers together"
        )
    params = {p.name: _value(p.value, p.shape) for p in config.params}
    return replace(config, inputs=tuple(t or ABSENT for t in arranged)), given, params


def optional(inputs: Sequence[Any], i: int) -> Any:
    """Input ``i``, or None if it is omitted."""
    return inputs[i] if i < len(inputs) else None


def _slots(op: str) -> Sequence[Any]:
    module = validators.module(op)
    return () if module is None else module.SIGNATURE.inputs


def _value(value: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is None or len(shape) == 1:
        return list(value) if shape else value
    return [list(value[r * shape[1] : (r + 1) * shape[1]]) for r in range(shape[0])]
