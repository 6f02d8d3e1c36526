"""Every quantization encoding of the ABI: in C memory, read back, refused, and used by HTP."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.dtypes import DTYPES
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ENCODINGS, TENSOR_TYPES, Blocks, ConfigError, Quant, Vectors
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.native import Arena, CData, ffi, lib
from opdb.runtime.qnn.structs import fill_tensor
from opdb.runtime.qnn.tensor_read import read_dynamic, read_tensor

pytestmark = pytest.mark.native
floats = st.floats(width=32, allow_nan=False)
offsets = st.integers(-(2**31), 2**31 - 1)


def filled(tensor: GraphTensor) -> tuple[CData, Arena]:
    arena = Arena()
    struct = arena.new("Qnn_Tensor_t *")
    fill_tensor(struct, arena, tensor.name, tensor, "x")
    return struct, arena


def params(quant: Quant, shape: tuple[int, ...]) -> tuple[CData, Arena]:
    struct, arena = filled(GraphTensor("x", "sq8", shape, quant=quant))
    return struct.u.v1.quantizeParams, arena


def raw(memory: CData, dtype: str, n: int) -> list[Any]:
    """``n`` numbers at an address, as the library would read them."""
    size = n * np.dtype(dtype).itemsize
    return np.frombuffer(bytes(ffi.buffer(ffi.cast("char *", memory), size)), dtype).tolist()


def test_a_single_scale_has_the_documented_bytes() -> None:
    p, _memory = params(Quant("SCALE_OFFSET", (0.5,), (-3,)), (2,))
    assert raw(ffi.addressof(p), "<u4", 2) == [1, 0]
    assert raw(ffi.addressof(p.u), "<f4", 1) + raw(ffi.addressof(p.u), "<i4", 2)[1:] == [0.5, -3]
    p, _memory = params(Quant("BW_SCALE_OFFSET", (0.5,), (-3,), bits=4), (2,))
    assert raw(ffi.addressof(p), "<u4", 3) == [1, 2, 4]
    assert raw(ffi.addressof(p.u), "<f4", 2)[1:] + raw(ffi.addressof(p.u), "<i4", 3)[2:] == [0.5, -3]


def test_axis_scales_have_the_documented_bytes() -> None:
    p, _memory = params(Quant("AXIS_SCALE_OFFSET", (0.5, 0.25), (0, -1), 1), (3, 2))
    assert raw(ffi.addressof(p), "<u4", 4) == [1, 1, 1, 2]
    pairs = p.u.axisScaleOffsetEncoding.scaleOffset
    assert raw(pairs, "<f4", 4)[::2] == [0.5, 0.25]
    assert raw(pairs, "<i4", 4)[1::2] == [0, -1]
    p, _memory = params(Quant("BW_AXIS_SCALE_OFFSET", (0.5, 0.25), (0, -1), 1, 4), (3, 2))
    assert raw(ffi.addressof(p), "<u4", 5) == [1, 3, 4, 1, 2]
    e = p.u.bwAxisScaleOffsetEncoding
    assert (raw(e.scales, "<f4", 2), raw(e.offsets, "<i4", 2)) == ([0.5, 0.25], [0, -1])


def test_blocks_have_the_documented_bytes() -> None:
    p, _memory = params(Quant("BLOCK", (1.0, 2.0, 3.0, 4.0), block_size=(2, 1)), (3, 2))
    e = p.u.blockEncoding
    assert raw(ffi.addressof(p), "<u4", 2) == [1, 4]
    assert raw(e.blockSize, "<u4", 2) == [2, 1]
    assert raw(e.scaleOffset, "<f4", 8)[::2] == [1, 2, 3, 4]


@pytest.mark.parametrize(("storage", "word"), [(8, "<u1"), (16, "<u2")])
def test_blockwise_expansion_has_the_documented_bytes(storage: int, word: str) -> None:
    blocks = Blocks(3, 4, (1, 2, 3, 4, 5, 6), storage)
    p, _memory = params(Quant("BLOCKWISE_EXPANSION", (0.5, 0.25), (0, -1), 1, blocks=blocks), (6, 2))
    e = p.u.blockwiseExpansion
    assert raw(ffi.addressof(p), "<u4", 2) == [1, 5]
    assert raw(e, "<i4", 1) == [1]
    assert raw(ffi.cast("char *", e) + 16, "<u4", 3) == [3, 4, 0 if storage == 8 else 1]
    assert raw(e.scaleOffsets, "<f4", 4)[::2] == [0.5, 0.25]
    assert raw(e.scaleOffsets, "<i4", 4)[1::2] == [0, -1]
    assert raw(e.u.blocksScale8, word, 6) == [1, 2, 3, 4, 5, 6]


def test_vectors_have_the_documented_bytes() -> None:
    quant = Quant("VECTOR", (0.5, 0.25), (), 0, 8, vector=Vectors(4, 32, 2, 1, 5))
    p, _memory = params(quant, (2, 64))
    e = p.u.vectorEncoding
    assert raw(ffi.addressof(p), "<u4", 2) == [1, 6]
    assert raw(e, "<u4", 3) == [8, 0, 2]
    assert raw(e.bwAxisScaleOffset.scales, "<f4", 2) == [0.5, 0.25]
    assert raw(ffi.cast("char *", e) + 32, "<u4", 2) == [4, 32]
    assert raw(ffi.cast("char *", e) + 40, "<u1", 3) == [2, 1, 5]


@pytest.mark.parametrize(
    ("quant", "message"),
    [
        (Quant("BLOCK", (1.0,) * 5, block_size=(2, 1)), "x.quant: 5 scales for 4 blocks; expected 4"),
        (Quant("BLOCK", (1.0,) * 4, block_size=(0, 1)), "x.quant.block_size: one size per dimension, got [0, 1]"),
        (Quant("BLOCKWISE_EXPANSION", (1.0,) * 2, axis=1),
         "x.quant.blocks: missing; BLOCKWISE_EXPANSION has a scale for each block"),
        (Quant("BLOCKWISE_EXPANSION", (1.0,) * 3, axis=1, blocks=Blocks(1, 4, (1, 1, 1))),
         "x.quant: 3 scales along the axis 1; expected 2"),
        (Quant("BLOCKWISE_EXPANSION", (1.0,) * 2, axis=1, blocks=Blocks(2, 4, (1, 1, 1))),
         "x.quant.blocks.scales: 3 scales of blocks; expected 4"),
        (Quant("BLOCKWISE_EXPANSION", (1.0,) * 2, axis=2, blocks=Blocks(1, 4, (1, 1))),
         "x.quant.axis: 2, of a tensor of rank 2"),
        (Quant("BLOCKWISE_EXPANSION", (1.0,) * 2, axis=1, blocks=Blocks(1, 4, (1, 256))),
         "x.quant: integer 256 does not fit 'uint8_t'"),
        (Quant("VECTOR", (1.0,)), "x.quant.vector: missing; VECTOR has the layout of its code book"),
        (Quant("VECTOR", (1.0,), vector=Vectors(1, 1, 256, 1, 1)), "x.quant: integer 256 does not fit 'uint8_t'"),
    ],
)  # fmt: skip
def test_encodings_that_do_not_fit_c_are_rejected(quant: Quant, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        params(quant, (3, 2))
    assert str(caught.value) == message


@st.composite
def tensors(draw: st.DrawFn) -> GraphTensor:
    """Tensors with encodings that fill their shapes."""
    shape = tuple(draw(st.lists(st.integers(1, 5), max_size=4)))
    encoding = draw(
        st.sampled_from((None, *ENCODINGS) if shape else (None, "SCALE_OFFSET", "BW_SCALE_OFFSET"))
    )
    dtype, type_ = draw(st.sampled_from([d.short for d in DTYPES])), draw(st.sampled_from(TENSOR_TYPES[:3]))
    tensor = GraphTensor(
        draw(st.text(st.characters(codec="ascii", exclude_characters="\0"))), dtype, shape, type_
    )
    if encoding is None:
        return tensor
    axis = (
        draw(st.integers(0, len(shape) - 1))
        if "AXIS" in encoding or "VECT" in encoding or "EXP" in encoding
        else None
    )
    sizes = tuple(draw(st.integers(1, 3)) for _ in shape) if encoding == "BLOCK" else ()
    n = (
        shape[axis]
        if axis is not None
        else math.prod(-(-d // b) for d, b in zip(shape, sizes, strict=False))
        if sizes
        else 1
    )
    bits = draw(st.integers(0, 64)) if encoding.startswith("BW") or encoding == "VECTOR" else None
    blocks = vector = None
    if encoding == "BLOCKWISE_EXPANSION":
        per_axis, storage = draw(st.integers(0, 3)), draw(st.sampled_from((8, 16)))
        numbers = st.integers(0, 2**storage - 1)
        scales = tuple(draw(st.lists(numbers, min_size=n * per_axis, max_size=n * per_axis)))
        blocks = Blocks(per_axis, draw(st.integers(0, 16)), scales, storage)
    if encoding == "VECTOR":
        vector = Vectors(*(draw(st.integers(0, 255)) for _ in range(5)))
    scale = tuple(draw(st.lists(floats, min_size=n, max_size=n)))
    offset = tuple(draw(st.lists(offsets, min_size=n, max_size=n)))
    quant = Quant(encoding, scale, offset, axis, bits, sizes, blocks, vector)
    return dataclasses.replace(tensor, quant=quant)  # fmt: skip


@given(tensors(), st.integers(0, 2**32 - 1), st.sampled_from((1, 2)))
def test_read_is_the_inverse_of_fill(tensor: GraphTensor, number: int, version: int) -> None:
    struct, _memory = filled(tensor)
    struct.u.v1.id = number
    struct.version = version  # version 2 begins with the fields of version 1, at the same offsets
    assert read_tensor(struct) == (tensor, number)
    assert read_dynamic(struct) == ()


def test_dynamic_dimensions_are_read_from_version_2() -> None:
    struct, arena = filled(GraphTensor("x", "f32", (2, 3)))
    struct.version = lib.QNN_TENSOR_VERSION_2
    struct.u.v2.isDynamicDimensions = arena.new("uint8_t[]", [1, 0])
    assert read_dynamic(struct) == (True, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "a tensor from the library has the version 3; opdb reads 1 and 2"),
        ({"dataType": 770}, "the tensor 'x' has the data type 0x0302, which opdb does not know"),
        ({"type": 77}, "the tensor 'x' has the type 77, which opdb does not know"),
        ({"rank": 17}, "the tensor 'x' has the rank 17 and no or too many dimensions"),
        ({"dimensions": ffi.NULL}, "the tensor 'x' has the rank 2 and no or too many dimensions"),
        (
            {"quantizationEncoding": 12},
            "the tensor 'x' has the encoding MICROSCALING, which opdb does not read",
        ),
        ({"quantizationEncoding": 99}, "the tensor 'x' has the encoding 99, which opdb does not read"),
    ],
)
def test_unknown_structs_are_rejected(change: dict[str, Any], message: str) -> None:
    struct, _memory = filled(GraphTensor("x", "sq8", (2, 3), quant=Quant("SCALE_OFFSET", (1.0,), (0,))))
    for name, value in change.items():
        owner = struct if name == "version" else struct.u.v1
        setattr(owner.quantizeParams if name.startswith("quant") else owner, name, value)
    with pytest.raises(OpdbError) as caught:
        read_tensor(struct)
    assert str(caught.value) == message


IN, OUT = 64, 32
rng = np.random.default_rng(0)
SCALES = tuple(rng.uniform(0.01, 0.1, 2 * OUT).tolist())
BLOCK_SCALES = rng.integers(1, 16, 2 * OUT)


def along_rows(scales: Any) -> np.ndarray[Any, Any]:
    """One number per half of each row -> one per element."""
    return np.repeat(np.asarray(scales, np.float64).reshape(OUT, -1), IN // (len(scales) // OUT), 1)


#: encoding -> (quant of a weight of [OUT, IN], the scale of each element, dtype of the activations)
WEIGHTS: dict[str, tuple[Quant, Any, str]] = {
    "SCALE_OFFSET": (Quant("SCALE_OFFSET", (0.05,), (0,)), 0.05, "uq16"),
    "BW_SCALE_OFFSET": (Quant("BW_SCALE_OFFSET", (0.05,), (0,), bits=4), 0.05, "uq16"),
    "AXIS_SCALE_OFFSET": (Quant("AXIS_SCALE_OFFSET", SCALES[:OUT], axis=0), along_rows(SCALES[:OUT]), "uq16"),
    "BW_AXIS_SCALE_OFFSET": (
        Quant("BW_AXIS_SCALE_OFFSET", SCALES[:OUT], axis=0, bits=4),
        along_rows(SCALES[:OUT]),
        "uq16",
    ),
    "BLOCK": (Quant("BLOCK", SCALES, block_size=(1, IN // 2)), along_rows(SCALES), "f16"),
    "BLOCKWISE_EXPANSION": (
        Quant(
            "BLOCKWISE_EXPANSION",
            SCALES[:OUT],
            axis=0,
            blocks=Blocks(2, 4, tuple(int(s) for s in BLOCK_SCALES)),
        ),
        along_rows(SCALES[:OUT]) * along_rows(BLOCK_SCALES),
        "uq16",
    ),
    "VECTOR": (Quant("VECTOR", SCALES[:OUT], axis=0, bits=8, vector=Vectors(32, 64, 1, 1, 4)), None, "uq16"),
}


def linear(encoding: str, weight: np.ndarray[Any, Any]) -> tuple[QnnGraph, Quant | None, Quant | None]:
    """A FullyConnected on HTP, with the encodings of its input and output."""
    quant, _, dtype = WEIGHTS[encoding]
    x = Quant("SCALE_OFFSET", (2 / 65535,), (-32768,)) if dtype == "uq16" else None
    y = Quant("SCALE_OFFSET", (400 / 65535,), (-32768,)) if dtype == "uq16" else None
    tensors = (
        GraphTensor("x", dtype, (4, IN), "APP_WRITE", None, x),
        GraphTensor("w", "sq8", (OUT, IN), "STATIC", weight, quant),
        GraphTensor("y", dtype, (4, OUT), "APP_READ", None, y),
    )
    node = GraphOp("n", "FullyConnected", ("x", "w"), (), ("y",))
    return QnnGraph("g", {t.name: t for t in tensors}, [node]), x, y


@pytest.fixture(scope="module")
def htp() -> Any:
    with Backend.open("HTP", "SM8650", log_level="warning") as backend:
        yield backend


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("encoding", [e for e in ENCODINGS if e != "VECTOR"])
def test_htp_uses_the_encoding(encoding: str, htp: Backend) -> None:
    numbers = np.random.default_rng(1)
    weight = numbers.integers(-7, 8, (OUT, IN)).astype(np.int8)  # 4 bits, which fit every encoding
    graph, x_quant, y_quant = linear(encoding, weight)
    assert htp.validate(graph.op_config(graph.ops[0])).verdict == "accept"
    real = numbers.uniform(-1, 1, (4, IN))
    stored = (
        real.astype(np.float16)
        if x_quant is None
        else np.rint(real / x_quant.scale[0] + 32768).astype(np.uint16)
    )
    real = stored.astype(np.float64) if x_quant is None else (stored - 32768.0) * x_quant.scale[0]
    with htp.prepare(graph) as prepared:
        out = prepared.execute({"x": stored})["y"].astype(np.float64)
    expected = real @ (weight * WEIGHTS[encoding][1]).T
    got = out if y_quant is None else (out - 32768) * y_quant.scale[0]
    assert np.abs(expected).max() < 200  # inside the output's range
    # HTP keeps 8-bit weights and 16-bit scales; measured: below 0.0007 of the largest result
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-3 * np.abs(expected).max() + 400 / 65535)  # fmt: skip


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
def test_htp_validates_vectors_but_does_not_prepare_them(htp: Backend) -> None:
    graph, _, _ = linear("VECTOR", np.zeros((OUT, IN), np.int8))
    assert htp.validate(graph.op_config(graph.ops[0])).verdict == "accept"
    with pytest.raises(QnnError, match="does not support QNN_QUANTIZATION_ENCODING_VECTOR"):
        htp.prepare(graph)


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
def test_htp_reads_the_block_scales(htp: Backend) -> None:
    """Refusals show that HTP reads the fields where opdb writes them."""
    for blocks, accepted in (
        (Blocks(2, 4, (1,) * 2 * OUT), True),
        (Blocks(2, 12, (1,) * 2 * OUT, 16), False),
    ):
        graph, _, _ = linear("BLOCKWISE_EXPANSION", np.zeros((OUT, IN), np.int8))
        quant = dataclasses.replace(WEIGHTS["BLOCKWISE_EXPANSION"][0], blocks=blocks)
        graph.tensors["w"] = dataclasses.replace(graph.tensors["w"], quant=quant)
        assert (htp.validate(graph.op_config(graph.ops[0])).verdict == "accept") is accepted


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("encoding", ["AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"])
def test_too_few_scales_are_refused(encoding: str) -> None:
    """CPU and HTP accept them and compute something else."""
    with Backend.open("CPU") as backend, backend.create_context() as context:
        graph = context.create_graph("g")
        for axis, shape, message in (
            (0, (3, 2), "2 scales along the axis 0; expected 3"),
            (2, (3, 2), "axis: 2, of"),
        ):
            quant = Quant(encoding, (1.0, 1.0), axis=axis, bits=4)
            with pytest.raises(ConfigError, match=message):
                graph.add_tensor(GraphTensor("w", "sq8", shape, "STATIC", None, quant))  # fmt: skip
