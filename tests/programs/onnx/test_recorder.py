"""Recorded programs equal those of torch.export: nodes, names, arguments, shapes and signatures."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnx_cases import cases, read

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.programs.load import load_program
from opdb.programs.onnx.recorder import RecordedProgram, Unrecordable, recorded
from opdb.programs.torch.composites import stays_whole
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch
SOME = 8  # every eighth of ONNX's cases; all of them are part of the breadth
ASSERTION = "aten._assert_tensor_metadata.default"  # torch.export writes one for each change of data types; it computes nothing
CASES = cases()


def lines(program: Any) -> list[str]:
    """The text of a program, a line for each node, and its signature."""

    def shown(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [shown(v) for v in value]
        return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value

    signature = program.graph_signature
    return [
        *(
            f"{n.op} {n.name} {n.target} {n.args} {n.kwargs} {shown(n.meta.get('val'))}"
            for n in program.graph.nodes
            if str(n.target) != ASSERTION
        ),
        *map(str, signature.input_specs),
        *map(str, signature.output_specs),
        str(sorted(program.state_dict)),
        str(sorted(program.constants)),
    ]


def whole(operator: Any) -> bool:
    return True


def unlike(chosen: list[Any]) -> tuple[dict[str, list[str]], list[str], int]:
    """Cases whose programs differ, those that cannot be recorded, and the number of equal ones."""
    differ, refused, equal = {}, [], 0
    for case in chosen:
        try:
            module, given = read(case)
        except OpdbError:
            continue
        try:
            made = lines(recorded(module, given, whole))
        except Unrecordable:
            refused.append(case.name)
            continue
        wanted = lines(export(module, given))
        if made == wanted:
            equal += 1
        else:
            differ[case.name] = sorted(set(made) ^ set(wanted))
    return differ, refused, equal


def test_every_eighth_onnx_case_equals_torch_exports_program() -> None:
    differ, _, equal = unlike(list(CASES[::SOME]))
    assert not differ
    assert equal > 170


@pytest.mark.breadth
def test_every_onnx_case_equals_torch_exports_program() -> None:
    differ, refused, equal = unlike(list(CASES))
    assert not differ
    assert equal >= 1490
    # Without inputs there is nothing to record; the last one changes a constant of its own.
    assert {r for r in refused if "empty_no_input" not in r} == {
        "test_constant", "test_resize_tf_crop_and_resize_extrapolation_value"
    }  # fmt: skip


def file(folder: Path, nodes: list[Any], shape: list[int], kind: int = TensorProto.FLOAT) -> str:
    """A file with a model from ``x`` to ``y``."""
    made = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return str(path)


def test_an_unmapped_composite_is_decomposed_by_pytorch() -> None:
    class Less(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.less(x, 1.0)

    def targets(whole: Any) -> list[str]:
        return [str(n.target) for n in recorded(Less(), (torch.ones(3),), whole).graph.nodes][1:-1]

    assert targets(whole) == ["aten.less.Scalar"]
    assert targets(partial(stays_whole, kept=())) == ["aten.lt.Scalar"]


def test_recorded_rows_are_the_same_and_keep_the_files_names(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("NonMaxSuppression", ["a", "a"], ["b"], name="left"),
        helper.make_node("Cast", ["b"], ["y"], to=1),
    ]
    path = file(tmp_path, nodes, [1, 4, 4])
    quick, slow = load_program(path, quick=True), load_program(path)
    assert isinstance(quick, RecordedProgram) and not isinstance(slow, RecordedProgram)
    htp = Target("HTP", "SM8650")
    seen = [
        [(r.node, r.target, r.verdict, r.module, r.ops, r.bytes, r.flops) for r in check_program(p, htp).rows]
        for p in (quick, slow)
    ]
    assert seen[0] == seen[1]
    assert [row[3] for row in seen[0]] == ["n0", "n1", "n2"]


def test_data_dependent_modules_are_left_to_torch_export() -> None:
    class Chosen(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    class Changed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu_()

    class Number(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.sum().item()

    for module in (Chosen(), Changed(), Number()):
        with pytest.raises(Unrecordable):
            recorded(module, (torch.ones(3),), whole)


def test_checking_a_file_imports_no_torchdynamo(tmp_path: Path) -> None:
    """It takes as long to import as PyTorch itself."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("w", TensorProto.FLOAT, [3, 2, 3, 3], [0.1] * 54),
            helper.make_tensor("s", TensorProto.FLOAT, [3], [1.0] * 3),
        ],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    code = (
        "import sys; from opdb.cli import main\n"
        f"sys.argv[1:] = ['check', {str(path)!r}, '--soc', 'SM8650']\n"
        "try: main()\n"
        "finally: print([m for m in ('torch', 'torch._dynamo', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "['torch']", done.stderr
    assert "All 4 nodes run on the NPU" in done.stdout
