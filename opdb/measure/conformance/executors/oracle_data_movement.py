"""PyTorch's answers for ops that move elements or make them from indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T


def same_type(config: OpConfig, ignored: Sequence[str] = ("shape", "indices", "condition")) -> None:
    """Raises NoOracle if tensors have different types: the documents do not define conversions while moving data."""
    kinds = {t.dtype for t in (*config.inputs, *config.outputs) if t.type != "NULL" and t.name not in ignored}
    if len(kinds) > 1:
        raise NoOracle(
            f"the documents do not say how {config.op} converts between {', '.join(sorted(kinds))}"
        )


def concat(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.cat([x for x in inputs if x is not None], dim=params.get("axis", inputs[0].ndim - 1))]


def pack(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.stack([x for x in inputs if x is not None], dim=params["axis"])]


def unpack(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return list(torch.unbind(inputs[0], dim=params["axis"]))


def reshape(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.reshape(inputs[0], config.outputs[0].shape)]


def transpose(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.permute(inputs[0], params["perm"])]


def split(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return list(torch.tensor_split(inputs[0], params["split_index"], dim=params["axis"]))


def tile(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.tile(inputs[0], tuple(params["multiples"]))]


def channel_shuffle(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    axis = params.get("axis", inputs[0].ndim - 1)
    parts = inputs[0].unflatten(axis, (params["num_groups"], -1))
    return [parts.transpose(axis, axis + 1).flatten(axis, axis + 1)]


def depth_to_space(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """PyTorch's pixel_shuffle is CRD with square blocks only; the axes of the other modes follow ONNX."""
    same_type(config)
    x, (bh, bw) = inputs[0], params["block_size"]
    n, h, w, d = x.shape
    if params.get("mode", 0) == 1:
        moved = x.reshape(n, h, w, d // (bh * bw), bh, bw).permute(0, 1, 4, 2, 5, 3)
    else:
        moved = x.reshape(n, h, w, bh, bw, d // (bh * bw)).permute(0, 1, 3, 2, 4, 5)
    return [moved.reshape(n, h * bh, w * bw, d // (bh * bw))]


def space_to_depth(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    x, (bh, bw) = inputs[0], params["block_size"]
    n, h, w, c = x.shape
    parts = x.reshape(n, h // bh, bh, w // bw, bw, c)
    order = (0, 1, 3, 5, 2, 4) if params.get("mode", 0) == 1 else (0, 1, 3, 2, 4, 5)
    return [parts.permute(order).reshape(n, h // bh, w // bw, bh * bw * c)]


def batch_to_space(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """TensorFlow's batch_to_space."""
    same_type(config)
    x, (bh, bw) = inputs[0], params["block_size"]
    n, h, w, c = x.shape
    spread = x.reshape(bh, bw, n // (bh * bw), h, w, c).permute(2, 3, 0, 4, 1, 5)
    whole = spread.reshape(n // (bh * bw), h * bh, w * bw, c)
    (top, bottom), (left, right) = params.get("crops", [[0, 0], [0, 0]])
    return [whole[:, top : h * bh - bottom, left : w * bw - right]]


def space_to_batch(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    (top, bottom), (left, right) = params.get("pad_amount", [[0, 0], [0, 0]])
    x, (bh, bw) = F.pad(inputs[0], (0, 0, left, right, top, bottom)), params["block_size"]
    n, h, w, c = x.shape
    parts = x.reshape(n, h // bh, bh, w // bw, bw, c).permute(2, 4, 0, 1, 3, 5)
    return [parts.reshape(n * bh * bw, h // bh, w // bw, c)]


def strided_slice(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Slices like numpy; an end below zero with a negative stride means before the first element."""
    same_type(config)

    def bit(name: str, i: int) -> bool:
        return bool(params.get(name, 0) >> i & 1)

    index: list[Any] = []
    for i, (begin, end, stride) in enumerate(params["ranges"]):
        if bit("new_axes_mask", i):
            index.append(None)
        elif bit("shrink_axes", i):
            index.append(0 if bit("begin_mask", i) else begin)
        else:
            last = None if bit("end_mask", i) or (stride < 0 and end < 0) else end
            index.append(slice(None if bit("begin_mask", i) else begin, last, stride))
    return [torch.from_numpy(np.array(inputs[0].numpy()[tuple(index)]))]


def pad(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    mode = ("constant", "symmetric", "reflect", "edge")[params["scheme"]]
    more = {"constant_values": params.get("pad_constant_value", 0.0)} if mode == "constant" else {}
    if mode == "constant" and not inputs[0].is_floating_point() and "pad_constant_value" in params:
        raise NoOracle("opdb knows pad_constant_value as a real number only")
    padded: Any = np.pad  # its types do not know that a mode may be chosen
    return [torch.from_numpy(padded(inputs[0].numpy(), params["pad_amount"], mode, **more))]


# -- windows


def im2col(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    (top, bottom), (left, right) = params["pad_amount"]
    x = F.pad(inputs[0].permute(0, 3, 1, 2), (left, right, top, bottom))
    return [_unfold(x, params["kernel_size"], params.get("dilation", [1, 1]), params["stride"])]


def _unfold(x: T, size: Any, dilation: Any, stride: Any) -> T:
    """Converts around PyTorch's unfold, which takes real numbers only; opdb's values are exact in float64."""
    return F.unfold(x.double(), size, dilation=dilation, stride=stride).to(x.dtype)


def extract_patches(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Padding SAME as in TensorFlow: an odd element goes to the end."""
    same_type(config)
    x, out = inputs[0].permute(0, 3, 1, 2), config.outputs[0].shape
    size, stride, rate = params["size"], params["stride"], params["rate"]
    if params["padding"] == 1:
        margins = [
            max((out[1 + d] - 1) * stride[d] + (size[d] - 1) * rate[d] + 1 - x.shape[2 + d], 0)
            for d in range(2)
        ]
        (h, w) = margins
        x = F.pad(x, (w // 2, w - w // 2, h // 2, h - h // 2))
    if 0 in out:
        return [torch.zeros(out, dtype=x.dtype)]
    columns = _unfold(x, size, rate, stride).reshape(x.shape[0], x.shape[1], -1, out[1], out[2])
    return [columns.permute(0, 3, 4, 2, 1).reshape(out)]


def col2im(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    (top, bottom), (left, right) = params["pad_amount"]
    _, h, w, _ = config.outputs[0].shape
    y = F.fold(
        inputs[0],
        (h + top + bottom, w + left + right),
        params["kernel_size"],
        dilation=params.get("dilation", [1, 1]),
        stride=params["stride"],
    )
    return [y[:, :, top : top + h, left : left + w].permute(0, 2, 3, 1)]


# -- by indices


def gather(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    table, indices = inputs
    axis = params["axis"]
    found = torch.index_select(table, axis, indices.reshape(-1).long() % max(table.shape[axis], 1))
    return [found.reshape(config.outputs[0].shape)]


def gather_elements(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.gather(inputs[0], params.get("axis", 0), inputs[1].long())]


def gather_nd(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    table, indices, batch = inputs[0], inputs[1].long(), params.get("batch_dims", 0)
    shared = table.shape[:batch]
    tables = table.reshape(-1, *table.shape[batch:])
    tuples = indices.reshape(tables.shape[0], -1, indices.shape[-1])
    rows = [t[tuple(i.unbind(-1))] for t, i in zip(tables, tuples, strict=True)]
    return [torch.stack(rows).reshape((*shared, *indices.shape[batch:-1], *rows[0].shape[1:]))]


def batch_permutation(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    return [torch.index_select(inputs[0], 0, inputs[1].long())]


def scatter_elements(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    x, indices, updates = inputs
    axis, reduction = params.get("axis", 0), params.get("reduction", 0)
    if reduction == 0:
        return [torch.scatter(x, axis, indices.long(), updates)]
    if x.dtype == torch.bool:
        raise NoOracle("the documents do not say how truth values are computed with")
    how = {1: "sum", 2: "prod", 3: "amax"}[reduction]
    return [torch.scatter_reduce(x, axis, indices.long(), updates, how)]


def scatter_nd(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    if config.inputs[1].dtype not in ("i32", "u32"):
        raise NoOracle(f"the documents do not say what indices of {config.inputs[1].dtype} mean")
    x, indices, updates = inputs[0].clone(), inputs[1].long(), inputs[2]
    reduction, length = params.get("reduction", 0), indices.shape[-1]
    if reduction and x.dtype == torch.bool:
        raise NoOracle("the documents do not say how truth values are computed with")
    tuples = indices.reshape(-1, length)
    if updates.numel() != len(tuples) * x[(0,) * length].numel():
        raise NoOracle("the documents want a slice for each tuple of indices")
    for place, row in zip(tuples, updates.reshape(len(tuples), *x.shape[length:]), strict=True):
        at = tuple(place.tolist())
        x[at] = row if reduction == 0 else x[at] + row if reduction == 1 else x[at] * row
    return [x]


def one_hot(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    indices, depth = inputs[0].long(), params["depth"]
    if bool(((indices < 0) | (indices >= depth)).any()):
        raise NoOracle("the documents do not say what an index outside gives")
    hot = F.one_hot(indices, depth).movedim(-1, params.get("axis", indices.ndim)).double()
    on, off = params.get("on_value", 1.0), params.get("off_value", 0.0)
    return [_as_type(hot * (on - off) + off, config.outputs[0])]


def constant_of_shape(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    y = config.outputs[0]
    return [torch.full(y.shape, params["value"], dtype=torch.float64)]


def shape(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    sizes = config.inputs[0].shape
    return [torch.tensor(sizes[params.get("start", 0) : params.get("end", len(sizes))])]


def non_zero(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """The libraries want as many rows as there are elements; the content after the found ones is undefined."""
    found = torch.nonzero(inputs[0])
    wanted = config.outputs[0].shape[0]
    if len(found) != wanted:
        raise NoOracle("the documents do not say what is behind the rows of the elements that are not 0")
    return [found]


# -- by a condition, and types


def select(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    condition, if_true, if_false = inputs
    return [torch.where(condition != 0, if_true, if_false)]


def mux(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    condition, candidates = inputs[0], inputs[1:]
    y = torch.zeros(config.outputs[0].shape, dtype=candidates[0].dtype)
    for k, candidate in enumerate(candidates):
        y = torch.where(condition == k, candidate, y)
    return [y]


def argb_to_rgb(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    colors = inputs[0][..., 1:] if params.get("input_order", 0) == 0 else inputs[0][..., :3]
    return [torch.flip(colors, [-1]) if params["reverse_output"] else colors]


def cast(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Ignores encodings: uses the stored numbers.  The result for numbers that the new type cannot hold is undefined."""
    (source,), (made,) = config.inputs, config.outputs
    stored = stored_in(inputs[0], source)
    if made.dtype == "bool8":
        return [stored != 0]
    kind = BY_SHORT[made.dtype]
    if kind.quantized or not kind.qnn.startswith(("FLOAT", "BFLOAT")):
        whole = torch.trunc(stored.double())
        low, high = _limits(made)
        if bool(((whole < low) | (whole > high)).any()):
            raise NoOracle(
                f"the documents do not say what becomes of numbers that {made.dtype} does not hold"
            )
        return [torch.from_numpy(data.real(whole.numpy().astype(kind.numpy), made))]
    return [stored.double()]


def stored_in(real: T, tensor: TensorConfig) -> T:
    """The stored numbers of a quantized tensor; the numbers themselves for another."""
    if not BY_SHORT[tensor.dtype].quantized:
        return real
    return torch.from_numpy(data.quantized(real.numpy(), tensor).astype("int64"))


def _limits(tensor: TensorConfig) -> tuple[int, int]:
    kind = BY_SHORT[tensor.dtype]
    if kind.quantized:
        return data.limits(tensor)
    held = np.iinfo(str(kind.numpy))
    return int(held.min), int(held.max)


def _as_type(real: T, tensor: TensorConfig) -> T:
    """Real numbers in the form that the judge compares: whole numbers and truth values as such."""
    kind = BY_SHORT[tensor.dtype]
    if kind.quantized or kind.qnn.startswith(("FLOAT", "BFLOAT")):
        return real
    return real != 0 if tensor.dtype == "bool8" else real.long()
