"""Checks what a package has to compute and to refuse, on one library in this process.

    python battery.py HTP|CPU|ORT LIBRARY

Prints 'passed' if all is right; else exits with code 1 and the first failing case, or with whatever ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from case import Case, judge
from ops import PACKAGE

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant

TYPES = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "sq8": np.int8, "uq8": np.uint8,
         "sq16": np.int16, "uq16": np.uint16, "f32": np.float32}  # fmt: skip
STEP = Quant("SCALE_OFFSET", (0.25,), (-3,))
#: Parameters of weighted(): list, rows, reals, mode, flag, whole, real.
PARAMS = (
    ParamConfig("list", "u32", (3, 4, 5), (3,)),
    ParamConfig("rows", "i32", (1, -2, 30, -4), (2, 2)),
    ParamConfig("reals", "f32", (0.5, 0.25), (2,)),
    ParamConfig("mode", "u32", 2),
    ParamConfig("flag", "bool8", True),
    ParamConfig("whole", "i32", -50),
    ParamConfig("real", "f32", 0.125),
)


def made(name: str, tensors: list[GraphTensor], *ops: GraphOp) -> QnnGraph:
    return QnnGraph(name, {t.name: t for t in tensors}, list(ops))


def op(
    kind: str, inputs: tuple[str | None, ...], outputs: tuple[str, ...], params: Any = (), name: str = ""
) -> GraphOp:
    return GraphOp(name or kind.lower(), kind, inputs, tuple(params), outputs, PACKAGE)


def sum_of(params: tuple[ParamConfig, ...]) -> float:
    p = {param.name: param.value for param in params}
    total = p["real"] + 3 * p["whole"] + (1000 if p["flag"] else 0) + 100 * p["mode"]
    total += sum(v * (i + 1) for i, v in enumerate(p["list"]))
    total += sum(v * (i + 1) * 10 for i, v in enumerate(p["rows"]))
    return float(total + sum(v * (i + 1) for i, v in enumerate(p["reals"])))


def weighted(inputs: tuple[str | None, ...], shape: tuple[int, ...], params: Any = PARAMS) -> Case:
    tensors = [GraphTensor(n, "f32", shape, "APP_WRITE") for n in inputs if n]
    tensors += [GraphTensor(n, "f32", shape, "APP_READ") for n in "yz"]
    count = int(np.prod(shape))
    values = {
        n: (np.arange(count, dtype=np.float32) * (i + 1)).reshape(shape)
        for i, n in enumerate("xab")
        if n in inputs
    }
    y = sum_of(params) + sum(values[n] * f for n, f in zip("xab", (1, 2, 4), strict=True) if n in values)
    z = values["x"] + len(shape) + 10 * shape[0] + 100 * shape[-1]
    graph = made("weighted", tensors, op("Weighted", inputs, ("y", "z"), params))
    return Case(
        f"Weighted {inputs} {shape}", graph, values, {"y": y.astype(np.float32), "z": z.astype(np.float32)}
    )


def twice(changed: ParamConfig) -> Case:
    """Two nodes that differ in one parameter."""
    other = tuple(changed if p.name == changed.name else p for p in PARAMS)
    first, second = weighted(("x",), (2, 3)), weighted(("x",), (2, 3), other)
    tensors = dict(first.graph.tensors)
    tensors |= {f"{n}2": replace(second.graph.tensors[n], name=f"{n}2") for n in "yz"}
    more = replace(second.graph.ops[0], name="more", outputs=("y2", "z2"))
    assert first.wanted is not None and second.wanted is not None
    wanted = {**first.wanted, **{f"{n}2": v for n, v in second.wanted.items()}}
    return Case(
        f"two nodes, {changed.name}",
        QnnGraph("both", tensors, [*first.graph.ops, more]),
        first.inputs,
        wanted,
    )


def shifted(dtype: str, shape: tuple[int, ...], refused: str = "") -> Case:
    quant = STEP if "q" in dtype else None
    ends = np.iinfo(TYPES[dtype])
    x = np.linspace(ends.min, ends.max, max(int(np.prod(shape)), 2))[: int(np.prod(shape))]
    x = x.astype(TYPES[dtype]).reshape(shape)
    y = np.trunc(x.astype(float) / 2).astype(x.dtype)
    tensors = [
        GraphTensor("x", dtype, shape, "APP_WRITE", None, quant),
        GraphTensor("y", dtype, shape, "APP_READ", None, quant),
    ]
    graph = made("shifted", tensors, op("Shifted", ("x",), ("y",)))
    return Case(f"Shifted {dtype} {shape}", graph, {"x": x}, {"y": y}, refused)


def between(dtype: str) -> Case:
    """A case with the op between QNN's own ops."""
    case = shifted(dtype, (2, 3, 4))
    assert case.wanted is not None
    x, y = case.graph.tensors["x"], case.graph.tensors["y"]
    shape, perm = (4, 2, 3), ParamConfig("perm", "u32", (2, 0, 1), (3,))
    tensors = [x, replace(y, name="p", shape=shape, type="NATIVE"), replace(y, name="q", shape=shape, type="NATIVE"),
               replace(y, shape=(3, 4, 2))]  # fmt: skip
    ops = (GraphOp("before", "Transpose", ("x",), (perm,), ("p",)), op("Shifted", ("p",), ("q",)),
           GraphOp("after", "Transpose", ("q",), (perm,), ("y",)))  # fmt: skip
    y_wanted = case.wanted["y"].transpose(2, 0, 1).transpose(2, 0, 1)
    return Case(f"between {dtype}", made("between", tensors, *ops), case.inputs, {"y": y_wanted})


def dequantized(dtype: str) -> Case:
    shape, w = (5, 3), np.array([-7, 20, 101], np.int8)
    x = (
        np.linspace(*((lambda e: (e.min, e.max))(np.iinfo(TYPES[dtype]))), 15)
        .astype(TYPES[dtype])
        .reshape(shape)
    )
    tensors = [
        GraphTensor("x", dtype, shape, "APP_WRITE", None, STEP),
        GraphTensor("w", "sq8", (3,), "STATIC", w, Quant("SCALE_OFFSET", (0.5,), (4,))),
        GraphTensor("y", "f32", shape, "APP_READ"),
    ]
    y = (x.astype(float) - 3) * 0.25 + (w.astype(float) + 4) * 0.5
    return Case(f"Dequantized {dtype}", made("deq", tensors, op("Dequantized", ("x", "w"), ("y",))), {"x": x},
                {"y": y.astype(np.float32)})  # fmt: skip


def blurred(dtype: str, shape: tuple[int, ...]) -> Case:
    ends = np.iinfo(TYPES[dtype])
    x = np.random.default_rng(0).integers(ends.min, ends.max + 1, shape).astype(TYPES[dtype])
    wide = x.astype(int)
    total = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    y = (np.trunc(total / 4) if dtype == "sq8" else (total + 2) // 4).astype(x.dtype)
    tensors = [
        GraphTensor("x", dtype, shape, "APP_WRITE", None, STEP),
        GraphTensor("y", dtype, y.shape, "APP_READ", None, STEP),
    ]
    return Case(
        f"Blur {dtype} {shape}", made("blur", tensors, op("Blur", ("x",), ("y",))), {"x": x}, {"y": y}
    )


def halved(shape: tuple[int, ...]) -> Case:
    rng = np.random.default_rng(1)
    x, row = rng.integers(-9, 9, shape).astype(np.float32), rng.integers(-9, 9, shape[1:]).astype(np.float32)
    table = rng.integers(-9, 9, (7, shape[2])).astype(np.float32)
    y = x[::2] + 10 * x[1::2] + row + table.sum(0)
    given = {"x": x, "row": row, "table": table}
    tensors = [GraphTensor(n, "f32", t.shape, "APP_WRITE") for n, t in given.items()]
    tensors.append(GraphTensor("y", "f32", y.shape, "APP_READ"))
    graph = made("halved", tensors, op("Halved", ("x", "row", "table"), ("y",)))
    return Case(f"Halved {shape}", graph, given, {"y": y})


def plain(kind: str, x: Any, y: Any | None) -> Case:
    tensors = [GraphTensor("x", "f32", x.shape, "APP_WRITE"), GraphTensor("y", "f32", x.shape, "APP_READ")]
    return Case(
        kind, made(kind.lower(), tensors, op(kind, ("x",), ("y",))), {"x": x}, None if y is None else {"y": y}
    )


def cases_of_onnx() -> Iterator[Case]:
    """The cases that a model of one node can have: no encodings."""
    for inputs in (("x",), ("x", "a"), ("x", None, "b"), ("x", "a", "b"), ("x", None, None)):
        yield weighted(inputs, (2, 3))
    for shape in ((6,), (3, 2), (2, 1, 3, 1, 2)):
        yield weighted(("x", "a"), shape)
    for dtype in ("i8", "u8", "i16", "u16"):
        yield shifted(dtype, (3, 5))
    yield halved((8, 3, 5))
    yield from on_floats()
    wrong = tuple(replace(p, value=9) if p.name == "mode" else p for p in PARAMS)
    refused = weighted(("x",), (2, 3), wrong)
    yield Case("Weighted, no such mode", refused.graph, refused.inputs, None, "Weighted.PARAMS")


def sides(shape: tuple[int, int]) -> Case:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    tensors = [
        GraphTensor("x", "f32", shape, "APP_WRITE"),
        GraphTensor("ends", "f32", shape[:1], "APP_READ"),
        GraphTensor("tops", "f32", shape[1:], "APP_READ"),
    ]
    graph = made("sides", tensors, op("Sides", ("x",), ("ends", "tops")))
    return Case(f"Sides {shape}", graph, {"x": x}, {"ends": x.sum(1), "tops": x.sum(0)})


def broken() -> Case:
    """A package whose rule says nothing about shapes."""
    case = plain("Positive", np.ones((9, 3), np.float32), None)
    return Case("Positive, nine rows", case.graph, case.inputs, None, "Positive.C1")


def on_floats() -> Iterator[Case]:
    yield sides((3, 5))
    yield broken()
    big = np.arange(512 * 700, dtype=np.float32).reshape(512, 700)
    yield plain("Turned", big, big[::-1, ::-1].copy())
    yield plain("Positive", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    yield plain("Positive", np.array([[1.0, -1.0]], np.float32), None)


def cases(backend: str) -> Iterator[Case]:
    htp = backend == "HTP"
    for inputs in (("x",), ("x", "a"), ("x", None, "b"), ("x", "a", "b")):
        yield weighted(inputs, (2, 3))
    for shape in ((6,), (1, 2, 3), (1, 1, 2, 3), (3, 2)):
        yield weighted(("x", "a"), shape)
    for p in PARAMS:
        value = {"list": (30, 4, 5), "rows": (1, -2, 3, 40), "reals": (0.5, 8.0), "mode": 1, "flag": False,
                 "whole": 7, "real": 3.5}[p.name]  # fmt: skip
        if p.name != "mode" or not htp:
            yield twice(replace(p, value=value))
    for dtype in ("i8", "u8", "i16", "u16", "sq8", "uq8", "sq16", "uq16") if htp else ("u8", "uq8"):
        yield shifted(dtype, (3, 5))
        yield shifted(dtype, (2, 1, 3, 2, 2))
        if "q" in dtype:
            yield between(dtype)
    for dtype in ("uq8", "sq8", "uq16", "sq16") if htp else ("uq8",):
        if htp:
            yield dequantized(dtype)
    if htp:
        yield shifted("uq8", (), "no tensors without dimensions")
        yield shifted("uq8", (1, 1, 1, 1, 2, 3), "tensors of five dimensions at most")
    yield blurred("uq8", (3, 5, 7, 12))
    if htp:
        yield blurred("uq8", (1, 600, 400, 60))
        yield blurred("sq8", (2, 403, 301, 64))
        yield halved((1600, 100, 64))
    yield halved((8, 3, 5))
    yield from on_floats()


def on_qnn(backend: str, library: Path, found: Iterator[Case]) -> None:
    from opdb.runtime.qnn import libraries
    from opdb.runtime.qnn.backend import Backend

    with Backend.open(
        backend, "SM8650" if backend == "HTP" else None, libraries=libraries.find("2.47")
    ) as opened:
        opened.register_op_package(library)
        for case in found:
            if case.refused:
                said = opened.validate(case.graph.op_config(case.graph.ops[0]))
                if not any(case.refused in reason for reason in said.reasons):
                    sys.exit(f"{case.name}: not refused by the package")
                continue
            try:
                with opened.prepare(case.graph) as graph:
                    judge(case, graph.execute(dict(case.inputs)))
            except OpdbError as error:
                if case.wanted is not None:
                    sys.exit(f"{case.name}: {str(error)[:300]}")


if __name__ == "__main__":
    backend, library = sys.argv[1:]
    if backend == "ORT":
        from onnx_models import on_onnx_runtime

        on_onnx_runtime(Path(library), cases_of_onnx())
    else:
        on_qnn(backend, Path(library), cases(backend))
    print("passed")
