"""The cases that benchmarks/kernels.py times: each op in three sizes, elementwise ops in a fourth.

A case is an op config with arrays, and a PyTorch function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig

Array = np.ndarray[Any, Any]
T = Any  # torch.Tensor
IMAGES, ROWS = ((1, 14, 14, 64), (1, 56, 56, 32), (1, 112, 112, 32)), ((8, 256), (64, 1024), (1024, 1024))
LARGE = (4096, 8192)


TYPES = {"float32": "f32", "int32": "i32", "uint32": "u32"}
WEIGHTED = {
    "Batchnorm", "Conv2d", "DepthWiseConv2d", "FullyConnected", "InstanceNorm", "LayerNorm", "MatMul", "RmsNorm"
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``results``: shape and numpy type of each output; ``function`` of ``tensors``: the same computation in PyTorch."""

    op: str
    size: str
    inputs: tuple[Array, ...]
    params: tuple[ParamConfig, ...]
    results: tuple[tuple[tuple[int, ...], str], ...]
    tensors: tuple[T, ...]
    function: Callable[..., Any]

    @property
    def large(self) -> bool:
        """True if the tensors are far larger than the caches."""
        return self.inputs[0].shape == LARGE

    @property
    def constants(self) -> int:
        """The number of trailing inputs that are weights, which a model stores."""
        return len(self.inputs) - 1 if self.op in WEIGHTED else 0

    @property
    def config(self) -> OpConfig:
        first_weight = len(self.inputs) - self.constants
        inputs = tuple(
            TensorConfig("", TYPES[a.dtype.name], a.shape, *(("STATIC", a) if i >= first_weight else ()))
            for i, a in enumerate(self.inputs)
        )
        outputs = tuple(TensorConfig("", TYPES[np.dtype(d).name], s) for s, d in self.results)
        return OpConfig(self.op, inputs, self.params, outputs)


def param(name: str, value: Any, dtype: str = "u32") -> ParamConfig:
    if isinstance(value, list) and isinstance(value[0], list):
        flat = tuple(v for row in value for v in row)
        return ParamConfig(name, dtype, flat, (len(value), len(value[0])))
    if isinstance(value, list):
        return ParamConfig(name, dtype, tuple(value), (len(value),))
    return ParamConfig(name, dtype, value)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape, np.float32)


def first(image: Array) -> T:
    """The image with channels first, as PyTorch has them; they stay last in memory."""
    return torch.from_numpy(image).permute(0, 3, 1, 2)


def of_images() -> Iterator[Case]:
    for shape in IMAGES:
        n, h, w, c = shape
        x = numbers(*shape)
        t, size = first(x), f"{h}x{w}x{c}"

        def case(
            op: str,
            out: tuple[int, ...],
            tensors: tuple[T, ...],
            function: Callable[..., T],
            *params: ParamConfig,
            more: Sequence[Array] = (),
        ) -> Case:
            return Case(op, size, (x, *more), params, ((out, "float32"),), tensors, function)  # noqa: B023  used at once

        none, ones = param("pad_amount", [[0, 0], [0, 0]]), param("stride", [1, 1])
        one = param("pad_amount", [[1, 1], [1, 1]])
        two = (param("filter_size", [2, 2]), param("stride", [2, 2]), none)
        half, double = (n, h // 2, w // 2, c), (n, 2 * h, 2 * w, c)
        filters, each = numbers(3, 3, c, c), numbers(3, 3, 1, c)
        vector, v = numbers(c), torch.from_numpy(numbers(c))
        tf, te = (torch.from_numpy(f).permute(3, 2, 0, 1).contiguous() for f in (filters, each))
        yield case(
            "Conv2d", shape, (t, tf), lambda t, f: F.conv2d(t, f, padding=1), ones, one, more=[filters]
        )
        yield case(
            "DepthWiseConv2d",
            shape,
            (t, te),
            lambda t, f, c=c: F.conv2d(t, f, padding=1, groups=c),
            ones,
            one,
            more=[each],
        )
        yield case("PoolMax2d", half, (t,), lambda t: F.max_pool2d(t, 2), *two)
        yield case("PoolAvg2d", half, (t,), lambda t: F.avg_pool2d(t, 2), *two)
        yield case(
            "ResizeBilinear", double, (t,), lambda t: F.interpolate(t, scale_factor=2, mode="bilinear"),
            param("half_pixel_centers", True, "bool8"),
        )  # fmt: skip
        yield case(
            "ResizeNearestNeighbor", double, (t,), lambda t: F.interpolate(t, scale_factor=2, mode="nearest")
        )
        yield case("Transpose", (n, c, h, w), (t,), lambda t: t.contiguous(), param("perm", [0, 3, 1, 2]))
        yield case(
            "Batchnorm",
            shape,
            (t, v),
            lambda t, v: t * v.view(-1, 1, 1) + v.view(-1, 1, 1),
            more=[vector, vector],
        )
        yield case(
            "InstanceNorm",
            shape,
            (t, v),
            lambda t, v: F.instance_norm(t, weight=v, bias=v),
            more=[vector, vector],
        )
        yield case(
            "DepthToSpace", (n, 2 * h, 2 * w, c // 4), (t,), lambda t: F.pixel_shuffle(t, 2),
            param("block_size", [2, 2]), param("mode", 1),
        )  # fmt: skip
        yield case(
            "Concat", (n, h, w, 2 * c), (t,), lambda t: torch.cat([t, t], 1), param("axis", 3), more=[x]
        )
        yield case("Pad", (n, h + 2, w + 2, c), (t,), lambda t: F.pad(t, (1, 1, 1, 1)), param("scheme", 0),
                   param("pad_amount", [[0, 0], [1, 1], [1, 1], [0, 0]]))  # fmt: skip


def of_rows() -> Iterator[Case]:
    for shape in ROWS:
        m, n = shape
        x, v = numbers(*shape), numbers(n)
        t, tv, size = torch.from_numpy(x), torch.from_numpy(v), f"{m}x{n}"

        def case(
            op: str,
            out: tuple[int, ...],
            tensors: tuple[T, ...],
            function: Callable[..., T],
            *params: ParamConfig,
            more: Sequence[Array] = (),
        ) -> Case:
            return Case(op, size, (x, *more), params, ((out, "float32"),), tensors, function)  # noqa: B023  used at once

        rows, columns, axis = param("axes", [1]), param("axes", [0]), param("axis", 1)
        square, ts = numbers(n, n), torch.from_numpy(numbers(n, n))
        yield case("MatMul", shape, (t, ts), lambda t, s: t @ s, more=[square])
        yield case("FullyConnected", shape, (t, ts, tv), lambda t, s, v: F.linear(t, s, v), more=[square, v])
        yield case("Softmax", shape, (t,), lambda t: torch.softmax(t, 1))
        yield case("LogSoftmax", shape, (t,), lambda t: torch.log_softmax(t, 1), axis)
        yield case(
            "LayerNorm", shape, (t, tv), lambda t, v, n=n: F.layer_norm(t, (n,), v, v), rows, more=[v, v]
        )
        yield case("RmsNorm", shape, (t, tv), lambda t, v, n=n: F.rms_norm(t, (n,), v), rows, more=[v])
        yield case("L2Norm", shape, (t,), lambda t: F.normalize(t, dim=1), axis)
        for op, function in (
            ("ReduceSum", torch.sum), ("ReduceMean", torch.mean), ("ReduceMax", torch.amax), ("ReduceMin", torch.amin)
        ):  # fmt: skip
            yield case(op, (m,), (t,), lambda t, f=function: f(t, 1), rows)
        yield case("ReduceSum", (n,), (t,), lambda t: torch.sum(t, 0), columns)
        yield case("CumulativeSum", shape, (t,), lambda t: torch.cumsum(t, 1), axis)
        yield Case("Argmax", size, (x,), (axis,), (((m,), "int32"),), (t,), lambda t: torch.argmax(t, 1))
        yield Case("TopK", size, (x,), (param("k", 8),), (((m, 8), "float32"), ((m, 8), "uint32")),
                   (t,), lambda t: torch.topk(t, 8))  # fmt: skip
        places = np.random.default_rng(7).integers(0, m, (m,)).astype(np.int32)
        torch_places = torch.from_numpy(places)
        yield case("Gather", shape, (t, torch_places), lambda t, i: t.index_select(0, i),
                   param("axis", 0, "i32"), more=[places])  # fmt: skip
        yield case("Tile", (2 * m, n), (t,), lambda t: t.tile(2, 1), param("multiples", [2, 1]))
        yield case("StridedSlice", (m // 2, n // 2), (t,), lambda t: t[::2, ::2].contiguous(),
                   param("ranges", [[0, m, 2], [0, n, 2]], "i32"))  # fmt: skip


def of_elements() -> Iterator[Case]:
    """Elementwise functions; the largest tensors are 128 MiB each, far larger than the caches, so memory is the bound."""
    for shape in (*ROWS, LARGE):
        m, n = shape
        x, v = numbers(*shape), numbers(n)
        t, tv, size = torch.from_numpy(x), torch.from_numpy(v), f"{m}x{n}"

        def case(op: str, tensors: tuple[T, ...], function: Callable[..., T], *more: Array) -> Case:
            return Case(op, size, (x, *more), (), ((x.shape, "float32"),), tensors, function)  # noqa: B023  used at once

        for op, function in (
            ("ElementWiseAbs", torch.abs), ("ElementWiseExp", torch.exp), ("ElementWiseFloor", torch.floor),
            ("ElementWiseSin", torch.sin), ("Gelu", F.gelu), ("HardSwish", F.hardswish), ("Relu", torch.relu),
            ("Sigmoid", torch.sigmoid), ("Tanh", torch.tanh),
        ):  # fmt: skip
            yield case(op, (t,), lambda t, f=function: f(t))
        for op, function in (
            ("ElementWiseAdd", torch.add), ("ElementWiseMultiply", torch.mul), ("ElementWiseDivide", torch.div),
            ("ElementWiseMaximum", torch.maximum), ("ElementWiseSubtract", torch.sub),
        ):  # fmt: skip
            yield case(op, (t,), lambda t, f=function: f(t, t), x)
        yield case("ElementWiseAdd", (t, tv), lambda t, v: t + v, v)
