"""Handwritten kernels: the samples of their op, in every supported data type, against PyTorch.

Outputs are compared within the op's tolerance, as in the conformance suite; edge shapes and values missing in the
samples are in test_kernels.
"""

from __future__ import annotations

import pytest

from opdb.judge.samples import kernel_configs
from opdb.measure.conformance import data, tolerance
from opdb.measure.conformance.executors.base import NoOracle
from opdb.measure.conformance.executors.torch_oracle import compute
from opdb.runtime import native

from ...repository_specs import repository_catalog

pytestmark = pytest.mark.native

CATALOG = repository_catalog()
KERNELS = [n for n, op in CATALOG.ops.items() if op.kernel is not None and op.kernel.each is None]


@pytest.mark.parametrize("op", KERNELS)
def test_samples_match_pytorch(op: str) -> None:
    compared, wrong = 0, []
    for i, config in enumerate(kernel_configs(CATALOG.compiled(op))):
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
