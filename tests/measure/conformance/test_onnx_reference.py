"""ONNX's reference beside PyTorch on every case: they agree, or the list gives the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fnmatch import fnmatchcase

import numpy as np
import pytest

from opdb.catalog.store import ResultRecord, Store
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import MissingExtra
from opdb.core.op_config import Quant, TensorConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import Case, CaseSet
from opdb.measure.conformance.executors import EXECUTORS
from opdb.measure.conformance.executors.base import NoOracle
from opdb.measure.conformance.executors.onnx_differences import DIFFERENCES
from opdb.measure.conformance.judge import outcome, seen
from opdb.measure.conformance.lanes import Judge, Lane
from opdb.measure.conformance.run import run
from opdb.spec.catalog import Catalog

pytest.importorskip("torch")
pytest.importorskip("onnx")
from opdb.measure.conformance.executors import onnx_reference
from opdb.measure.conformance.executors.onnx_nodes import node

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.by_op]
Cases = Callable[[str], CaseSet]

#: Samples that are compared in no case, and why.
NEAREST, BLOCKS, AMOUNTS = "the nearest of two pixels", "blocks that are no squares", "two numbers of samples"
UNCOMPARED = {
    "CropAndResize": {"sample1": NEAREST},
    "DepthToSpace": {"sample1": BLOCKS},
    "Lrn": dict.fromkeys(("sample0", "sample2"), DIFFERENCES["Lrn-*"])
    | dict.fromkeys(("sample1", "sample3"), "a region"),
    "Lstm": dict.fromkeys(("sample1", "sample2", "sample4"), "a projection") | {"sample5": "layer norms"},
    "Pad": {"sample2": "mirrored with its border"},
    "RoiAlign": dict.fromkeys(("sample0", "sample2"), AMOUNTS),
    "SpaceToDepth": {"sample1": "CRD"},
} | {f"TransposeConv{d}d": {"sample1": "groups"} for d in (1, 2, 3)}


def results(catalog: Catalog, cases: list[Case]) -> list[ResultRecord]:
    executor = onnx_reference.OnnxExecutor()
    lane = Lane(executor, executor.record(), [])
    return [Judge(catalog).ask(lane, c) for c in cases if executor.takes(c)]


def test_onnx_agrees_with_pytorch(op: str, catalog: Catalog, case_set: Cases) -> None:
    if op not in onnx_reference.OPS:
        return
    answered = results(catalog, list(case_set(op).cases))
    wrong = [
        f"{r.case.name}: {outcome(seen(r))[1]}: {r.detail}" for r in answered if outcome(seen(r))[0] == "fail"
    ]
    assert not wrong, "\n".join(wrong)
    compared = {r.case.name.split("-")[1] for r in answered if r.matches == "yes"}
    samples = {f"sample{i}" for i in range(len(catalog.ops[op].samples))}
    assert samples - compared == set(UNCOMPARED.get(op, ()))


@pytest.mark.parametrize("pattern", DIFFERENCES)
def test_every_listed_difference_still_exists(pattern: str, catalog: Catalog, case_set: Cases) -> None:
    """A difference fixed in a newer ONNX must be removed from the list."""
    for op in (o for o in onnx_reference.OPS if fnmatchcase(o, pattern.split("-")[0])):
        of_pattern = [c for c in case_set(op).cases if fnmatchcase(c.id, pattern)]
        assert "known" in {outcome(seen(r))[0] for r in results(catalog, of_pattern)}, op


def test_a_wrong_counterpart_is_detected(
    catalog: Catalog, case_set: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(c for c in case_set("Softmax").cases if c.id == "Softmax-sample0-f32")
    for made, executes, reason in (
        (lambda c, x, p: [node("Softmax", x[0], axis=0)], "yes", "the numbers differ from PyTorch's"),
        (lambda c, x, p: [node("Softmax", x[0], axis=9)], "no", "ONNX's reference did not compute"),
    ):
        monkeypatch.setitem(onnx_reference.OPS, "Softmax", made)
        (result,) = results(catalog, [case])
        assert (result.executes, outcome(seen(result))) == (executes, ("fail", reason))


def test_cases_onnx_cannot_express_are_unknown_with_a_reason(catalog: Catalog, case_set: Cases) -> None:
    for op, reason in (("HadamardTransform", "ONNX has no counterpart of HadamardTransform"),
                       ("ElementWiseNot", "ONNX's Not takes no float64")):  # fmt: skip
        answered = results(catalog, [c for c in case_set(op).cases if c.runs])
        unsaid = [r for r in answered if r.executes == "unknown"]
        assert reason in {r.detail for r in unsaid}
        assert {(r.matches, outcome(seen(r))[0]) for r in unsaid} == {("not-applicable", "unknown")}


def test_an_operator_runs_in_its_widest_type() -> None:
    boxes, scores = np.zeros((1, 2, 4)), np.ones((1, 1, 2))
    kept = node("NonMaxSuppression", boxes, scores, np.array([1]), np.array([0.5]))  # takes only float32
    assert kept.tolist() == [[0, 0, 0]]
    assert node("Exp", np.array([1.0])).dtype == np.float64
    with pytest.raises(NoOracle, match="ONNX's Exp takes no int64"):
        node("Exp", np.array([1]))


def test_missing_onnx_names_the_executor(
    catalog: Catalog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, onnx_reference.__name__)
    with pytest.raises(
        MissingExtra, match=r"executor 'onnx.reference' needs is not installed; .*opdb\[onnx\]"
    ):
        EXECUTORS["onnx.reference"]("", catalog)
    summary = run(catalog, store, ["Relu"], ("python", "onnx.reference"), only=["Relu-sample0-f32"])
    assert (summary.results, len(summary.missing)) == (1, 1)


@pytest.mark.parametrize("dtype", [d.short for d in BY_SHORT.values() if d.numpy and d.short != "str"])
def test_stored_and_real_values_round_trip(dtype: str) -> None:
    quant = Quant("SCALE_OFFSET", (0.25,), (-3,)) if BY_SHORT[dtype].quantized else None
    tensor = TensorConfig("y", dtype, (5,), quant=quant)
    stored = data.stored(np.array([-1.0, 0.0, 0.5, 1.25, 3.0]), tensor)
    again = data.written(data.real(stored, tensor), tensor)
    assert again.dtype == stored.dtype and np.array_equal(again, stored)


def test_bfloat16_is_rounded_to_even() -> None:
    ulp = 2.0**-7
    tensor = TensorConfig("y", "bf16", (3,))
    written = data.written(np.array([1 + ulp / 2, 1 + 3 * ulp / 2, 1 + 0.51 * ulp]), tensor)
    assert data.real(written, tensor).tolist() == [1.0, 1 + 2 * ulp, 1 + ulp]
