"""Time of the C kernels next to PyTorch eager: the same float32 numbers, one thread, both in this process.

Each op in three sizes; images are channels last for both.  The rounds of the two take turns, the best of each
counts, in microseconds; the ratio is PyTorch's time over opdb's, above 1 opdb is faster.

    python benchmarks/kernels.py [--only NAME]... [--seconds S]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.runtime.native import Prepared

Array = np.ndarray[Any, Any]
T = Any  # torch.Tensor
TYPES = {"float32": "f32", "int32": "i32", "uint32": "u32"}
IMAGES, ROWS = ((1, 14, 14, 64), (1, 56, 56, 32), (1, 112, 112, 32)), ((8, 256), (64, 1024), (1024, 1024))


@dataclass(frozen=True)
class Case:
    """``results``: shape and numpy type of each output; ``eager``: the same in PyTorch."""

    op: str
    size: str
    inputs: tuple[Array, ...]
    params: tuple[ParamConfig, ...]
    results: tuple[tuple[tuple[int, ...], str], ...]
    eager: Callable[[], Any]

    def prepared(self) -> Prepared:
        inputs = tuple(TensorConfig("", TYPES[a.dtype.name], a.shape) for a in self.inputs)
        outputs = tuple(TensorConfig("", TYPES[np.dtype(d).name], s) for s, d in self.results)
        made = [np.empty(s, d) for s, d in self.results]
        return Prepared(OpConfig(self.op, inputs, self.params, outputs), list(self.inputs), made)


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
    """Channels first, as PyTorch has them; they stay last in memory."""
    return torch.from_numpy(image).permute(0, 3, 1, 2)


def of_images() -> Iterator[Case]:
    for shape in IMAGES:
        n, h, w, c = shape
        x = numbers(*shape)
        t, size = first(x), f"{h}x{w}x{c}"

        def case(
            op: str,
            out: tuple[int, ...],
            call: Callable[[], Any],
            *params: ParamConfig,
            more: Sequence[Array] = (),
        ) -> Case:
            return Case(op, size, (x, *more), params, ((out, "float32"),), call)  # noqa: B023  used at once

        none, ones = param("pad_amount", [[0, 0], [0, 0]]), param("stride", [1, 1])
        one = param("pad_amount", [[1, 1], [1, 1]])
        two = (param("filter_size", [2, 2]), param("stride", [2, 2]), none)
        half, double = (n, h // 2, w // 2, c), (n, 2 * h, 2 * w, c)
        filters, each = numbers(3, 3, c, c), numbers(3, 3, 1, c)
        vector, v = numbers(c), torch.from_numpy(numbers(c))
        tf, te = (torch.from_numpy(f).permute(3, 2, 0, 1).contiguous() for f in (filters, each))
        yield case("Conv2d", shape, lambda t=t, f=tf: F.conv2d(t, f, padding=1), ones, one, more=[filters])
        yield case(
            "DepthWiseConv2d",
            shape,
            lambda t=t, f=te, c=c: F.conv2d(t, f, padding=1, groups=c),
            ones,
            one,
            more=[each],
        )
        yield case("PoolMax2d", half, lambda t=t: F.max_pool2d(t, 2), *two)
        yield case("PoolAvg2d", half, lambda t=t: F.avg_pool2d(t, 2), *two)
        yield case(
            "ResizeBilinear", double, lambda t=t: F.interpolate(t, scale_factor=2, mode="bilinear"),
            param("half_pixel_centers", True, "bool8"),
        )  # fmt: skip
        yield case(
            "ResizeNearestNeighbor", double, lambda t=t: F.interpolate(t, scale_factor=2, mode="nearest")
        )
        yield case("Transpose", (n, c, h, w), lambda t=t: t.contiguous(), param("perm", [0, 3, 1, 2]))
        yield case(
            "Batchnorm",
            shape,
            lambda t=t, v=v: t * v.view(-1, 1, 1) + v.view(-1, 1, 1),
            more=[vector, vector],
        )
        yield case(
            "InstanceNorm",
            shape,
            lambda t=t, v=v: F.instance_norm(t, weight=v, bias=v),
            more=[vector, vector],
        )
        yield case(
            "DepthToSpace", (n, 2 * h, 2 * w, c // 4), lambda t=t: F.pixel_shuffle(t, 2),
            param("block_size", [2, 2]), param("mode", 1),
        )  # fmt: skip
        yield case("Concat", (n, h, w, 2 * c), lambda t=t: torch.cat([t, t], 1), param("axis", 3), more=[x])
        yield case("Pad", (n, h + 2, w + 2, c), lambda t=t: F.pad(t, (1, 1, 1, 1)), param("scheme", 0),
                   param("pad_amount", [[0, 0], [1, 1], [1, 1], [0, 0]]))  # fmt: skip


def of_rows() -> Iterator[Case]:
    for shape in ROWS:
        m, n = shape
        x, v = numbers(*shape), numbers(n)
        t, tv, size = torch.from_numpy(x), torch.from_numpy(v), f"{m}x{n}"

        def case(
            op: str,
            out: tuple[int, ...],
            call: Callable[[], Any],
            *params: ParamConfig,
            more: Sequence[Array] = (),
        ) -> Case:
            return Case(op, size, (x, *more), params, ((out, "float32"),), call)  # noqa: B023  used at once

        rows, columns, axis = param("axes", [1]), param("axes", [0]), param("axis", 1)
        square, ts = numbers(n, n), torch.from_numpy(numbers(n, n))
        yield case("MatMul", shape, lambda t=t, s=ts: t @ s, more=[square])
        yield case("FullyConnected", shape, lambda t=t, s=ts, v=tv: F.linear(t, s, v), more=[square, v])
        yield case("Softmax", shape, lambda t=t: torch.softmax(t, 1))
        yield case("LogSoftmax", shape, lambda t=t: torch.log_softmax(t, 1), axis)
        yield case("LayerNorm", shape, lambda t=t, v=tv, n=n: F.layer_norm(t, (n,), v, v), rows, more=[v, v])
        yield case("RmsNorm", shape, lambda t=t, v=tv, n=n: F.rms_norm(t, (n,), v), rows, more=[v])
        yield case("L2Norm", shape, lambda t=t: F.normalize(t, dim=1), axis)
        for op, function in (
            ("ReduceSum", torch.sum), ("ReduceMean", torch.mean), ("ReduceMax", torch.amax), ("ReduceMin", torch.amin)
        ):  # fmt: skip
            yield case(op, (m,), lambda t=t, f=function: f(t, 1), rows)
        yield case("ReduceSum", (n,), lambda t=t: torch.sum(t, 0), columns)
        yield case("CumulativeSum", shape, lambda t=t: torch.cumsum(t, 1), axis)
        yield Case("Argmax", size, (x,), (axis,), (((m,), "int32"),), lambda t=t: torch.argmax(t, 1))
        yield Case("TopK", size, (x,), (param("k", 8),), (((m, 8), "float32"), ((m, 8), "uint32")),
                   lambda t=t: torch.topk(t, 8))  # fmt: skip
        places = np.random.default_rng(7).integers(0, m, (m,)).astype(np.int32)
        torch_places = torch.from_numpy(places)
        yield case("Gather", shape, lambda t=t, i=torch_places: t.index_select(0, i),
                   param("axis", 0, "i32"), more=[places])  # fmt: skip
        yield case("Tile", (2 * m, n), lambda t=t: t.tile(2, 1), param("multiples", [2, 1]))
        yield case("StridedSlice", (m // 2, n // 2), lambda t=t: t[::2, ::2].contiguous(),
                   param("ranges", [[0, m, 2], [0, n, 2]], "i32"))  # fmt: skip
        for op, function in (
            ("ElementWiseAbs", torch.abs), ("ElementWiseExp", torch.exp), ("Gelu", F.gelu), ("Relu", torch.relu),
            ("Sigmoid", torch.sigmoid), ("Tanh", torch.tanh),
        ):  # fmt: skip
            yield case(op, shape, lambda t=t, f=function: f(t))
        for op, function in (
            ("ElementWiseAdd", torch.add), ("ElementWiseMultiply", torch.mul), ("ElementWiseDivide", torch.div),
            ("ElementWiseMaximum", torch.maximum), ("ElementWiseSubtract", torch.sub),
        ):  # fmt: skip
            yield case(op, shape, lambda t=t, f=function: f(t, t), more=[x])
        yield case("ElementWiseAdd", shape, lambda t=t, v=tv: t + v, more=[v])


def best(calls: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """The best round of each, in microseconds."""
    found = [math.inf] * len(calls)
    for call in calls:
        call()
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            start = time.perf_counter_ns()
            call()
            found[i] = min(found[i], (time.perf_counter_ns() - start) / 1000)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="OP", help="these ops; by default all")
    parser.add_argument("--seconds", type=float, default=0.15, help="per column and case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios: dict[str, list[float]] = {}
    sys.stdout.write(f"{'op':24}{'size':>14}{'opdb us':>12}{'PyTorch us':>12}{'ratio':>8}\n")
    for case in (*of_images(), *of_rows()):
        if options.only and case.op not in options.only:
            continue
        with torch.no_grad():
            own, eager = best([case.prepared().run, case.eager], options.seconds)
        ratios.setdefault(case.op, []).append(eager / own)
        sys.stdout.write(f"{case.op:24}{case.size:>14}{own:12.1f}{eager:12.1f}{eager / own:8.2f}\n")
        sys.stdout.flush()
    if not ratios:
        sys.stderr.write("kernels: no case has one of these ops\n")
        return 2
    every = sorted(r for values in ratios.values() for r in values)
    mean = math.exp(sum(map(math.log, every)) / len(every))
    middle = every[len(every) // 2]
    sys.stdout.write(
        f"\n{len(ratios)} ops, {len(every)} cases: geometric mean {mean:.2f}, least {every[0]:.2f}, median "
        f"{middle:.2f}, most {every[-1]:.2f}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
