"""opdb's context file: every byte counts.  Ten thousand damaged files are all rejected without a crash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.op_config import Blocks, Quant, Vectors
from opdb.runtime.qnn import context_file
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context_file import MAGIC, PREFIX, Header
from opdb.runtime.qnn.graph import Interface, Tensor

from .test_context import Q8, TARGETS, context_of, graphs, relu

QUANTS = (
    Q8,
    Quant("AXIS_SCALE_OFFSET", (0.5, 0.25), (1, -2), axis=1),
    Quant("BW_SCALE_OFFSET", (0.1,), (0,), bits=4),
    Quant("BW_AXIS_SCALE_OFFSET", (1e-30, 3.0), (0, 0), axis=0, bits=4),
    Quant("BLOCK", (0.5, 0.25), (0, 7), block_size=(2, 1)),
    Quant("BLOCKWISE_EXPANSION", (0.5, 0.25), (0, 0), 0, blocks=Blocks(2, 4, (1, 2, 3, 4), 8)),
    Quant("VECTOR", (0.5,), (0,), 0, 8, vector=Vectors(1, 2, 3, 4, 5)),
)


def header(**changes: Any) -> Header:
    def tensor(name: str, number: int, type_: str, quant: Quant | None = None) -> Tensor:
        return Tensor(GraphTensor(name, "uq8" if quant else "f32", (2, 2), type_, quant=quant), number)

    inputs = tuple(tensor(f"x{i}", i, "APP_WRITE", q) for i, q in enumerate(QUANTS))
    ends = Interface(inputs, (tensor("größe", 2**32 - 1, "APP_READ"),))
    made = Header(
        backend="HTP",
        soc="SM8650",
        soc_model=57,
        package="onnxruntime-qnn",
        version="2.3.0",
        build_id="v2.47.0",
        sha256="0" * 64,
        core_api=(2, 36, 0),
        backend_api=(5, 47, 0),
        opdb="0.1.0",
        graphs={"first": ends, "": Interface((), ())},
        metadata={"a": [1, None, "ü"]},
    )
    return dataclasses.replace(made, **changes)


PAYLOAD = bytes(range(256)) * 3


def test_a_file_survives_a_round_trip() -> None:
    file = context_file.unpack(context_file.pack(header(), PAYLOAD), "f")
    assert file.header == header()
    assert list(file.header.graphs) == ["first", ""]
    assert bytes(file.payload) == PAYLOAD
    assert context_file.unpack(context_file.pack(header(graphs={}, metadata={}), b""), "f").payload == b""


def test_the_layout_matches_the_documentation() -> None:
    data = context_file.pack(header(), PAYLOAD)
    magic, number, n_head, n_payload = struct.unpack_from("<8sIIQ", data)
    assert (magic, number, n_payload) == (b"\x8aOPDBCTX", 1, len(PAYLOAD))
    assert data[24:56] == hashlib.sha256(PAYLOAD).digest()
    assert json.loads(data[56 : 56 + n_head])["library"]["build_id"] == "v2.47.0"
    assert data[56 + n_head : 88 + n_head] == hashlib.sha256(data[: 56 + n_head]).digest()
    assert data[88 + n_head :] == PAYLOAD


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a context file of opdb's: it is empty"),
        (b"PK\x03\x04" + bytes(200), "not a context file of opdb's: a zip archive"),
        (b"\x1c\0\0\0ET12" + bytes(200), r"an ExecuTorch program \(\.pte\)"),
        (b"\x7fELF" + bytes(200), "a shared library or program"),
        (b"\0\0\0\x02\0\0\0\x03" + bytes(200), r"its first bytes are wrong \(Backend.load_raw_context takes"),
        (MAGIC[:5], "not a context file"),
        (MAGIC, "cut off after 8 bytes"),
        (
            MAGIC + struct.pack("<I", 2) + bytes(100),
            "context file format 2; this opdb reads 1: use a newer opdb",
        ),
        (MAGIC + bytes(100), "damaged: 0 is not a format"),
        (PREFIX.pack(MAGIC, 1, 2**32 - 1, 2**64 - 1, bytes(32)), "damaged or cut off: 56 bytes where"),
    ],
)
def test_files_that_are_not_context_files_are_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(OpdbError, match=f"^some/file: .*{reason}"):
        context_file.unpack(data, "some/file")


def test_a_change_of_any_byte_is_detected() -> None:
    data = context_file.pack(header(), PAYLOAD)
    for i in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[i] ^= flip
            with pytest.raises(OpdbError, match=r"^f: "):
                context_file.unpack(bytes(damaged), "f")
        with pytest.raises(OpdbError, match=r"^f: "):
            context_file.unpack(data[:i], "f")


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes typical of disks, transfers and editors; may return ``data`` unchanged."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        # half of them where the header is
        at = rng.randrange(min(len(out), 2048) if rng.random() < 0.5 else len(out)) if out else 0
        n = rng.choice((1, 1, 2, 4, 8, 64, 4096))
        kind = rng.randrange(8)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + n] = rng.randbytes(n)
        elif kind == 2:
            out[at:at] = rng.randbytes(n)
        elif kind == 3:
            del out[at : at + n]
        elif kind == 4:
            del out[at:]
        elif kind == 5:
            out += rng.randbytes(n)
        elif kind == 6:
            out[at : at + n] = bytes(n)
        else:  # a block ends up elsewhere
            other = rng.randrange(len(out) + 1)
            block = out[at : at + n]
            del out[at : at + n]
            out[other:other] = block
    return bytes(out)


def fuzz(data: bytes, times: int, seed: int) -> None:
    """Gives ``times`` damaged forms of ``data`` to the reader; each must be refused with one line."""
    rng = random.Random(seed)
    refused = 0
    while refused < times:
        damaged = mutate(data, rng)
        if damaged == data:
            continue
        try:
            context_file.unpack(damaged, "f")
        except OpdbError as error:
            message = str(error)
            assert type(error) is OpdbError
            assert message.startswith("f: ") and "\n" not in message, message
            refused += 1
        else:
            raise AssertionError("a damaged file was accepted")


@pytest.fixture(scope="module", params=TARGETS, ids=["CPU", "HTP"])
def real(request: pytest.FixtureRequest, libraries: Any, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with a context from the vendor's library."""
    name, soc = request.param
    path: Path = tmp_path_factory.mktemp("context") / "real.ctx"
    made = graphs(name) if name == "CPU" else [relu("byte", "uq8", Q8)]
    with Backend.open(name, soc, log_level="error") as backend, context_of(backend, made) as context:
        context.save(path)
    return path.read_bytes()


@pytest.mark.vendor
def test_ten_thousand_damaged_files_are_rejected(real: bytes) -> None:
    fuzz(real, 10_000, 1)


@pytest.mark.vendor
@pytest.mark.sweep
def test_a_hundred_thousand_damaged_files_are_rejected(real: bytes) -> None:
    fuzz(real, 100_000, 2)


def resealed(data: bytes, raw: object) -> bytes:
    """``data`` with another header, and correct checksums."""
    _, number, n_head, n_payload, sha = PREFIX.unpack_from(data)
    text = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    prefix = PREFIX.pack(MAGIC, number, len(text), n_payload, sha)
    return prefix + text + hashlib.sha256(prefix + text).digest() + data[PREFIX.size + n_head + 32 :]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(raw: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    items = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    return [path, *(p for key, value in items for p in places(value, (*path, key)))]


@settings(max_examples=300)
@given(data=st.data())
def test_foreign_headers_are_read_or_refused(data: st.DataObject) -> None:
    """The header has correct checksums but was not written by opdb: no other kind of error occurs."""
    raw = json.loads(json.dumps(header().json()))
    for _ in range(data.draw(st.integers(1, 2))):
        *path, key = data.draw(st.sampled_from([p for p in places(raw) if p]))
        inside = raw
        for step in path:
            inside = inside[step]
        if data.draw(st.booleans()):
            inside[key] = data.draw(values)
        else:
            del inside[key]
    try:
        file = context_file.unpack(resealed(context_file.pack(header(), PAYLOAD), raw), "f")
    except OpdbError as error:
        assert str(error).startswith("f: header")
        assert "\n" not in str(error)
    else:
        assert context_file.unpack(context_file.pack(file.header, PAYLOAD), "f").header == file.header


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"1" * 5000, b"[" * 100_000, b"\xff\xfe", b'{"library": 3}', b'"\\ud800"',
     b'{"library": {}, "graphs": [3]}'],
)  # fmt: skip
def test_invalid_headers_are_rejected(text: bytes) -> None:
    with pytest.raises(OpdbError, match=r"^f: header: ") as caught:
        context_file.unpack(resealed(context_file.pack(header(), PAYLOAD), text), "f")
    assert "\n" not in str(caught.value)


def test_impossible_tensors_are_rejected() -> None:
    good = header().json()
    changes: list[tuple[str, Any]] = [
        ("the tensor 'x0' is not of type APP_WRITE", lambda g: g["inputs"][0].update(type="NATIVE")),
        ("'ids' has one number for each tensor", lambda g: g["ids"][0].pop()),
        ("'ids' has one number for each tensor", lambda g: g["ids"][1].__setitem__(0, 2**32)),
        ("two tensors have the same name", lambda g: g["inputs"][1].update(name="x0")),
        (
            r"graphs\[0\]\.inputs\[0\]\.dtype: 'f31' is not a QNN data type",
            lambda g: g["inputs"][0].update(dtype="f31"),
        ),
        ("the tensor 'x0' is not of type APP_WRITE without data", lambda g: g["inputs"][0].update(data=[1])),
        ("two graphs are called ''", lambda g: g.update(name="")),
    ]
    for message, change in changes:
        raw = json.loads(json.dumps(good))
        change(raw["graphs"][0])
        with pytest.raises(OpdbError, match=message):
            context_file.unpack(resealed(context_file.pack(header(), PAYLOAD), raw), "f")


def test_files_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.ctx"
    context_file.write(path, header(), PAYLOAD)
    context_file.write(path, header(), PAYLOAD[:-1])
    assert bytes(context_file.read(path).payload) == PAYLOAD[:-1]
    assert [p.name for p in path.parent.iterdir()] == ["a.ctx"]
    for wrong in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(OpdbError, match=f"^{wrong}: cannot read: "):
            context_file.read(wrong)
