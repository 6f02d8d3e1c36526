"""The files of natural_mistakes.txt: models, data and others that people give to commands by mistake."""

from __future__ import annotations

from pathlib import Path

MODEL = """\
import torch


def make():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), (torch.zeros(2, 8),)


def other():
    return torch.nn.Linear(8, 8), (torch.zeros(2, 5),)


def module():
    return torch.nn.ReLU()


def boom():
    return {}["weights"]
"""
#: File -> its text.
TEXTS = {
    "model.py": MODEL,
    "syntax.py": "def make(:\n",
    "needs.py": "import nosuchlib\n\n\ndef make(): ...\n",
    "package/__init__.py": "import package.deep\n",
    "package/deep.py": "def load():\n    return 1 / 0\n\n\nload()\n",
    "pointer.onnx": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
    "empty.onnx": "",
    "empty.pt2": "",
    "empty.tflite": "",
    "broken.json": '{"op": "Relu",}\n',
    "relu.json": '{"op": "Relu", "inputs": [{"dtype": "FLOAT_32", "shape": [1, 8]}], '
    '"outputs": [{"dtype": "FLOAT_32", "shape": [1, 8]}]}\n',
    "recipe.yaml": "base: 8a8w\nactivation: {bits: 8}\n",
}


def write_files(folder: Path) -> None:
    """Writes the files of all mistakes."""
    import numpy as np
    import onnx
    import torch
    from onnx import TensorProto, helper

    for name, text in TEXTS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    linear = torch.nn.Linear(8, 8)
    torch.save(linear.state_dict(), folder / "weights.pt")
    torch.save(linear.state_dict(), folder / "weights.pt2")
    torch.jit.trace(linear, torch.zeros(2, 8)).save(str(folder / "script.pt"))
    np.save(folder / "x.npy", np.zeros((1, 4), np.float32))
    np.savez(folder / "wrong.npz", x=np.zeros((3, 9, 9), np.float32))
    for name, nodes, shape in (("relu", 1, [1, 4]), ("open", 1, ["N", 4]), ("hollow", 0, [1, 4])):
        ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])] * nodes, "g", ends[:1], ends[1:])
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
            str(folder / f"{name}.onnx"),
        )
    (folder / "cut.onnx").write_bytes((folder / "relu.onnx").read_bytes()[:60])
