"""Loading models by name, and one clear error for each invalid name."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from opdb.core.errors import MissingExtra, OpdbError
from opdb.programs.load import load_model, load_program

pytestmark = pytest.mark.torch
SOURCE = """
import torch
from torch import nn

def good():
    return nn.Linear(3, 2), (torch.ones(1, 3),)

def one_tensor():
    return nn.Linear(3, 2), torch.ones(1, 3)

def no_inputs():
    return nn.Linear(3, 2)

def number():
    return 3, (torch.ones(1),)

def fails():
    raise ValueError("no weights here")

def does_not_export():
    class Data(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x
    return Data(), (torch.ones(1),)

value = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "some_models.py").write_text(SOURCE)
    (tmp_path / "broken_models.py").write_text("import a_module_that_is_nowhere\n")
    (tmp_path / "text.pt2").write_text("not a program")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("some_models", "broken_models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_a_module_or_callable_is_loaded(folder: Path) -> None:
    for name in ("good", "one_tensor"):
        module, inputs = load_model(f"some_models:{name}")
        assert module(*inputs).shape == (1, 2)
    assert [n.name for n in load_program("some_models:good").graph.nodes if n.op == "call_function"] == [
        "linear"
    ]


def test_a_pt2_file_is_loaded(folder: Path) -> None:
    module = nn.Linear(3, 2)
    torch.export.save(torch.export.export(module, (torch.ones(1, 3),)), folder / "linear.pt2")
    loaded, inputs = load_model("linear.pt2")
    torch.testing.assert_close(loaded(*inputs), module(torch.ones(1, 3)))
    assert len(load_program("linear.pt2").state_dict) == 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("missing.pt2", "missing.pt2: no such file"),
        ("text.pt2", "text.pt2: not a file of torch.export.save"),
        ("nothing", "nothing: not a model; give a .pt2, .onnx or .tflite file, or module:callable"),
        ("some_models:", "not a model"),
        ("no_such_module:f", "no_such_module: no such module on the path or in the current folder"),
        ("broken_models:f", "broken_models: it needs a_module_that_is_nowhere"),
        ("some_models:gone", "some_models: no callable 'gone'; it has good, one_tensor"),
        ("some_models:value", "some_models: no callable 'value'"),
        (
            "some_models:no_inputs",
            r"some_models:no_inputs\(\) must return \(torch.nn.Module, tuple of example inputs\), not Linear",
        ),
        ("some_models:number", "not a tuple of 2: .int, tuple."),
        (
            "some_models:fails",
            r"some_models:fails\(\) fails at .*some_models\.py:\d+: ValueError: no weights here",
        ),
    ],
)
def test_bad_names_give_one_clear_error(folder: Path, spec: str, message: str) -> None:
    with pytest.raises(OpdbError, match=message) as caught:
        load_model(spec)
    assert "\n" not in str(caught.value)


def test_a_failing_export_is_one_clear_error(folder: Path) -> None:
    with pytest.raises(OpdbError, match="some_models:does_not_export cannot be exported: ") as caught:
        load_program("some_models:does_not_export")
    assert "\n" not in str(caught.value)


def test_missing_torch_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importer = builtins.__import__

    def without_torch(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch":
            raise ImportError("No module named 'torch'")
        return importer(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(MissingExtra, match=r"pip install 'qnn-opdb\[torch\]'"):
        load_model("some_models:good")
