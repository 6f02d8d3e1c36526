"""Ops that copy stored numbers between different encodings: Converts before and after them.

The numbers come from HTP's library, with and without the workarounds; PyTorch is the reference.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from obeying import avoided, obeying
from ops_on_htp import off, real, run, tensor

from opdb.core.op_config import ParamConfig
from opdb.runtime.forms import LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import intermediate

X = (1 / 32, -128)


def nearest(scale: float, offset: int) -> LoweredOp:
    x, y = tensor("x", (1, 3, 4, 2), *X, "uq8"), tensor("y", (1, 6, 8, 2), scale, offset, "uq8")
    return lowered_op("ResizeNearestNeighbor", inputs={"x": x}, params=[], outputs={"y": y})


def largest(scale: float, offset: int, shape: tuple[int, ...] = (3, 1)) -> LoweredOp:
    x, y = tensor("x", shape, *X, "uq8"), tensor("y", shape[:1], scale, offset, "uq8")
    return lowered_op(
        "ReduceMax", inputs={"x": x}, params=[tensor_param("axes", "u32", [1])], outputs={"y": y}
    )


def scattered(updates: tuple[float, int], y: tuple[float, int]) -> LoweredOp:
    ins = {
        "x": tensor("x", (5, 3), *X, "uq8"),
        "indices": tensor("indices", (2, 3), 1.0, 0, "i32"),
        "updates": tensor("updates", (2, 3), *updates, "uq8"),
    }
    outs = {"y": tensor("y", (5, 3), *y, "uq8")}
    return lowered_op("ScatterElements", inputs=ins, params=[scalar("axis", "u32", 0)], outputs=outs)


def view(
    op: str, shape: tuple[int, ...], params: list[ParamConfig], y: tuple[float, int] = (0.02, -100)
) -> LoweredOp:
    x = tensor("x", (1, 2, 3, 4), *X, "uq8")
    return lowered_op(op, inputs={"x": x}, params=params, outputs={"y": tensor("y", shape, *y, "uq8")})


VIEWS = {
    "HTP-0484": view("Reshape", (6, 4), []),
    "HTP-0485": view("Transpose", (1, 3, 2, 4), [tensor_param("perm", "u32", [0, 2, 1, 3])]),
    "HTP-0486": view("ExpandDims", (1, 1, 2, 3, 4), [scalar("axis", "u32", 0)]),
    "HTP-0487": view("Squeeze", (2, 3, 4), [tensor_param("axes", "u32", [0])]),
}


@pytest.mark.parametrize(
    ("given", "erratum"),
    [
        (nearest(0.02, -100), "HTP-0460"),
        (nearest(1 / 32, -127), "HTP-0460"),
        (largest(0.02, -100), "HTP-0462"),
        *((given, erratum) for erratum, given in VIEWS.items()),
    ],
)
def test_copying_ops_write_in_the_encoding_of_x(given: LoweredOp, erratum: str) -> None:
    assert avoided(given) == {erratum}
    first, second = obeying(given)
    x = given.inputs[0]
    assert x is not None and (first.op, second.op) == (given.op, "Convert")
    assert first.outputs[0].quant == x.quant and second.outputs == given.outputs
    assert not avoided(first) | avoided(second)


@pytest.mark.parametrize("given", [nearest(*X), largest(*X), largest(0.02, -100, (3, 4)), scattered(X, X)])
def test_ops_that_compute_or_keep_the_encoding_are_unchanged(given: LoweredOp) -> None:
    assert obeying(given) == (given,) and not avoided(given)


def test_values_of_another_encoding_are_converted_first() -> None:
    of_x, of_updates, scatter = obeying(scattered((0.02, -100), (0.02, -128)))
    assert (of_x.op, of_updates.op, scatter.op) == ("Convert", "Convert", "ScatterElements")
    assert {t.quant for t in scatter.inputs[::2] if t is not None} == {scatter.outputs[0].quant}


@pytest.mark.vendor
@pytest.mark.parametrize(("given", "wrong"), [(nearest(0.02, -100), 60), (largest(0.02, -100), 45)])
def test_copying_ops_are_then_right_on_htp(given: LoweredOp, wrong: int, htp: Any) -> None:
    x, y = given.inputs[0], given.outputs[0]
    assert x is not None
    stored = np.random.default_rng(0).integers(40, 200, x.shape).astype(np.uint8)
    values = torch.from_numpy(real(stored, x))
    if given.op == "ReduceMax":
        wanted = values.amax(1).numpy()
    else:
        wanted = torch.nn.functional.interpolate(values.permute(0, 3, 1, 2), scale_factor=2).permute(
            0, 2, 3, 1
        )
    wanted = np.asarray(wanted).clip(-100 * 0.02, 155 * 0.02)
    assert np.abs(real(run(htp, [given], {"x": stored}), y) - wanted).max() / y.scale >= wrong
    assert np.abs(real(run(htp, obeying(given), {"x": stored}), y) - wanted).max() / y.scale <= 1


@pytest.mark.vendor
@pytest.mark.parametrize("erratum", VIEWS)
def test_views_are_then_right_on_htp(erratum: str, htp: Any) -> None:
    given = VIEWS[erratum]
    x, y = given.inputs[0], given.outputs[0]
    assert x is not None
    stored = np.random.default_rng(0).integers(40, 200, x.shape).astype(np.uint8)
    wanted = real(stored, x).transpose(0, 2, 1, 3) if given.op == "Transpose" else real(stored, x)
    wanted = wanted.reshape(y.shape)
    assert off(htp, [given], wanted, stored) >= 40
    assert off(htp, obeying(given), wanted, stored) <= 1


@pytest.mark.vendor
def test_a_reshape_of_a_5d_slice_changes_its_encoding(htp: Any) -> None:
    """HTP finalizes no graph with the plain Reshape."""
    x, y = tensor("x", (2, 3, 2, 4, 5), *X, "uq8"), tensor("y", (6, 4, 5), 0.02, -100, "uq8")
    part = replace(intermediate("part", (1, 3, 2, 4, 5), x), quant=x.quant)
    ranges = tensor_param("ranges", "i32", [[1, 2, 1], *([0, d, 1] for d in x.shape[1:])])
    ops = [
        lowered_op("StridedSlice", inputs={"x": x}, params=[ranges], outputs={"y": part}),
        lowered_op("Reshape", inputs={"x": part}, params=[], outputs={"y": y}),
    ]
    stored = np.random.default_rng(0).integers(40, 200, x.shape).astype(np.uint8)
    assert off(htp, obeying(*ops), real(stored, x)[1].reshape(y.shape), stored) <= 1


@pytest.mark.vendor
def test_scatters_are_then_right_on_htp(htp: Any) -> None:
    given = scattered((0.02, -100), (0.02, -128))
    rng = np.random.default_rng(1)
    arrays = {n: rng.integers(40, 200, s).astype(np.uint8) for n, s in (("x", (5, 3)), ("updates", (2, 3)))}
    arrays["indices"] = np.array([[0, 1, 2], [3, 4, 0]], np.int32)
    x, updates = (real(arrays[n], t) for n, t in zip(("x", "updates"), given.inputs[::2], strict=True))
    wanted = torch.from_numpy(x).scatter(
        0, torch.from_numpy(arrays["indices"]).long(), torch.from_numpy(updates)
    )
    clipped = wanted.numpy().clip(-128 * 0.02, 127 * 0.02)
    y = given.outputs[0]
    assert np.abs(real(run(htp, [given], arrays), y) - clipped).max() / y.scale >= 20
    assert np.abs(real(run(htp, obeying(given), arrays), y) - clipped).max() / y.scale <= 2
