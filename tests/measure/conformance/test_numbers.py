"""The kernels against PyTorch on every sample, and proofs that wrong numbers are detected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from opdb.catalog.store import ResultRecord
from opdb.core.op_config import OpConfig
from opdb.measure.conformance.cases import Case, CaseSet
from opdb.measure.conformance.executors.base import Answer, Array
from opdb.measure.conformance.executors.validators import CExecutor, PythonExecutor
from opdb.measure.conformance.judge import outcome, seen
from opdb.measure.conformance.lanes import Judge, Lane, pytorch
from opdb.spec.catalog import Catalog

pytest.importorskip("torch")
pytestmark = [pytest.mark.native, pytest.mark.torch, pytest.mark.slow, pytest.mark.by_op]
Cases = Callable[[str], CaseSet]


def ask(
    catalog: Catalog, case: Case, executor: CExecutor | PythonExecutor, judge: Judge | None = None
) -> ResultRecord:
    return (judge or Judge(catalog)).ask(Lane(executor, executor.record(), [case]), case)


def computed(catalog: Catalog, made: CaseSet) -> list[tuple[Case, ResultRecord]]:
    good = [c for c in made.cases if c.kind == "positive"]
    results = [(c, ask(catalog, c, CExecutor())) for c in good]
    return [(c, r) for c, r in results if r.executes == "yes"]


#: Samples without an answer from PyTorch.  Lstm: the documents give the output gate as many numbers as the output, which
#: is not the number of units if the output is projected; the last sample has normalized gates.
UNJUDGED = {"Lstm": {"sample1", "sample2", "sample4", "sample5"}}


def test_kernels_equal_pytorch_on_every_sample(op: str, catalog: Catalog, case_set: Cases) -> None:
    """Each sample and each value of an enum is compared with PyTorch in at least one case."""
    results = computed(catalog, case_set(op))
    if catalog.ops[op].kernel is None:
        assert not results
        return
    wrong = [f"{c.id}: {r.detail}" for c, r in results if r.matches not in ("yes", "unknown")]
    assert not wrong, "\n".join(wrong)
    matched = {c.id.split("-")[1] for c, r in results if r.matches == "yes"}
    assert {f"sample{i}" for i in range(len(catalog.ops[op].samples))} - UNJUDGED.get(op, set()) <= matched
    for name, param in catalog.ops[op].params.items():
        right = [{p.name: p.value for p in c.config.params} for c, r in results if r.matches == "yes"]
        given = {params.get(name, param.enum.get(param.default or "")) for params in right}
        assert given - {None} == set(param.enum.values()) or not param.enum, name


class Perturbed(CExecutor):
    """The kernels, with one element of the first output off by slightly more than allowed."""

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        answer = super().answer(case, inputs)
        if answer.outputs is None or not answer.outputs[0].size:
            return answer
        first = answer.outputs[0].copy()
        flat = first.reshape(-1)
        at = flat.size // 2
        dtype = case.config.outputs[0].dtype
        if first.dtype.kind == "f":
            more = 2e-3 if dtype == "f32" else 0.5
            flat[at] += first.dtype.type(more) * max(first.dtype.type(1), abs(flat[at]))
        elif first.dtype.kind == "b":
            flat[at] = not flat[at]
        else:  # quantized numbers may differ by some steps
            high = {"bf16": 14, "uq8": 6, "sq8": 6, "uq16": 14, "sq16": 14, "uq32": 30, "sq32": 30}
            flat[at] ^= 1 << high.get(dtype, 0)
        return replace(answer, outputs=(first, *answer.outputs[1:]))


def test_a_slightly_wrong_kernel_is_detected(op: str, catalog: Catalog, case_set: Cases) -> None:
    for case, right in computed(catalog, case_set(op)):
        if right.matches == "yes" and case.config.outputs[0].shape and np.prod(case.config.outputs[0].shape):
            result = ask(catalog, case, Perturbed())
            assert result.matches == "no", case.id
            assert "PyTorch" in result.detail
            assert outcome(seen(result))[0] == "fail"


def test_a_wrong_oracle_is_detected(catalog: Catalog, case_set: Cases) -> None:
    """The oracle is LayerNorm with the sample variance instead of the population variance."""
    import torch

    def biased(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array] | str:
        expected = pytorch(config, inputs)
        assert not isinstance(expected, str)
        n = int(
            np.prod([config.inputs[0].shape[a] for a in {p.name: p.value for p in config.params}["axes"]])
        )
        factor = torch.sqrt(torch.tensor((n - 1) / n)).item() if n > 1 else 1.0
        return [e * factor for e in expected]

    case = next(c for c in case_set("LayerNorm").cases if c.id == "LayerNorm-sample0-f32")
    assert ask(catalog, case, CExecutor()).matches == "yes"
    assert ask(catalog, case, CExecutor(), Judge(catalog, oracle=biased)).matches == "no"


def test_missed_and_invented_rules_are_detected(catalog: Catalog, case_set: Cases) -> None:
    made = case_set("LayerNorm").cases
    bad = next(c for c in made if c.id == "LayerNorm-C3-0")
    good = next(c for c in made if c.id == "LayerNorm-sample0-f32")
    missed = ask(catalog, replace(bad, config=good.config), PythonExecutor())
    assert outcome(seen(missed)) == ("fail", "missed LayerNorm.C3")
    invented = ask(catalog, replace(good, config=bad.config), PythonExecutor())
    assert outcome(seen(invented)) == ("fail", "unexpected LayerNorm.C3")
