"""Validators of specs without generated code: drafts, and the user's own ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from opdb.codegen import rules_python
from opdb.codegen.environment import render
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.judge.samples import with_sparse
from opdb.runtime.checks import Undecidable
from opdb.spec.definitions import CompiledOp
from opdb.spec.model import ParamDef


def validator_of(op: CompiledOp) -> Any:
    """The validator that would be generated for ``op``: SIGNATURE, DOCUMENTED, ``validate``, ``infer``."""
    module: dict[str, Any] = {}
    text = render("validator.py.j2", **rules_python.view(op))
    exec(compile(text, f"<validator of {op.name}>", "exec"), module)
    return SimpleNamespace(**module)


def valid(op: CompiledOp) -> Callable[[Mapping[str, Any]], bool]:
    """A judge of samples of ``op`` by its own rules; every tensor is float32 unless its slot fixes another type."""
    module = validator_of(op)

    def judge(sample: Mapping[str, Any]) -> bool:
        try:
            shapes = {s.name: sample[s.name] for s in op.outputs if s.name in sample}
            if any(s.name not in shapes and not s.optional for s in op.outputs):
                shapes = module.infer(config_of(op, sample, {})) | shapes
            violations = module.validate(config_of(op, sample, shapes))
        except (Undecidable, KeyError):
            return False
        return not [v for v in violations if not v.warning]

    return judge


def config_of(op: CompiledOp, sample: Mapping[str, Any], outputs: Mapping[str, Any]) -> OpConfig:
    """The op config of a sample, with the shapes of ``outputs``."""
    shapes = {**sample, **outputs}
    groups: list[tuple[TensorConfig, ...]] = []
    for slots in (op.inputs, op.outputs):
        tensors: list[TensorConfig] = []
        for slot in slots:
            dtype = slot.definition.dtype[0] if slot.definition.dtype else "f32"
            if slot.name not in shapes:
                if slot.optional:
                    tensors.append(TensorConfig(slot.name, dtype, (), "NULL"))
                continue
            each = shapes[slot.name] if slot.variadic else [shapes[slot.name]]
            kind = "STATIC" if slot.definition.static else "NATIVE"
            tensors += [TensorConfig(slot.name, dtype, tuple(s), kind) for s in each]
        groups.append(tuple(tensors))
    given = [_param(name, d, sample[name]) for name, d in op.definition.params.items() if name in sample]
    return with_sparse(op, OpConfig(op.name, groups[0], tuple(given), groups[1]))


def _param(name: str, d: ParamDef, value: Any) -> ParamConfig:
    if d.enum and isinstance(value, str):
        value = d.enum[value]
    if not d.dims:
        return ParamConfig(name, d.base, value)
    if len(d.dims) == 1:
        return ParamConfig(name, d.base, tuple(value), (len(value),))
    return ParamConfig(name, d.base, tuple(v for row in value for v in row), (len(value), len(value[0])))
