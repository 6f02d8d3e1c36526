"""Gives the same data another number of dimensions, if a target limits it.

Neighboring dimensions are merged, or dimensions of 1 are put in front.  The op then only needs Reshapes around it:
the order of the elements stays, and an axis of the op is never merged with another dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

from opdb.core.op_config import MAX_RANK, OpConfig, ParamConfig, TensorConfig
from opdb.runtime.binding import slot_names
from opdb.runtime.checks import Undecidable

#: The most dimensions that are merged or added, and the most configs that are tried.
STEPS, TRIED = 4, 200
AXES = ("axis", "axes")
#: Ops for which all dimensions except the first and the last are part of one image.
IMAGES = ("InstanceNorm", "GroupNorm", "Resize")
#: Ops without an axis that treat every element alike, besides those named ElementWise...
ALIKE = (
    "Cast",
    "Convert",
    "Dequantize",
    "Gelu",
    "Quantize",
    "Relu",
    "Relu1",
    "Relu6",
    "ReluMinMax",
    "Sigmoid",
    "Tanh",
)


def reshaped(module: Any, config: OpConfig, accepts: Callable[[OpConfig], bool]) -> OpConfig | None:
    """The accepted config with the fewest dimensions merged or added; None if neither helps."""
    tried = 0
    for step in (_merged, _widened):
        level = [config]
        for _ in range(STEPS):
            level = list(dict.fromkeys(m for c in level for m in step(c)))
            for made in level:
                tried += 1
                candidate = _followed(module, made, config)
                if candidate is not None and accepts(candidate):
                    return candidate
                if tried > TRIED:
                    return None
    return None


def _merged(config: OpConfig) -> Iterator[OpConfig]:
    """``config`` with two neighboring dimensions of its data merged, the first ones first."""
    rank = max((t.rank for t in config.inputs if t.type != "NULL"), default=0)
    for at in range(min(rank - 1, _free(config))):
        inputs = [m for t in config.inputs if (m := _merge(t, at - (rank - t.rank))) is not None]
        params = [v for p in config.params if (v := _moved(p, at, rank)) is not None]
        if len(inputs) == len(config.inputs) and len(params) == len(config.params):
            yield replace(config, inputs=tuple(inputs), params=tuple(params))


def _free(config: OpConfig) -> int:
    """The number of pairs of neighboring dimensions, from the front, that can be merged without changing the result.

    All if the op names its axes or treats every element alike; else one, because the first two dimensions are taken for
    batches; none for IMAGES.
    """
    alike = config.op.startswith("ElementWise") or config.op in ALIKE
    if alike or any(p.name in AXES for p in config.params):
        return MAX_RANK
    return 0 if config.op in IMAGES else 1


def _merge(tensor: TensorConfig, at: int) -> TensorConfig | None:
    """``tensor`` with the dimensions ``at`` and ``at + 1`` merged; None if that changes its meaning.

    A tensor of a smaller rank broadcasts from the right: it keeps its dimensions after these two.
    """
    if tensor.type == "NULL" or at < -1 or (at == -1 and tensor.shape[:1] in ((), (1,))):
        return tensor
    if at == -1:
        return None
    quant, shape = tensor.quant, tensor.shape
    if quant is not None and quant.axis is not None:
        if quant.axis in (at, at + 1):
            return None
        quant = replace(quant, axis=quant.axis - (quant.axis > at))
    return replace(tensor, shape=(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]), quant=quant)


def _moved(param: ParamConfig, at: int, rank: int) -> ParamConfig | None:
    """The axis after dimensions ``at`` and ``at + 1`` are merged; None if it refers to only one of them."""
    if param.name not in AXES:
        return param
    values = [param.value] if param.shape is None else list(param.value)
    if not all(isinstance(v, int) and 0 <= v < rank for v in values):
        return None
    if len({at, at + 1} & set(values)) == 1 or (param.shape is None and values[0] in (at, at + 1)):
        return None
    return _valued(param, list(dict.fromkeys(v - (v > at) for v in values)))


def _widened(config: OpConfig) -> Iterator[OpConfig]:
    """``config`` with a dimension of 1 in front of the inputs of one rank, the largest rank first."""
    ranks = sorted({t.rank for t in config.inputs if t.type != "NULL"}, reverse=True)
    for rank in ranks:
        inputs = tuple(_wide(t) if t.type != "NULL" and t.rank == rank else t for t in config.inputs)
        params = tuple(_later(p) if rank == ranks[0] else p for p in config.params)
        yield replace(config, inputs=inputs, params=params)


def _wide(tensor: TensorConfig) -> TensorConfig:
    quant = tensor.quant
    if quant is not None and quant.axis is not None:
        quant = replace(quant, axis=quant.axis + 1)
    return replace(tensor, shape=(1, *tensor.shape), quant=quant)


def _later(param: ParamConfig) -> ParamConfig:
    values = [param.value] if param.shape is None else list(param.value)
    return _valued(param, [v + 1 for v in values]) if param.name in AXES else param


def _valued(param: ParamConfig, values: list[int]) -> ParamConfig:
    if param.shape is None:
        return replace(param, value=values[0])
    return replace(param, value=tuple(values), shape=(len(values),))


def _followed(module: Any, made: OpConfig, config: OpConfig) -> OpConfig | None:
    """``made`` with inferred outputs; None if their number of elements differs from ``config``'s."""
    try:
        found = module.infer(made)
    except (Undecidable, OverflowError, ValueError):
        return None
    outputs, places = [], dict[str, int]()
    for name, was in zip(slot_names(config.outputs, module.SIGNATURE.outputs), config.outputs, strict=True):
        slot = name.partition("[")[0]
        shape = found.get(slot)
        if shape and isinstance(shape[0], list):
            at = places.setdefault(slot, 0)
            places[slot] += 1
            shape = shape[at] if at < len(shape) else None
        if was.type == "NULL":
            outputs.append(was)
        elif shape is None or prod(shape) != prod(was.shape):
            return None
        else:
            outputs.append(replace(was, shape=tuple(shape)))
    return replace(made, outputs=tuple(outputs))
