"""Checks what a package for Cloud AI has to compute, infer, divide and refuse, with opdb's runner in this process.

    python cloud_ai_battery.py FOLDER

Prints 'passed' if all is right; else exits with code 1 and the first failing case, or with whatever ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from battery import PARAMS, blurred, dequantized, halved, made, on_floats, op, plain, shifted, weighted
from case import Case
from cloud_ai_ops import API, SCRATCH

from opdb.core.graph import GraphTensor
from opdb.core.op_config import OpConfig
from opdb.plugins.cloud_ai import conformance
from opdb.plugins.cloud_ai.codegen import aic

ORDERS = ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1))
#: The axes along which an op may be cut, with their alignments.
AXES = {
    "Blur": {0: 1, 1: 1, 2: 1, 3: 4},
    "Halved": {0: 1, 1: 1},
    "Grouped": {0: 1, 1: 4},
}
#: Ops whose output four threads divide in these cases.
DIVIDED = (
    "Blur uq8 (3, 5, 7, 12)",
    "Blur uq8 (1, 9, 3, 8)",
    "Halved (8, 1, 5)",
    "Grouped (5, 8)",
    "Grouped (1, 24)",
)


def grouped(shape: tuple[int, int]) -> Case:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    y = x.reshape(-1, 4)[:, ::-1].reshape(shape)
    tensors = [GraphTensor("x", "f32", shape, "NATIVE"), GraphTensor("y", "f32", shape, "NATIVE")]
    graph = made("grouped", tensors, op("Grouped", ("x",), ("y",)))
    return Case(f"Grouped {shape}", graph, {"x": x}, {"y": y})


def cases() -> Iterator[Case]:
    """The cases that Cloud AI's tensors can express."""
    for inputs in (("x",), ("x", "a"), ("x", "a", "b")):
        yield weighted(inputs, (2, 3))
    for shape in ((6,), (1, 2, 3), (3, 2)):
        yield weighted(("x", "a"), shape)
    other = {"list": (30, 4, 5), "rows": (1, -2, 3, 40), "reals": (0.5, 8.0), "flag": False}
    for name, value in other.items():
        yield weighted(("x",), (2, 3), [replace(p, value=value) if p.name == name else p for p in PARAMS])
    yield weighted(("x",), (2, 3), PARAMS[::-1])
    for dtype in ("sq8", "uq8", "sq16"):
        yield shifted(dtype, (3, 5))
    yield dequantized("sq8")
    for shape in ((3, 5, 7, 12), (1, 9, 3, 8)):
        yield blurred("uq8", shape)
    yield blurred("sq8", (1, 4, 3, 5))
    for shape in ((8, 3, 5), (8, 1, 5)):
        yield halved(shape)
    for shape in ((5, 8), (1, 24), (1, 4)):
        yield grouped(shape)
    small = np.arange(70, dtype=np.float32).reshape(10, 7)
    yield plain("Turned", small, small[::-1, ::-1].copy())
    yield from (c for c in on_floats() if not c.name.startswith("Turned"))
    wrong = [replace(p, value=9) if p.name == "mode" else p for p in PARAMS]
    refused = weighted(("x",), (2, 3), wrong)
    yield Case("Weighted, no such mode", refused.graph, refused.inputs, None, "Weighted.PARAMS")
    big = np.zeros((1, SCRATCH), np.float32)
    yield Case(
        "Turned, too big", plain("Turned", big, big).graph, {"x": big}, None, "bytes of scratch and has"
    )


def check(case: Case, folder: Path) -> None:
    """Exits with the error, if there is one."""
    node = case.graph.ops[0]
    config = case.graph.op_config(node)
    package = conformance.Package(folder, API, node.op)
    inputs = [np.ascontiguousarray(case.inputs.get(n, case.graph.tensors[n].data)) for n in node.inputs if n]
    good, log = package.verify(config)
    if good == bool(case.refused) or case.refused not in log:
        sys.exit(f"{case.name}: verify says {good} {log[:80]}")
    if case.refused:
        return
    functions(case, package, config)
    for where, ran in runs(package, config, inputs):
        if case.wanted is None:
            if "the kernel answers" not in ran.log:
                sys.exit(f"{case.name}, {where}: a failure is not told")
            continue
        if ran.log or ran.syncs not in ([], [1, 1, 1, 1]):
            sys.exit(f"{case.name}, {where}: {ran.syncs} {ran.log[:80]}")
        for name, got in zip(node.outputs, ran.outputs, strict=True):
            if got.tobytes() != np.ascontiguousarray(case.wanted[name]).tobytes():
                sys.exit(f"{case.name}, {where}: {name} is wrong")
    if case.name in DIVIDED:
        divided(case, package, config, inputs)


def functions(case: Case, package: conformance.Package, config: OpConfig) -> None:
    wanted = [(aic.TYPES[t.dtype], t.shape) for t in config.outputs]
    if (said := package.infer(config)) != (wanted, ""):
        sys.exit(f"{case.name}: infer says {said}")
    for backend in ("AIC", "Interpreter"):
        if package.select(config, backend) != package.entry.kernels[backend][0]:
            sys.exit(f"{case.name}: select names {package.select(config, backend)} for {backend}")
    if package.select(config, "GPU") is not None:
        sys.exit(f"{case.name}: select names a kernel for the GPU")


def runs(
    package: conformance.Package, config: OpConfig, inputs: list[np.ndarray]
) -> Iterator[tuple[str, conformance.Ran]]:
    yield "host", package.on_host(config, inputs)
    for order in ORDERS:
        yield f"threads {order}", package.on_card(config, inputs, order)


def divided(case: Case, package: conformance.Package, config: OpConfig, inputs: list[np.ndarray]) -> None:
    """Checks that one thread alone does not compute everything, and that tiles compute the same as the whole."""
    assert case.wanted is not None
    whole = case.wanted["y"]
    (alone,) = package.on_card(config, inputs, [0]).outputs
    if np.array_equal(alone, whole):
        sys.exit(f"{case.name}: one thread computes everything")
    axes = {d: n for d, n in AXES[config.op].items() if n < whole.shape[d]}
    if (said := package.tile_axes(config)) != axes:
        sys.exit(f"{case.name}: the tiles' axes are {said}")
    for axis, multiple in axes.items():
        for first in range(0, whole.shape[axis], multiple):
            start, end = [0] * whole.ndim, list(whole.shape)
            start[axis], end[axis] = first, min(first + multiple, whole.shape[axis])
            tile(case, package, config, inputs, start, end)


def tile(
    case: Case, package: conformance.Package, config: OpConfig, inputs: list[np.ndarray], start: list[int], end: list[int]
) -> None:  # fmt: skip
    assert case.wanted is not None
    wanted = case.wanted["y"][tuple(map(slice, start, end))]
    read = package.map_tile(config, start, end)
    if read is None:
        sys.exit(f"{case.name}: no map for the tile at {start}")
    parts = [np.ascontiguousarray(a[r]) for a, r in zip(inputs, read, strict=True)]
    part = replace(
        config,
        inputs=tuple(replace(t, shape=a.shape) for t, a in zip(config.inputs, parts, strict=True)),
        outputs=(replace(config.outputs[0], shape=wanted.shape),),
    )
    if package.on_host(part, parts).outputs[0].tobytes() != np.ascontiguousarray(wanted).tobytes():
        sys.exit(f"{case.name}: the tile at {start} is wrong")


def other_types(folder: Path) -> None:
    """Checks that the kernel rejects a node that verify refuses: it reports an error and writes nothing."""
    case = shifted("sq8", (3, 5))
    config = case.graph.op_config(case.graph.ops[0])
    config = replace(config, inputs=(replace(config.inputs[0], dtype="f32", quant=None),))
    package = conformance.Package(folder, API, "Shifted")
    for where, ran in runs(package, config, [np.zeros((3, 5), np.float32)]):
        if "there is no kernel for these data types" not in ran.log:
            sys.exit(f"Shifted of f32, {where}: {ran.log[:80]}")
        if (ran.outputs[0].view(np.uint8) != conformance.POISON).any():
            sys.exit(f"Shifted of f32, {where}: it writes")


if __name__ == "__main__":
    conformance.WAIT = 5.0
    root = Path(sys.argv[1])
    for each in cases():
        check(each, root)
    other_types(root)
    print("passed")
