"""opdb compile and opdb run for ExecuTorch programs, on the HTP emulation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opdb.plugins.executorch import process

from .. import forked
from .compiling import Here

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
GUIDE = "opdb.plugins.executorch.demo:guide_model"  # [200, 768] -> [200, 100]
LEFT = "pte_models:with_a_node_for_the_cpu"


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Call:
    run = Here(capsys)

    def call(*arguments: str) -> tuple[int, str, str]:
        done = run(*arguments)
        return done.code, done.out, done.err

    return call


def test_a_model_is_compiled_and_run(here: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from opdb.plugins.executorch.demo import guide_model

    module, (x,) = guide_model()
    pte, given, results = tmp_path / "guide.pte", tmp_path / "x.npy", tmp_path / "out.npz"
    np.save(given, x.numpy())
    monkeypatch.setenv("OPDB_PROGRESS", "all")
    monkeypatch.setattr(process, "_run", forked.started)  # a forked child tells no stages
    code, out, err = here("compile", GUIDE, "--soc", "SM8650", "-o", str(pte))
    assert code == 0, err
    done = [line.split(":")[0] for line in err.splitlines() if line.endswith(" s")]
    assert done == ["prepare", "export", "start ExecuTorch", "lower", "finalize", "write"]
    monkeypatch.setenv("OPDB_PROGRESS", "0")
    assert "2 of 2 nodes on QNN" in out and f"{pte.stat().st_size} bytes for HTP SM8650, fp16" in out
    code, out, err = here(
        "run", str(pte), "--inputs", str(given), "--outputs", str(results), "--repeat", "2", "--json"
    )
    assert code == 0, err
    document = json.loads(out)
    assert document["outputs"][0]["shape"] == [200, 100] and len(document["seconds"]) == 2
    with torch.no_grad():
        wanted = module(x).numpy()
    assert np.abs(np.load(results)["output0"] - wanted).max() < 2e-3 * np.abs(wanted).max()


def test_a_quantized_model_lists_its_delegated_nodes(here: Call, tmp_path: Path) -> None:
    pte = tmp_path / "guide.pte"
    quantized = ("--quantize", "8a8w", "--data", "example")
    code, out, err = here("compile", GUIDE, "--soc", "SM8650", *quantized, "-o", str(pte), "--json")
    assert code == 0, err
    document = json.loads(out)
    assert document["quantize"] == "8a8w" and document["not_delegated"] == {}
    assert document["delegated"]["aten_linear_default"] == "FullyConnected"


def test_cpu_nodes_are_reported_and_the_program_is_written(
    here: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    pte = tmp_path / "left.pte"
    code, out, _ = here("compile", LEFT, "--soc", "SM8650", "-o", str(pte))
    assert code == 1 and pte.exists()
    assert "2 of 3 nodes on QNN" in out and "aten_masked_scatter_default: on the CPU" in out
    assert "QNN has no op for aten.masked_scatter.default" in out
    code, out, err = here("run", str(pte), "--inputs", "random:1")
    assert code == 0, err
    assert "output0  FLOAT_32 [4, 3]" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compile", GUIDE, "--soc", "SM8650", "-o", "m.pte", "--saver", "d"], "are not for a .pte"),
        (
            ["compile", GUIDE, "--soc", "SM8650", "-o", "m.pte", "--quantize", "9a9w", "--data", "random"],
            "one of 8a8w, 16a8w",
        ),
        (["compile", GUIDE, "--backend", "CPU", "-o", "m.pte"], "compiled for HTP, not CPU"),
        (["run", "no_such.pte"], "No such file"),
        (["run", "{text}"], "not an ExecuTorch program"),
        (["run", "{text}", "--profile", "basic"], "not for .pte"),
    ],
)
def test_bad_use_gives_one_error(
    here: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.pte").write_text("this is no flatbuffer")
    code, _, err = here(*(a.replace("{text}", "text.pte") for a in arguments))
    assert code == 2
    assert words in err and "Traceback" not in err
    assert not (tmp_path / "m.pte").exists()


def test_register_prints_lines_that_work(here: Call) -> None:
    code, out, _ = here("executorch", "register", "--json")
    assert code == 0
    assert json.loads(out)["lines"] == [
        "import opdb.plugins.executorch",
        "opdb.plugins.executorch.register()",
    ]
