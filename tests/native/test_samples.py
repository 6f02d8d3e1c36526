"""Kernels that are written by hand: the samples of their op, in every data type that they take, against PyTorch.

What is compared are outputs within the op's tolerance, as the conformance suite does; edge shapes and values that the
samples do not have are in test_kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.conformance import data, tolerance
from opdb.conformance.executors.base import NoOracle
from opdb.conformance.executors.torch_oracle import compute
from opdb.op_config import OpConfig
from opdb.runtime import native
from opdb.samples import kernel_types, sample_config
from opdb.store import read_catalog
from opdb.targets.target import Target
from opdb.validate import check

pytestmark = pytest.mark.native

CATALOG = read_catalog(Path(__file__).parents[2] / "specs")
KERNELS = [n for n, op in CATALOG.ops.items() if op.kernel is not None and op.kernel.each is None]
#: Slots whose types follow one another, not the first input.
TYPES = {"ElementWiseMux": {"candidates": "f16", "y": "f16"}}


def configs(op: str) -> list[OpConfig]:
    """The samples in the types of the kernel, as far as the op definition accepts them."""
    compiled = CATALOG.compiled(op)
    kernel = compiled.definition.kernel
    assert kernel is not None
    found = []
    for sample in range(len(compiled.definition.samples)):
        for dtype in kernel.dtypes:
            types = kernel_types(compiled, dtype) | TYPES.get(op, {})
            for output in ({}, {s.name: "f32" for s in compiled.outputs}):
                config = sample_config(compiled, sample, types | output)
                if check(config, Target(None, None)).verdict == "accept":
                    found.append(config)
                    break
    return found


@pytest.mark.parametrize("op", KERNELS)
def test_samples_are_what_pytorch_computes(op: str) -> None:
    compared, wrong = 0, []
    for i, config in enumerate(configs(op)):
        name = f"{op}-{i}-{'/'.join(t.dtype for t in config.inputs)}"
        inputs = data.inputs(name, config)
        try:
            want = compute(config, inputs)
        except NoOracle:
            continue
        got = native.run(config, inputs)
        found = tolerance.compare(config, want, got, tolerance.bounds(CATALOG, config))
        compared += 1
        if not found.matches:
            wrong.append(f"{name}: {found.detail}")
    assert compared, f"{op}: no sample was compared"
    assert not wrong, f"{len(wrong)} of {compared}\n" + "\n".join(wrong[:20])
