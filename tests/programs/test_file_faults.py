"""Files that are no model are refused in one line with the cure, whatever their name ends with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opdb.core.errors import OpdbError
from opdb.programs.load import load_model, load_program

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n"
TWO = "def make():\n    pass\ndef other(size=1):\n    pass\ndef helper(x):\n    pass\n"


@pytest.mark.parametrize("load", [load_model, load_program])
@pytest.mark.parametrize("suffix", ["onnx", "pt2", "pt", "tflite"])
@pytest.mark.parametrize(
    ("content", "message"), [("", "the file is empty"), (LFS, "a Git LFS pointer, .* 'git lfs pull'")]
)
def test_empty_files_and_pointers_are_refused(
    load: object, suffix: str, content: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / f"model.{suffix}"
    file.write_text(content)
    with pytest.raises(OpdbError, match=rf"model\.{suffix}: {message}"):
        load(str(file))  # type: ignore[operator]


@pytest.mark.parametrize("suffix", ["pt", "pt2"])
def test_a_checkpoint_is_refused(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"state.{suffix}"
    torch.save({"weight": torch.zeros(2)}, file)
    with pytest.raises(OpdbError, match=r"a checkpoint of torch\.save .* give FILE\.py:FUNCTION"):
        load_program(str(file))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (TWO, r"give .*model\.py:make \(or other\)$"),
        ("x = 1\n", r"add a function that returns \(module, example inputs\)"),
        ("def (", r"give a function of it .* e\.g\. .*model\.py:make"),
    ],
)
def test_a_python_file_needs_a_function(text: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(text)
    with pytest.raises(OpdbError, match=hint):
        load_model(str(file))


def test_an_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(OpdbError, match=r"x\.npy: an array of NumPy, not a model"):
        load_model(str(tmp_path / "x.npy"))


def test_an_onnx_model_without_nodes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.onnx").write_bytes(b"\x08\x08")
    with pytest.raises(OpdbError, match=r"none\.onnx: the ONNX model has no nodes"):
        load_program(str(tmp_path / "none.onnx"))


def test_a_saved_program_is_loaded(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
    torch.export.save(program, tmp_path / "relu.pt2")
    assert load_program(str(tmp_path / "relu.pt2")).graph_signature == program.graph_signature
