"""One node saved as a separate model gets the same verdict for the same reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from every_module import Case, one_in
from modules import Function
from rejected import REJECTED

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Row
from opdb.checks.reproduce import module_and_inputs, source
from opdb.checks.verdicts import check_nodes, read_program
from opdb.core.errors import OpdbError
from opdb.programs.load import load_program
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

pytestmark = [pytest.mark.torch, pytest.mark.slow]
HTP = Target("HTP", "SM8650")
r = torch.randn


def told(row: Row, *names: str) -> Any:
    """A row without the names of its node, in its program and alone, and without locations."""
    reasons = json.dumps([row.reasons, row.warnings, row.nearest])
    for name in names:  # a name may be an English word, e.g. to
        reasons = reasons.replace(f" {name} ", " NODE ")
    return row.target, row.verdict, row.form, row.ops, reasons, row.flops, row.bytes


def again(program: Program, path: Path, name: str) -> Row:
    """The row of a node after saving it to a file and loading it."""
    path.write_text(source(program, name))
    rows = check_nodes(read_program(load_program(f"{path}:make")), HTP).rows
    (row,) = rows if len(rows) == 1 else [row for row in rows if row.target == target_of(program, name)]
    return row


def refused(program: Program, name: str) -> str:
    """Why a node cannot be saved; "" if it can."""
    try:
        source(program, name)
    except OpdbError as error:
        return str(error)
    return ""


def target_of(program: Program, name: str) -> str:
    return next(n.target for n in program.nodes if n.name == name)


@pytest.mark.parametrize("case", one_in(6))
def test_each_node_of_the_modules_is_judged_alike(case: Case, tmp_path: Path) -> None:
    program = read_program(export(case.build(), case.inputs()))
    for row in check_nodes(program, HTP).rows:
        if program.exported.range_constraints and "symbolic" in refused(program, row.node):
            continue  # sizes that values decide
        found = again(program, tmp_path / f"{row.node}.py", row.node)
        assert told(found, found.node, row.node) == told(row, found.node, row.node)


@pytest.mark.parametrize("name", REJECTED)
def test_each_rejected_node_is_rejected_for_the_same_reasons(name: str, tmp_path: Path) -> None:
    module, inputs = REJECTED[name][:2]
    program = read_program(
        export(module if isinstance(module, torch.nn.Module) else Function(module), inputs)
    )
    (row,) = check_nodes(program, HTP).rows
    found = again(program, tmp_path / "node.py", row.node)
    assert told(found, found.node, row.node) == told(row, found.node, row.node)


def test_unused_results_stay_unused(tmp_path: Path) -> None:
    program = read_program(export(Function(lambda x: torch.topk(x, 2)[1]), (r(3, 4),)))
    assert "return results[1]" in source(program, "topk")
    statistics = lambda x: torch.ops.aten.native_layer_norm.default(x, [4], None, None, 1e-3)[1]  # noqa: E731
    program = read_program(export(Function(statistics), (r(3, 4),)))
    row = again(program, tmp_path / "node.py", "native_layer_norm")
    assert "result 1 is used" in row.reasons[0]["message"]


def test_a_saved_program_contains_the_constants(tmp_path: Path) -> None:
    linear = torch.nn.Linear(40, 7)
    program = read_program(export(linear, (r(2, 40),)))
    module, inputs = module_and_inputs(program, "linear")
    torch.testing.assert_close(module(*inputs), linear(*inputs))


def test_unknown_nodes_and_symbolic_shapes_are_one_clear_error() -> None:
    program = read_program(export(torch.nn.Linear(4, 5), (r(2, 4),)))
    with pytest.raises(OpdbError, match="no node 'linaer' is judged; did you mean 'linear'"):
        source(program, "linaer")
    symbolic = torch.export.export(
        torch.nn.Linear(4, 5), (r(3, 4),), dynamic_shapes=({0: torch.export.Dim("b")},)
    )
    with pytest.raises(OpdbError, match="static shapes"):
        source(read_program(symbolic), "linear")
