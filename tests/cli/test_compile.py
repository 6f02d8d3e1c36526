"""opdb compile: files, refusals with reasons, and a library that is killed, hangs or crashes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.cli.library_output import HUNG
from opdb.lower.passes import NAMES
from opdb.runtime.qnn import context_file

from .compiling import Here, alive, child_of, started

pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.usefixtures("libraries")]
GUIDE = "opdb.plugins.executorch.demo:guide_model"
F = {"dtype": "FLOAT_32", "shape": [2, 3]}
RELU = {"op": "Relu", "inputs": [F], "outputs": [F]}


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


def written(path: Path, *configs: Any) -> Path:
    path.write_text("\n".join(json.dumps(c) for c in configs))
    return path


def test_a_model_is_compiled_for_htp(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "new" / "guide.bin"
    target = ("--backend", "htp", "--soc", "sm8650")
    done = here(
        "compile", GUIDE, *target, "-o", path, "--saver", tmp_path / "c", "--optimization", "3", "--json"
    )
    assert (done.code, done.err) == (0, "")
    told = done.document
    assert (told["output"], told["size"]) == (str(path), path.stat().st_size)
    assert (told["backend"], told["soc"], told["precision"], told["optimization"]) == (
        "HTP",
        "SM8650",
        "fp16",
        3,
    )
    (graph,) = told["graphs"]
    assert (graph["name"], graph["nodes"]) == ("guide_model", 2)
    assert [(t["dtype"], t["shape"]) for t in (*graph["inputs"], *graph["outputs"])] == [
        ("FLOAT_32", [200, 768]),
        ("FLOAT_32", [200, 100]),
    ]
    assert [s["stage"] for s in told["seconds"]] == [
        "export", "lower", "record", "open", "validate", "build", "finalize", "save",
    ]  # fmt: skip
    assert told["result"]["stage"] == "done"
    assert sorted(os.listdir(tmp_path / "c")) == ["params.bin", "saver_output.c"]
    assert os.listdir(path.parent) == ["guide.bin"]
    header = context_file.read(path).header
    assert (header.backend, header.soc, list(header.graphs)) == ("HTP", "SM8650", ["guide_model"])
    assert header.metadata == {
        "model": GUIDE,
        "options": {"precision": "fp16", "optimization": 3},
        "execution": "device",
        "without_passes": [],
        "io_layout": "keep",
        "calibration": None,
        "states": [],
        "scalars": {},
        "errata": {"avoid": [], "warn": []},
    }


def test_the_text_output_describes_a_program_for_cpu(here: Here, tmp_path: Path) -> None:
    import torch

    program = torch.export.export(
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid()), (torch.randn(2, 3),)
    )
    torch.export.save(program, tmp_path / "two acts.pt2")
    path = tmp_path / "m.bin"
    done = here("compile", tmp_path / "two acts.pt2", "--backend", "CPU", "-o", path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{path}: {path.stat().st_size} bytes for CPU, QNN {context_file.read(path).header.build_id}",
        "graph two_acts: 2 nodes",
        "  input  input  FLOAT_32 [2, 3]",
        "  output sigmoid  FLOAT_32 [2, 3]",
    ]


def test_every_stage_is_told_on_request(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDB_PROGRESS", "all")
    file = written(tmp_path / "relu.json", RELU)
    done = here("compile", file, "--backend", "CPU", "-o", tmp_path / "m.bin", "--json")
    assert done.code == 0 and done.document["result"]["stage"] == "done"
    stages = [
        "read",
        "open the library",
        *(f"{s} Relu_0" for s in ("validate", "build", "finalize")),
        "write",
    ]
    assert [line.split(":")[0] for line in done.err.splitlines()] == stages


def test_a_model_the_target_rejects_is_not_compiled(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refused_model.py").write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.special.erfcx(x.relu()), torch.cumprod(x, 1)\n"
        "def make():\n"
        "    return M(), (torch.ones(2, 3),)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    checked = here("check", "refused_model:make", "--backend", "CPU")
    done = here("compile", "refused_model:make", "--backend", "CPU", "-o", "m.bin", "--saver", "c")
    assert (checked.code, done.code, done.err) == (1, 1, "")
    assert "special_erfcx" in checked.out and "cumprod" in checked.out
    assert done.out.endswith(checked.out)
    done = here("compile", "refused_model:make", "--backend", "CPU", "-o", "m.bin", "--json")
    assert (done.code, done.document["coverage"]["host"], done.document["result"]["verdict"]) == (1, 2, "no")
    assert not {"m.bin", "c"} & set(os.listdir())


def test_op_configs_become_graphs_of_one_file(here: Here, tmp_path: Path) -> None:
    file = written(tmp_path / "ops.jsonl", RELU | {"id": "first"}, RELU, RELU | {"id": "third"})
    path = tmp_path / "ops.bin"
    assert here("compile", file, "--backend", "CPU", "-o", path).code == 0
    assert list(context_file.read(path).header.graphs) == ["first", "Relu_1", "third"]
    done = here("compile", file, "--backend", "CPU", "--graph", "third", "--saver", tmp_path / "c")
    assert (done.code, done.err) == (0, "")
    assert sorted(os.listdir(tmp_path)) == ["c", "ops.bin", "ops.jsonl"]
    wrong = RELU | {"id": "bad", "outputs": [F | {"shape": [3, 2]}]}
    before = path.read_bytes()
    done = here("compile", written(tmp_path / "bad.json", wrong), "--backend", "CPU", "-o", path)
    assert (done.code, done.err) == (1, "")
    assert "bad on CPU: reject\n  Relu." in done.out
    assert path.read_bytes() == before


def test_refusals_by_the_library_or_the_specs_are_reported(here: Here, tmp_path: Path) -> None:
    relo = written(tmp_path / "relo.json", RELU | {"op": "Relo", "id": "odd"})
    done = here("compile", relo, "--backend", "CPU", "-o", tmp_path / "m.bin")
    assert done.code == 1
    assert done.err.startswith(
        "opdb: CPU: validate odd: refused: 4005 QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND; see opdb explain 4005\n"
    )
    image = {"dtype": "FLOAT_32", "shape": [1, 4, 4, 8]}
    groups = {"num_groups": {"dtype": "UINT_32", "value": 0}}  # the library divides by it
    shuffle = {"id": "s", "op": "ChannelShuffle", "inputs": [image], "params": groups, "outputs": [image]}
    file = written(tmp_path / "crash.json", shuffle)
    done = here("compile", file, "--soc", "SM8650", "-o", tmp_path / "m.bin", "--json")
    assert done.code == 1
    assert done.document == {
        "result": {"stage": "lower", "verdict": "no"},
        "refused": {
            "s": [
                "ChannelShuffle.C3: num_groups must divide the number of channels. "
                "Rule: num_groups must be at least 1; got num_groups = 0"
            ]
        },
    }
    assert sorted(os.listdir(tmp_path)) == ["crash.json", "relo.json"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_child_is_killed_or_stopped(number: int, tmp_path: Path) -> None:
    big = {"dtype": "FLOAT_32", "shape": [1, 64, 64, 32]}
    ops = [{"op": "Softmax", "inputs": [big], "outputs": [big]} for _ in range(400)]
    file = written(tmp_path / "many.jsonl", *ops)
    args = ("compile", file, "--soc", "SM8650", "-o", tmp_path / "m.bin", "--timeout", "2")
    with started(*args, env={"OPDB_PROGRESS": "all"}) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("finalize"))
        assert line.startswith("finalize Softmax_0: ")
        child = child_of(process)
        os.kill(child, number)
        _, err = process.communicate(timeout=300)
    how = "the library crashed: 9 SIGKILL" if number == signal.SIGKILL else HUNG
    assert process.returncode == 1
    (said,) = (line for line in err.splitlines() if line.startswith("opdb: "))
    assert said.startswith("opdb: HTP SM8650: ") and said.endswith(how)
    assert not alive(child)
    assert os.listdir(tmp_path) == ["many.jsonl"]


def test_bad_input_is_rejected(here: Here, tmp_path: Path) -> None:
    relu = written(tmp_path / "relu.json", RELU)
    twice = written(tmp_path / "twice.jsonl", RELU | {"id": "a"}, RELU | {"id": "a"})
    empty = written(tmp_path / "empty.json")
    out = ("-o", tmp_path / "m.bin")
    for args, message in (
        ((relu, "--backend", "CPU"), "nothing to write: give -o FILE"),
        ((relu, "--backend", "CPU", "-o", tmp_path), f"-o {tmp_path}: this is a folder; name a file"),
        ((relu, "--backend", "CPU", "-o", relu / "m.bin"), f"the folder {relu} is a file; give another path"),
        (
            (relu, "--backend", "CPU", "--saver", relu / "c"),
            f"the folder {relu} is a file; give another path",
        ),
        ((relu, *out), "HTP: its rules depend on the SoC"),
        ((relu, *out, "--backend", "GPU"), "--backend GPU: graphs are compiled for CPU and HTP"),
        ((relu, *out, "--backend", "XPU"), "unknown backend 'XPU'"),
        ((relu, *out, "--soc", "SM9"), "unknown SoC 'SM9'"),
        (
            (relu, *out, "--backend", "CPU", "--soc", "SM8650"),
            "the CPU backend prepares for no chip; leave the SoC out",
        ),
        (
            (relu, *out, "--backend", "CPU", "--precision", "fp16"),
            "the CPU backend has no precision to choose",
        ),
        ((relu, *out, "--soc", "SM8650", "--precision", "fp8"), "'fp8' is not a precision"),
        ((relu, *out, "--soc", "SM8650", "--optimization", "4"), "4 is not an optimization level; 1, 2 or 3"),
        ((relu, *out, "--backend", "CPU", "--dtype", "f8"), "--dtype f8: one of f32, f16"),
        ((relu, *out, "--backend", "CPU", "--timeout", "0"), "--timeout 0: give a time above 0 seconds"),
        ((relu, *out, "--backend", "CPU", "--graph", "x"), "--graph x: the file has the op configs Relu_0"),
        ((twice, *out, "--backend", "CPU"), f"{twice}:2: id 'a' is that of {twice}:1 too"),
        ((empty, *out, "--backend", "CPU"), "no op config in it"),
        ((tmp_path / "none.json", *out, "--backend", "CPU"), "cannot read"),
        ((tmp_path / "none.pt2", *out, "--backend", "CPU"), "no such file"),
        (("nomodule:make", *out, "--backend", "CPU"), "no such module"),
    ):
        done = here("compile", *args)
        assert (done.code, len(done.err.splitlines())) == (2, 1), (args, done)
        assert message in done.err
    assert sorted(os.listdir(tmp_path)) == ["empty.json", "relu.json", "twice.jsonl"]


def test_passes_are_listed(here: Here) -> None:
    done = here("compile", "--passes")
    rows = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert done.code == 0 and [row[0] for row in rows] == list(NAMES)
    assert {row[1] for row in rows} == {"exact", "bounded"}
    assert here("build", "--passes").out == done.out


def test_images_can_have_channels_last(here: Here, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1))
    x = torch.rand(1, 3, 8, 8)
    torch.export.save(torch.export.export(network.eval(), (x,)), tmp_path / "two.pt2")
    target = ("--backend", "CPU", "-o")
    done = here("compile", tmp_path / "two.pt2", *target, tmp_path / "m.bin", "--io-layout", "nhwc")
    assert done.code == 0 and "graph two: 3 nodes; images at its ends in NHWC\n" in done.out
    assert "[1, 8, 8, 3]" in done.out and "[1, 6, 6, 2]" in done.out
    assert context_file.read(tmp_path / "m.bin").header.metadata["io_layout"] == "nhwc"
    np.save(tmp_path / "x.npy", x.permute(0, 2, 3, 1).contiguous().numpy())
    assert (
        here("run", tmp_path / "m.bin", "--inputs", tmp_path / "x.npy", "--outputs", tmp_path / "y.npz").code
        == 0
    )
    (got,) = np.load(tmp_path / "y.npz").values()
    with torch.no_grad():
        wanted = network(x).permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    kept = here("compile", tmp_path / "two.pt2", *target, tmp_path / "k.bin", "--no-pass", "sink-transposes")
    assert "graph two: 7 nodes\n" in kept.out
    assert context_file.read(tmp_path / "k.bin").header.metadata["without_passes"] == ["sink-transposes"]


@pytest.mark.parametrize(
    "options, said",
    [
        (("--no-pass", "sink"), "no pass 'sink'"),
        (("--io-layout", "nchw"), "io layout 'nchw': one of keep, nhwc"),
    ],
)
def test_unknown_passes_and_layouts_are_rejected(
    here: Here, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = here("compile", GUIDE, "--backend", "CPU", "-o", tmp_path / "m.bin", *options)
    assert done.code == 2 and said in done.err


def test_op_configs_have_no_passes(here: Here, tmp_path: Path) -> None:
    done = here("compile", "-", "--backend", "CPU", "-o", tmp_path / "m.bin", "--io-layout", "nhwc")
    assert done.code == 2 and "op configs stay as they are" in done.err
