"""Arrays for the inputs of a graph: every form, every error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.dtypes import DTYPES
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.op_config import Quant
from opdb.execute.compile.inputs import drawn, feed

pytestmark = pytest.mark.native
X = GraphTensor("x", "f32", (2, 3), "APP_WRITE")
N = GraphTensor("n", "i32", (4,), "APP_WRITE")
Q = GraphTensor("q", "uq8", (3,), "APP_WRITE", quant=Quant("SCALE_OFFSET", (0.5,), (-10,)))


def saved(path: Path, value: Any) -> str:
    np.save(path, value)
    return str(path)


def test_inputs_are_read_from_every_form(tmp_path: Path) -> None:
    x, n, q = np.arange(6.0).reshape(2, 3), np.arange(4, dtype=np.int64), np.array([1, 2, 3], np.uint8)
    xs, ns, qs = (saved(tmp_path / f"{k}.npy", v) for k, v in (("x", x), ("n", n), ("q", q)))
    np.savez(tmp_path / "all.npz", x=x, q=q)
    raw = tmp_path / "n.raw"
    raw.write_bytes(n.astype(np.int32).tobytes())
    for specs in (
        [xs, ns, qs],
        [f"q={qs}", xs, f"n={ns}"],
        [str(tmp_path / "all.npz"), f"n={raw}"],
        [xs, str(raw), qs],
    ):
        fed = feed(specs, [X, N, Q])
        assert {k: v.dtype.name for k, v in fed.items()} == {"x": "float32", "n": "int32", "q": "uint8"}
        assert np.array_equal(fed["x"], x) and np.array_equal(fed["n"], n) and np.array_equal(fed["q"], q)


def test_a_scalar_fills_an_input_of_one_element(tmp_path: Path) -> None:
    one = GraphTensor("t", "f32", (1,), "APP_WRITE")
    for given in (np.float32(0.5), np.array([0.5], np.float32)):
        fed = feed([saved(tmp_path / "t.npy", given)], [one])["t"]
        assert fed.shape == (1,) and fed[0] == 0.5
    steps = feed([saved(tmp_path / "t.npy", np.array([1.0, 2.0, 3.0]))], [one], steps=3)["t"]
    assert steps.shape == (3, 1) and steps.ravel().tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(OpdbError, match=r"input x: the shape is \[2, 3\], the file has \[\]"):
        feed([saved(tmp_path / "x.npy", np.float32(0.5))], [X])
    with pytest.raises(OpdbError, match=r"input t: the shape is \[1\], the file has \[1, 1\]"):
        feed([saved(tmp_path / "t.npy", np.zeros((1, 1)))], [one])


def test_random_is_fixed_by_its_seed() -> None:
    tensors = [X, N, Q]
    first, again, other = (feed([f"random:{s}"], tensors) for s in (7, 7, 8))
    assert all(np.array_equal(first[k], again[k]) for k in first)
    assert not np.array_equal(first["x"], other["x"])
    assert np.array_equal(feed(["x=random:7"], [X])["x"], feed(["random:7"], [X])["x"])


@pytest.mark.parametrize("kind", [d for d in DTYPES if d.numpy], ids=lambda d: d.short)
def test_random_values_suit_the_data_type(kind: Any) -> None:
    tensor = GraphTensor("t", kind.short, (50, 40), "APP_WRITE", quant=Quant("SCALE_OFFSET", (1.0,), (0,)))
    values = drawn(tensor, np.random.default_rng(0))
    assert (values.dtype, values.shape) == (np.dtype(kind.numpy), (50, 40))
    if kind.quantized and kind.bits <= 16:
        assert int(values.max()) - int(values.min()) > 0.9 * 2**kind.bits
    elif kind.qnn.startswith("FLOAT"):
        assert abs(values.mean()) < 0.1 and 0.9 < values.std() < 1.1
    elif kind.short != "bf16" and not kind.quantized:
        assert set(np.unique(values)) == {0, 1}


def test_real_numbers_are_quantized(tmp_path: Path) -> None:
    path = saved(tmp_path / "q.npy", np.array([0.25, 0.75, 1e9]))  # 0.25 / 0.5 + 10 = 10.5 -> 10, 11.5 -> 12
    assert feed([path], [Q], real=True)["q"].tolist() == [10, 12, 255]
    raw = tmp_path / "q.raw"
    raw.write_bytes(bytes([1, 2, 3]))
    assert feed([f"q={raw}"], [Q], real=True)["q"].tolist() == [1, 2, 3]
    assert feed([saved(tmp_path / "x.npy", np.ones((2, 3)))], [X], real=True)["x"].tolist() == [[1.0] * 3] * 2


def test_unusable_inputs_are_rejected(tmp_path: Path) -> None:
    x = saved(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    wide = saved(tmp_path / "wide.npy", np.zeros((3, 2), np.float32))
    big = saved(tmp_path / "big.npy", np.array([2**31, 0, 0, 0]))
    words = saved(tmp_path / "words.npy", np.array(["a"] * 6).reshape(2, 3))
    np.savez(tmp_path / "odd.npz", z=np.zeros(1))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and nothing more")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "short.raw").write_bytes(b"123")
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    for specs, tensors, message in (
        ([], [X, N], r"the input x has no values; give --inputs FILE\.npy.*its inputs: x FLOAT_32 \[2, 3\], n INT_32"),
        ([x], [X, N], "the input n has no values"),
        ([x, x], [X], "every input has its values already"),
        ([f"x={x}", f"x={x}"], [X], r"the input x has values from .*x\.npy already"),
        ([f"z={x}"], [X], "this graph has no input 'z'"),
        ([str(tmp_path / "odd.npz")], [X], "this graph has no input 'z'"),
        ([f"x={tmp_path / 'odd.npz'}"], [X], "an archive names its own inputs"),
        ([wide], [X], r"wide\.npy: input x: the shape is \[2, 3\], the file has \[3, 2\]"),
        ([big], [N], r"big\.npy: input n: a value does not fit i32"),
        ([words], [X], r"words\.npy: input x: values of type <U1 do not go into f32"),
        ([x], [GraphTensor("b", "bool8", (2, 3), "APP_WRITE")], "float32 do not go into bool8"),
        ([str(tmp_path / "short.raw")], [X], r"3 bytes; x FLOAT_32 \[2, 3\] has 24"),
        ([str(tmp_path / "none.npy")], [X], r"none\.npy: cannot read: No such file"),
        ([str(tmp_path / "none.npz")], [X], r"none\.npz: cannot read: No such file"),
        ([str(tmp_path)], [X], "cannot read: Is a directory"),
        ([str(tmp_path / "broken.npy")], [X], r"broken\.npy: not an array of numpy\.save"),
        ([str(tmp_path / "broken.npz")], [X], r"broken\.npz: not an archive of numpy\.savez"),
        ([str(tmp_path / "pickled.npy")], [X], r"pickled\.npy: not an array of numpy\.save"),
        (["random:"], [X], "a seed is a whole number"),
        (["random:-1"], [X], "a seed is a whole number"),
    ):  # fmt: skip
        with pytest.raises(OpdbError, match=message) as raised:
            feed(specs, tensors)
        assert "\n" not in str(raised.value)
    with pytest.raises(OpdbError, match="NaN has no quantized value"):
        feed([saved(tmp_path / "nan.npy", np.full(3, np.nan))], [Q], real=True)
