"""Calibration data: the samples from each form of --data, and the errors for data that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.execute.compile.calibration import DRAWN, program_inputs, read_samples

X = GraphTensor("x", "f32", (2, 3), "APP_WRITE")
IDS = GraphTensor("ids", "i32", (2,), "APP_WRITE")


def values(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_an_archive_is_one_sample_or_a_stack(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", x=values(2, 3), ids=np.array([1, 2]))
    (one,) = read_samples(str(tmp_path / "one.npz"), [X, IDS])
    assert (one["x"] == values(2, 3)).all() and one["ids"].tolist() == [1, 2]
    np.savez(tmp_path / "five.npz", x=values(5, 2, 3), ids=np.arange(10).reshape(5, 2))
    five = read_samples(str(tmp_path / "five.npz"), [X, IDS])
    assert len(five) == 5 and five[3]["ids"].tolist() == [6, 7]
    assert (five[3]["x"] == values(5, 2, 3)[3]).all()


def test_archives_of_a_folder_are_read_in_name_order(tmp_path: Path) -> None:
    for i in (2, 0, 1):
        np.savez(tmp_path / f"{i}.npz", x=np.full((2, 3), i, np.float32))
    assert [s["x"][0, 0] for s in read_samples(str(tmp_path), [X])] == [0, 1, 2]


@pytest.mark.parametrize("sample", [values(2, 3), (values(2, 3),), {"x": values(2, 3)}, [values(2, 3)]])
def test_a_callable_may_yield_samples_in_any_form(sample: Any) -> None:
    found = read_samples("m:f", [X], found=lambda _: lambda: iter([sample, sample]))
    assert len(found) == 2 and (found[1]["x"] == values(2, 3)).all()


def test_random_data_depend_only_on_the_seed() -> None:
    first, again, other = (read_samples(s, [X, IDS]) for s in ("random", "random:0", "random:1"))
    assert len(first) == DRAWN and {s["ids"].dtype for s in first} == {np.dtype(np.int32)}
    assert (first[3]["x"] == again[3]["x"]).all() and (first[3]["x"] != other[3]["x"]).any()


def test_example_data_follow_the_input_order() -> None:
    (sample,) = read_samples("example", [X, IDS], example=[values(2, 3), np.array([3, 4])])
    assert sample["ids"].tolist() == [3, 4]


def _fails() -> Any:
    yield values(2, 3)
    raise ValueError("no such image")


@pytest.mark.parametrize(
    ("spec", "made", "message"),
    [
        ("a.npz", {"y": values(2, 3)}, "a.npz: no values for the input x; it has y"),
        ("a.npz", {"x": values(3, 2)}, r"x has the shape \[3, 2\], the input is x FLOAT_32 \[2, 3\]"),
        ("a.npz", {"x": np.full((2, 3), np.nan, np.float32)}, "x has a value that is not finite"),
        ("a.npz", {"x": np.array([["a"] * 3] * 2)}, "x has values of <U1; the input is FLOAT_32"),
        ("a.npz", b"text", "a.npz: not an archive of numpy.savez"),
        ("none.npz", None, "none.npz: cannot read: No such file"),
        ("none", None, "no such file or folder; give one of FILE.npz, a folder"),
        ("random:x", None, "a seed is a whole number from 0"),
        (".", None, "no sample in it"),
        ("example", None, "this model has no example inputs"),
        ("m:f", lambda: [(values(2, 3), values(2, 3))], r"m:f: sample 1: 2 values for 1 input \(x\)"),
        ("m:f", lambda: None, "TypeError: 'NoneType' object is not iterable"),
        ("m:f", _fails, "m:f: ValueError: no such image"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, made: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if isinstance(made, bytes):
        (tmp_path / spec).write_bytes(made)
    elif isinstance(made, dict):
        np.savez(tmp_path / spec, **made)
    found: Callable[[str], Any] = lambda _: made  # noqa: E731
    with pytest.raises(OpdbError, match=message):
        read_samples(spec, [X], found=found)


def test_inputs_need_equal_numbers_of_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=values(5, 2, 3), ids=np.zeros((4, 2), np.int32))
    with pytest.raises(OpdbError, match=r"different numbers of samples: x \[5, 2, 3\], ids \[4, 2\]"):
        read_samples(str(tmp_path / "a.npz"), [X, IDS])
    np.savez(tmp_path / "a.npz", x=values(2, 3), ids=np.zeros(2))
    with pytest.raises(OpdbError, match="ids has values of float64; the input is INT_32"):
        read_samples(str(tmp_path / "a.npz"), [X, IDS])


@pytest.mark.torch
def test_the_inputs_of_a_program_are_described() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any, ids: Any) -> Any:
            return x[ids]

    program = torch.export.export(Net(), (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)))
    assert program_inputs(program) == [X, IDS]
    assert [t.name for t in program_inputs(program, ["a", "b"])] == ["a", "b"]


def test_a_number_is_a_sample_of_a_scalar_input() -> None:
    one = GraphTensor("one", "f32", (1,), "APP_WRITE")
    (sample,) = read_samples("example", [X, one], example=[values(2, 3), np.array(0.5, np.float32)])
    assert sample["one"].shape == (1,) and sample["one"][0] == 0.5
