"""opdb run: numbers against PyTorch from a new process, files in and out, profiles, failures."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.cli.library_output import HUNG
from opdb.execute.compile.outputs import figures, write
from opdb.plugins.executorch import demo

from .compiling import COMMAND, ROOT, Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.usefixtures("libraries")]
TARGETS = {"CPU": ("--backend", "CPU"), "HTP": ("--backend", "HTP", "--soc", "SM8650")}
QUANT = {"encoding": "SCALE_OFFSET", "scale": 0.5, "offset": -10}
Q = {"dtype": "UFIXED_POINT_8", "shape": [2, 3], "quant": QUANT}
F = {"dtype": "FLOAT_32", "shape": [2, 3]}
CONFIGS = [
    {"id": "quantized", "op": "Sigmoid", "inputs": [Q | {"name": "q"}],
     "outputs": [Q | {"name": "y", "quant": {"encoding": "SCALE_OFFSET", "scale": 1 / 256, "offset": 0}}]},
    {"id": "add", "op": "ElementWiseAdd", "inputs": [F | {"name": "a"}, F | {"name": "b"}],
     "outputs": [F | {"name": "a/b"}]},
]  # fmt: skip


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A context file of two op configs on CPU."""
    folder = tmp_path_factory.mktemp("ops")
    (folder / "ops.jsonl").write_text("\n".join(map(json.dumps, CONFIGS)))
    command = [
        *COMMAND,
        "compile",
        str(folder / "ops.jsonl"),
        "--backend",
        "CPU",
        "-o",
        str(folder / "ops.bin"),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder / "ops.bin"


NUMBERS = """
import torch

class Scaled(torch.nn.Module):
    def forward(self, x, t):
        return (x * t).sum(), x + t, (x * t).sum(0, keepdim=True).sum(1)

def make():
    return Scaled().eval(), (torch.ones(2, 3), torch.tensor(0.5))
"""


@pytest.mark.parametrize("quantize", [(), ("--quantize", "16a8w", "--data", "example")])
def test_scalars_stay_scalars(quantize: tuple[str, ...], here: Here, tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text(NUMBERS)
    model = (f"{tmp_path / 'numbers.py'}:make", *TARGETS["HTP"], "--execution", "emulator")
    context, given, made = (tmp_path / name for name in ("numbers.bin", "in.npz", "out.npz"))
    assert here("compile", *model, *quantize, "-o", context).code == 0
    np.savez(given, x=np.ones((2, 3), np.float32), t=np.float32(0.5))
    args = ("run", context, "--inputs", given, "--outputs", made, "--real", "--json")
    shapes = [o["shape"] for o in json.loads(here(*args).out)["outputs"]]
    assert shapes == [[], [2, 3], [1]]
    results = list(np.load(made).values())
    assert [r.shape for r in results] == [(), (2, 3), (1,)]
    assert abs(results[0] - 3) < 0.01 and abs(results[1] - 1.5).max() < 0.01
    np.savez(given, x=np.ones((2, 2, 3), np.float32), t=np.array([0.5, 0.25], np.float32))
    assert here(*args, "--steps", "2").code == 0
    total = np.load(made)[next(iter(np.load(made)))]
    assert total.shape == (2,) and abs(total - [3, 1.5]).max() < 0.01


@pytest.mark.parametrize("backend", TARGETS)
def test_results_match_pytorch(backend: str, here: Here, tmp_path: Path) -> None:
    path = tmp_path / "guide.bin"
    assert (
        here(
            "compile",
            "opdb.plugins.executorch.demo:guide_model",
            *TARGETS[backend],
            "-o",
            path,
            "--graph",
            "guide",
        ).code
        == 0
    )
    module, (x,) = demo.guide_model()
    np.save(tmp_path / "x.npy", x.numpy())
    args = (
        "--inputs",
        f"input={tmp_path / 'x.npy'}",
        "--outputs",
        tmp_path / "out.npz",
        "--json",
    )
    command = [*COMMAND, "run", str(path), *map(str, args)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    with np.load(tmp_path / "out.npz") as outputs:
        ((name, y),) = outputs.items()
    with torch.no_grad():
        reference = module(x).numpy()
    bound = demo.FLOAT32_BOUND if backend == "CPU" else demo.FLOAT16_BOUND
    compared = demo.compare(backend, y, reference, bound)
    assert compared.ok, compared
    assert (backend == "HTP") == (compared.relative > 1e-5)  # HTP computes in float16
    told = json.loads(done.stdout)
    (output,) = told["outputs"]
    assert (output["name"], output["dtype"], output["shape"]) == (name, "FLOAT_32", [200, 100])
    assert [output[k] for k in ("min", "max", "mean")] == pytest.approx(
        [y.min(), y.max(), y.mean(dtype=float)]
    )
    assert len(told["seconds"]) == 1 and told["seconds"][0] > 0
    assert (told["result"]["stage"], told["graph"]) == ("done", "guide")


def test_text_profile_and_trace_are_written(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "relu.json"
    file.write_text(json.dumps({"op": "Relu", "id": "r", "inputs": [F], "outputs": [F]}))
    assert here("compile", file, *TARGETS["HTP"], "-o", tmp_path / "m").code == 0
    trace = tmp_path / "trace.json"
    done = here(
        "run",
        tmp_path / "m",
        "--inputs",
        "random:3",
        "--profile",
        "detailed",
        "--trace",
        trace,
        "--repeat",
        "3",
    )
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("graph r on HTP SM8650, QNN v2.")
    x = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    words = lines[1].split()
    assert words[:4] == ["out0", "FLOAT_32", "[2,", "3]"]
    assert float(words[5]) == 0.0 == min(np.maximum(x, 0).ravel())
    assert float(words[7]) == pytest.approx(x.max(), rel=1e-3)
    assert lines[2].startswith("load ") and " 3 runs: first " in lines[2]
    assert lines[3] == "  wall times of QNN's emulation on this machine, not of a device"
    assert sum(line.startswith("execute r, run ") for line in lines) == 3
    events = json.loads(trace.read_text())["traceEvents"]
    assert [e["name"] for e in events if e["name"].startswith("execute")] == [
        f"execute r, run {i}" for i in range(3)
    ]


def test_quantized_inputs_and_outputs_can_be_integers_or_floats(
    here: Here, ops: Path, tmp_path: Path
) -> None:
    stored = np.array([[0, 10, 12], [8, 255, 30]], np.uint8)
    real = (stored.astype(np.float32) - 10) * 0.5
    np.save(tmp_path / "stored.npy", stored)
    np.save(tmp_path / "real.npy", real)
    run = ("run", ops, "--graph", "quantized", "--outputs", tmp_path / "out", "--inputs")
    assert here(*run, tmp_path / "stored.npy").code == 0
    integers = np.load(tmp_path / "out" / "y.npy")
    assert integers.dtype == np.uint8
    assert here(*run, tmp_path / "real.npy", "--real").code == 0
    numbers = np.load(tmp_path / "out" / "y.npy")
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, integers / np.float32(256))
    wanted = 1 / (1 + np.exp(-real))
    assert np.abs(numbers - wanted).max() <= 1.5 / 256


def test_output_names_become_file_names(here: Here, ops: Path, tmp_path: Path) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    np.savez(tmp_path / "in.npz", b=b, a=a)
    done = here("run", ops, "--graph", "add", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out")
    assert (done.code, os.listdir(tmp_path / "out")) == (0, ["a_b.npy"])
    assert np.array_equal(np.load(tmp_path / "out" / "a_b.npy"), a + b)


def test_an_archive_holds_any_output_name(tmp_path: Path) -> None:
    values = {"file": np.arange(3), "a/b": np.ones((2, 1), np.float16), "allow_pickle": np.zeros(0, bool)}
    write(tmp_path / "out.npz", values)
    with np.load(tmp_path / "out.npz") as archive:
        assert archive.files == list(values)
        for name, value in values.items():
            assert archive[name].dtype == value.dtype and np.array_equal(archive[name], value)


def test_figures_ignore_values_that_are_not_finite() -> None:
    values = np.array([np.nan, -2, 4, np.inf], np.float16)
    assert figures(values) == {"min": -2.0, "max": 4.0, "mean": 1.0, "not_finite": 2}
    assert figures(values[:1]) == {"min": None, "max": None, "mean": None, "not_finite": 1}
    assert figures(np.array([255, 255], np.uint8))["mean"] == 255
    assert figures(np.array([True, False]))["mean"] == 0.5


def test_a_run_is_stopped_at_its_timeout(here: Here, ops: Path, tmp_path: Path) -> None:
    args = ("--graph", "add", "--inputs", "random:0", "--outputs", tmp_path / "out.npz")
    done = here("run", ops, *args, "--repeat", "1000000000", "--timeout", "1")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"opdb: {ops} on CPU: execute: {HUNG}\n"
    assert os.listdir(tmp_path) == []


def test_bad_input_is_rejected(here: Here, ops: Path, tmp_path: Path) -> None:
    damaged = bytearray(ops.read_bytes())
    damaged[-20] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    (tmp_path / "other").write_text("hello")
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    add: tuple[Any, ...] = (ops, "--graph", "add", "--inputs", "random:0")
    for args, message in (
        ((tmp_path / "none",), "none: cannot read"),
        ((tmp_path / "other",), "other: not a context file of opdb's"),
        ((tmp_path / "damaged",), "damaged: damaged: the checksum of the context binary is wrong"),
        ((ops,), "it has 2 graphs; choose one with --graph: quantized, add"),
        ((ops, "--graph", "sub"), "--graph sub: "),
        ((ops, "--graph", "add"), "the input a has no values; give --inputs"),
        (
            (ops, "--graph", "add", "--inputs", tmp_path / "x.npy"),
            "input a: the shape is [2, 3], the file has [3, 2]",
        ),
        ((*add, "--inputs", f"c={tmp_path / 'x.npy'}"), "this graph has no input 'c'"),
        ((*add, "--repeat", "0"), "--repeat 0"),
        ((*add, "--timeout", "-1"), "--timeout -1"),
        ((*add, "--profile", "fine"), "'fine' is not a profiling level"),
        ((*add, "--profile", "linting"), "the CPU backend has no profiling level linting"),
        ((*add, "--trace", tmp_path / "t"), "--trace writes what was profiled"),
        ((*add, "--outputs", tmp_path / "other"), "give a file that ends in .npz, or a folder"),
        ((*add, "--outputs", tmp_path / "other" / "out.npz"), f"the folder {tmp_path / 'other'} is a file"),
    ):
        done = here("run", *args)
        assert (done.code, len(done.err.splitlines())) == (2, 1), (args, done)
        assert message in done.err
    assert sorted(os.listdir(tmp_path)) == ["damaged", "other", "x.npy"]
