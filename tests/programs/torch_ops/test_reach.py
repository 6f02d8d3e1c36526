"""Each QNN op as a torch operator: its form gives the op of the spec's samples, and HTP's rules accept one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.generated.torch_ops import SCHEMAS
from opdb.judge.samples import sample_config, slot_of
from opdb.lower.candidates import forms
from opdb.lower.violations import judge
from opdb.runtime.direct import targets
from opdb.runtime.tensors import TensorRef
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, some_of_row

#: An op that a library finalizes in no graph (CPU-0324, HTP-0405) is reached as far as rules go.
TARGETS = {
    "CPU": Target("CPU", sdk="2.47", errata="ignore"),
    "HTP": Target("HTP", "SM8650", "2.47", errata="ignore"),
}
#: Types that tensors of a torch program can have: torch's own data types, or with an encoding from a quantizer.
TYPES = frozenset(
    [
        "f32",
        "f16",
        "i32",
        "bool8",
        "u8",
        "i8",
        "i16",
        "u16",
        "u32",
        "uq8",
        "sq8",
        "uq16",
        "sq16",
        "sq32",
        "i64",
    ]
)
#: Ops on sparse tensors: the libraries of 2.47 run no graph with one (docs/architecture.md, Op configs).
OUT_OF_REACH = {"CreateSparse", "GetSparseIndices", "GetSparseValues", "SparseToDense"}


@dataclass
class ConfigView:
    """A call with the tensors and parameters of an op config (NodeView)."""

    op: CompiledOp
    config: OpConfig

    @property
    def target(self) -> str:
        return f"qnn.{self.op.name}.default"

    @property
    def name(self) -> str:
        return self.op.name

    def arg(self, name: str) -> Any:
        for slot in self.op.inputs:
            if slot.name == name:
                found = [_ref(t) for t in self.config.inputs if slot_of(t) == name and t.type != "NULL"]
                return found if slot.variadic else next(iter(found), None)
        param = next((p for p in self.config.params if p.name == name), None)
        if param is None:
            return None
        names = {number: text for text, number in self.op.definition.params[name].enum.items()}
        return names[param.value] if names else list(param.value) if param.shape else param.value

    def result(self, index: int) -> TensorRef:
        return self.results()[index]

    def results(self) -> Sequence[TensorRef]:
        return [_ref(t) for t in self.config.outputs]

    def result_used(self, index: int) -> bool:
        return True


def _ref(t: TensorConfig) -> TensorRef:
    shape, static = t.shape or (1,), t.type == "STATIC" or not t.shape  # a scalar is [1], and here a constant
    return TensorRef(shape, t.dtype, static, key=(t.name, 0), quant=t.quant, base_shape=shape)


def _configs(op: CompiledOp, backend: str) -> Iterator[tuple[OpConfig, Target]]:
    """Configs, each with the target whose SDK has its types."""
    for sample in range(len(op.definition.samples)):
        for row in op.type_rows.get(backend, ()):
            target = replace(TARGETS[backend], sdk=row.since or row.until or "2.47")
            for dtypes in some_of_row(row):
                if set(dtypes.values()) <= TYPES:
                    with suppress(OpdbError):
                        yield sample_config(op, sample, dtypes), target


def _accepted(op: CompiledOp, backend: str) -> OpConfig | None:
    """The first config whose form the backend's rules accept; checks that the form reproduces the config."""
    for config, target in _configs(op, backend):
        (form,) = forms(f"qnn.{op.name}.default")
        view = ConfigView(op, config)
        lowered = form.build(view)
        made = lowered.ops[0].config()
        assert _told(made) == _told(config), config
        if all(r.warning for r in judge(lowered, target)):
            return config
    return None


def _told(config: OpConfig) -> Any:
    def tensors(group: Sequence[TensorConfig]) -> list[Any]:
        return [(t.dtype, t.shape, t.quant) if t.type != "NULL" else None for t in group]

    params = sorted((p.name, p.dtype, p.value, p.shape) for p in config.params)
    return config.op, tensors(config.inputs), params, tensors(config.outputs)


def test_each_op_with_known_results_has_an_operator(
    catalog: Catalog,
) -> None:
    own = {name for name, op in catalog.ops.items() if op.package == "qti.aisw"}
    assert own - set(SCHEMAS) == {"If", "DistributeFpnProposals"}
    packed = {f"{op.package}.{name}.default" for name, op in catalog.ops.items() if op.package != "qti.aisw"}
    assert set(targets()) == {f"qnn.{op}.default" for op in SCHEMAS if op in own} | packed


@pytest.mark.parametrize("backend", TARGETS)
def test_each_op_of_a_backend_is_reached(backend: str, catalog: Catalog) -> None:
    ops = [catalog.compiled(name) for name in SCHEMAS if backend in catalog.ops[name].backends]
    missed = {op.name for op in ops if op.type_rows.get(backend) and _accepted(op, backend) is None}
    assert missed == OUT_OF_REACH
