"""Files of TensorFlow's converter (make_files.py) on the emulation of HTP, beside TensorFlow Lite's interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from opdb.catalog.targets.target import Target
from opdb.checks.file_names import with_names
from opdb.checks.graph import build_graph
from opdb.checks.notes import unsaid
from opdb.checks.report.plain import table
from opdb.checks.verdicts import read_and_check
from opdb.core.errors import OpdbError
from opdb.execute.compile.model import lowered
from opdb.execute.compile.model_io import Ends
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.passes import optimize
from opdb.programs.load import load_program
from opdb.programs.onnx.files import ends
from opdb.programs.tflite import model
from opdb.programs.tflite.operators import OPERATORS

pytestmark = [pytest.mark.torch, pytest.mark.vendor, pytest.mark.slow]
HTP = Target("HTP", "SM8650", execution="emulator")
FILES = Path(__file__).parent / "files"
#: Floats may be this part of the largest value off: HTP computes in fp16.
FLOATS = 1e-2
#: Tolerance of 8-bit results in steps, and of 16-bit results relative to the largest value: HTP rounds later than
#: TFLite, which rounds after every operator.
STEPS, PART = 1, 5e-3
#: File with more than one rounding -> allowed steps.
MORE_STEPS = {"attention": 3, "div": 2, "mobile_blocks": 3}
#: File -> the reason given by `check` for the operator that falls back to the CPU.
LEFT = {
    "mirror_pad_symmetric": "the mode SYMMETRIC",
    "reduce_prod": "the specs hold no rules of ReduceProd on HTP",
    "where": "WHERE is an operator that opdb does not read",
}
#: Operators for which HTP has no 8-bit row, or opdb's form has a part without one; `check` reports them.
IN_FLOATS = {
    "attention", "l2_normalize", "resize_bilinear", "reverse", "rsqrt", "squared_difference", "sum",
    "transpose_conv",
}  # fmt: skip
#: TFLite's own interpreter cannot run it.
NO_INTERPRETER = {"attention-16a8w": "SquaredDifference only supports"}


@pytest.fixture(scope="module")
def vendor() -> Any:
    with VendorWorker("HTP", HTP.soc) as worker:
        yield worker


def given(detail: dict[str, Any], seed: int) -> Any:
    rng, kind = np.random.default_rng(seed), detail["dtype"]
    if kind == np.float32:
        return rng.normal(size=detail["shape"]).astype(kind)
    ends = np.iinfo(kind)
    return rng.integers(ends.min // 2, ends.max // 2, size=detail["shape"]).astype(kind)


def interpreted(path: Path) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Inputs by name, and the results of TFLite's interpreter."""
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    inputs = {d["name"]: given(d, i) for i, d in enumerate(interpreter.get_input_details())}
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return inputs, [(d["name"], interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


def compiled(path: Path) -> tuple[Any, Any]:
    named = Ends(*ends(str(path)))
    coverage, graph = lowered(load_program(str(path)), HTP, "tflite", ends=named)
    return with_names(coverage, str(path)), graph


def messages(row: Any) -> list[str]:
    return [r["message"] if isinstance(r, dict) else r.message for r in row.reasons]


@pytest.mark.parametrize("path", sorted(FILES.glob("*.tflite")), ids=lambda p: p.stem)
def test_results_match_tensorflow_lite(path: Path, vendor: VendorWorker) -> None:
    coverage, graph = compiled(path)
    if path.stem in LEFT:
        (row,) = [r for r in coverage.rows if r.verdict != "supported"]
        assert any(LEFT[path.stem] in why for why in messages(row))
        return
    assert coverage.complete, [(r.line, messages(r)) for r in coverage.rows if r.verdict != "supported"]
    if path.stem in NO_INTERPRETER:
        with pytest.raises(RuntimeError, match=NO_INTERPRETER[path.stem]):
            interpreted(path)
        return
    inputs, wanted = interpreted(path)
    result = vendor.run(graph, {t.name: inputs[t.name] for t in graph.inputs})
    assert result.stage == "done", (result.node, result.log[-5:])
    for name, want in wanted:
        got = result.outputs[name]
        assert got.dtype == want.dtype and got.shape == want.shape
        off = float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max())
        span = float(np.abs(want.astype(np.float64)).max())
        if want.dtype == np.float32:
            assert off <= FLOATS * span, (off, span)
        elif want.dtype == np.int16:
            assert off <= max(STEPS, PART * span), (off, span)
        elif "8a8w" in path.stem:
            assert off <= MORE_STEPS.get(path.stem.partition("-")[0], STEPS), off
        else:
            assert off == 0


def test_rows_have_the_files_names_and_operators() -> None:
    coverage, _ = compiled(FILES / "mobile_blocks-8a8w.tflite")
    lines = [row.line for row in coverage.rows]
    assert all(re.match(r"mobile_blocks-8a8w\.tflite:\d+: [A-Z_0-9]+$", line) for line in lines)
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX"} <= {
        line.rpartition(": ")[2] for line in lines
    }
    assert all(row.module for row in coverage.rows)


def test_quantized_operators_use_floats_only_if_necessary() -> None:
    found = set()
    for path in sorted(FILES.glob("*-8a8w.tflite")):
        program, coverage = read_and_check(load_program(str(path)), HTP)
        assert list(unsaid(program, coverage)) == [], path.stem
        graph = optimize(build_graph(program, coverage.lowered, "tflite"), HTP).graph
        if any(t.dtype in ("f32", "f16") and t.data is None for t in graph.tensors.values()):
            found.add(path.stem.removesuffix("-8a8w"))
    assert found == IN_FLOATS


def test_an_unsupported_operator_is_a_row_with_its_reason() -> None:
    """The output in docs/guides/check.md."""
    coverage, _ = compiled(FILES / "mirror_pad_symmetric.tflite")
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "check.md").read_text()
    lines = [" ".join(line.split()) for line in table(coverage)]
    assert all(line in " ".join(guide.split()) for line in lines), lines


def test_neighbors_of_an_unsupported_operator_are_judged_as_usual(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is quantized, and its tensors are stored differently between its ends."""
    monkeypatch.delitem(OPERATORS, "MEAN")
    model._made.cache_clear()
    path = str(FILES / "mobile_blocks-8a8w.tflite")
    _, coverage = read_and_check(load_program(path), HTP)
    left = [row for row in with_names(coverage, path).rows if row.verdict != "supported"]
    model._made.cache_clear()
    assert left and {row.target for row in left} == {"tflite.MEAN"}


@pytest.mark.parametrize(
    ("size", "message"), [(4, "not a TensorFlow Lite file"), (300, "damaged or incomplete")]
)
def test_a_truncated_file_gives_one_message(tmp_path: Path, size: int, message: str) -> None:
    cut = tmp_path / "cut.tflite"
    cut.write_bytes((FILES / "conv.tflite").read_bytes()[:size])
    with pytest.raises(OpdbError, match=message):
        load_program(str(cut))
