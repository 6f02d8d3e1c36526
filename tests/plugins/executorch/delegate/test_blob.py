"""Blobs: they read back as written, are reproducible, and no changed byte is accepted."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Blocks, ParamConfig, Quant, Sparse, Vectors
from opdb.plugins.executorch.delegate import blob, graph_form, graph_read
from opdb.plugins.executorch.delegate.module import Arg, ContextFile, Identity, Module, State

pytestmark = pytest.mark.executorch

W = np.arange(12, dtype=np.float32).reshape(4, 3)
QUANTS = (
    Quant("SCALE_OFFSET", (0.5,), (-3,)),
    Quant("AXIS_SCALE_OFFSET", (0.5, 0.25, 2.0), (0, 0, 1), axis=1),
    Quant("BW_SCALE_OFFSET", (0.5,), (0,), bits=4),
    Quant("BW_AXIS_SCALE_OFFSET", (0.5, 0.25, 2.0), (0, 0, 0), axis=1, bits=4),
    Quant("BLOCK", (0.5, 0.25), (0, 0), block_size=(2, 3)),
    Quant("BLOCKWISE_EXPANSION", (0.5, 2.0), (0, 0), axis=0, blocks=Blocks(2, 4, (1, 3, 5, 7), 8)),
    Quant("VECTOR", (0.5,), (0,), axis=0, bits=8, vector=Vectors(1, 2, 3, 4, 8)),
)
KINDS = [GraphTensor(f"q{i}", "sq8", (4, 3), quant=q) for i, q in enumerate(QUANTS)]
PARAMS = (
    ParamConfig("keep_dims", "bool8", True),
    ParamConfig("axes", "u32", (2, 7), (2,)),
    ParamConfig("pads", "i32", (-1, 2, 3, 4), (2, 2)),
    ParamConfig("epsilon", "f32", 1e-6),
    ParamConfig("scales", "f32", (0.5, 2.0), (2,)),
    ParamConfig("mode", "str", "nearest"),
)
TENSORS = (
    GraphTensor("x", "f32", (2, 3), "APP_WRITE"),
    GraphTensor("state", "f32", (2, 4), "APP_WRITE"),
    GraphTensor("w", "f32", (4, 3), "STATIC", W),
    GraphTensor("four", "sq4", (3,), "STATIC", np.array([1, 255, 7], np.uint8), QUANTS[0]),
    GraphTensor("some", "f32", (2, 4), "NATIVE", sparse=Sparse(3, 2)),
    *KINDS,
    GraphTensor("kept", "f32", (2, 4), "APP_READ"),
    GraphTensor("y", "i32", (1,), "APP_READ"),
)
OPS = [
    GraphOp("fc", "FullyConnected", ("x", "w", None), PARAMS, ("kept",), origin="aten_linear_default"),
    GraphOp("last", "Own", ("kept", "state"), (), ("y",), "my.package"),
]


def module(context: ContextFile | None = None) -> Module:
    graph = QnnGraph("forward_0", {t.name: t for t in TENSORS}, OPS)
    args = (Arg("input", "x", 6, (2, 3)), Arg("input", None, 4, (0, 3)), Arg("output", "y", 4, ()),
            Arg("output", None, 3, (2,), bytes(8)))  # fmt: skip
    states = (State("cache", "state", "kept", bytes(range(32))),)
    where = Identity("HTP", "SM8650", "2.47", "device", "p", "v", "b", "1", "fp16", 57, 3, 8, 4)
    return Module(graph, args, states, where, {"fc": (3, 4), "last": ()}, context)


def nothing(key: str) -> bytes:
    raise AssertionError(key)


def same(a: Module, b: Module) -> None:
    for x, y in zip(a.graph.tensors.values(), b.graph.tensors.values(), strict=True):
        assert replace(x, data=None) == replace(y, data=None)
        assert (x.data is None) == (y.data is None) and np.array_equal(x.data, y.data)
    assert replace(a, graph=QnnGraph("")) == replace(b, graph=QnnGraph(""))
    assert a.graph.ops == b.graph.ops and a.graph.name == b.graph.name


def test_a_graph_survives_a_round_trip() -> None:
    written = graph_form.write(module())
    assert not written.named
    same(graph_read.read(written.blob, nothing), module())
    assert graph_form.write(graph_read.read(written.blob, nothing)).blob == written.blob


def test_sections_are_aligned_and_in_order() -> None:
    content = graph_form.write(module()).blob
    table = [blob.SECTION.unpack_from(content, blob.TABLE + 24 * i) for i in range(len(blob.Section))]
    assert [row[0] for row in table] == list(blob.Section)
    assert all(row[2] % blob.ALIGN == 0 for row in table) and len(content) % blob.ALIGN == 0
    reader = blob.Reader(content)
    places = [t.offset for t in reader.records(blob.Section.TENSORS) if t.data == 1]
    assert len(places) == 2 and all(p % blob.ALIGN == 0 for p in places)


def test_dictionary_order_does_not_change_the_bytes() -> None:
    made = module()
    turned = replace(made, handles=dict(reversed(made.handles.items())))
    assert graph_form.write(turned).blob == graph_form.write(made).blob


def test_a_context_may_be_inside_or_outside_the_blob() -> None:
    inside = module(ContextFile(b"HEADERbinary", 6))
    content = graph_form.write(inside).blob
    found = graph_read.read(content, nothing)
    assert found.context == inside.context and all(t.data is None for t in found.graph.tensors.values())
    beside = module(ContextFile(b"HEADERbinary", 6, "opdb/key"))
    written = graph_form.write(beside)
    assert written.named == {"opdb/key": b"HEADERbinary"}
    assert graph_read.read(written.blob, written.named.__getitem__).context == beside.context


def large() -> Module:
    values = np.arange(512, dtype=np.float32)
    tensors = {t.name: t for t in (*TENSORS, GraphTensor("large", "f32", (512,), "STATIC", values))}
    return replace(module(), graph=QnnGraph("forward_0", tensors, OPS))


def test_large_constants_are_stored_by_content_hash() -> None:
    written = graph_form.write(large(), named=True)
    (key,) = written.named
    assert key == f"opdb/{hashlib.sha256(written.named[key]).hexdigest()}"
    same(graph_read.read(written.blob, written.named.__getitem__), large())
    wrong = bytes(len(written.named[key]))
    for content in (wrong, written.named[key][:-1]):
        with pytest.raises(OpdbError, match="not those that were written"):
            graph_read.read(written.blob, lambda _, content=content: content)  # type: ignore[misc]


def test_ten_thousand_changed_blobs_are_all_rejected() -> None:
    content, draw = graph_form.write(module()).blob, random.Random(0)
    for i in range(10_000):
        data = bytearray(content)
        at = draw.randrange(len(data))
        match i % 5:
            case 0:
                data[at] ^= 1 << draw.randrange(8)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = draw.randbytes(draw.randint(1, 64))
            case 3:
                data[at : at + 8] = draw.randbytes(len(data[at : at + 8]))
            case 4:
                n, source = draw.randint(1, 64), draw.randrange(len(data) - 64)
                data[at : at + n] = data[source : source + len(data[at : at + n])]
        if bytes(data) != content:
            with pytest.raises(OpdbError):
                graph_read.read(bytes(data), nothing)


def sealed(data: bytearray) -> bytes:
    """Replaces the checksum with that of the current content."""
    digest = hashlib.sha256(data[: blob.HEADER.size] + data[blob.TABLE :])
    data[blob.DIGEST] = digest.digest()
    return bytes(data)


def test_a_wrong_index_with_a_valid_checksum_is_an_error() -> None:
    content, draw, refused = graph_form.write(large(), named=True), random.Random(1), 0
    named: Mapping[str, bytes] = content.named
    for _ in range(4000):
        data = bytearray(content.blob)
        at = 4 * draw.randrange(blob.TABLE // 4, len(data) // 4)
        data[at : at + 4] = draw.choice((draw.randbytes(4), b"\xff" * 4, b"\xff\xff\xff\x7f", bytes(4)))
        try:
            graph_read.read(sealed(data), lambda key: named.get(key, b""))
        except OpdbError:
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((0, b"PK"), "its first bytes are wrong"),
        ((8, b"\x02"), "blob format 2; this opdb reads 1"),
        ((24, b"\x09"), "malformed: its header"),
    ],
)
def test_other_formats_are_rejected(change: tuple[int, bytes], said: str) -> None:
    data = bytearray(graph_form.write(module()).blob)
    data[change[0] : change[0] + len(change[1])] = change[1]
    with pytest.raises(OpdbError, match=said):
        graph_read.read(sealed(data), nothing)


def test_a_name_that_c_cannot_hold_is_refused() -> None:
    graph = QnnGraph("forward_0", {"a\0b": GraphTensor("a\0b", "f32", (1,))})
    with pytest.raises(OpdbError, match="has a NUL"):
        graph_form.write(Module(graph, ()))
