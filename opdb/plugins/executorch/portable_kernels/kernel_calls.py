"""Calls that test the kernels of a library: inputs from the samples of the specs, expected results from PyTorch.

An out variant of ATen is called as PyTorch's operator, in double precision if the inputs are floats; an op of QNN uses
the conformance suite's oracle.  The mapping's conditions, the op's rules, and the C kernel's data types decide
whether a kernel should accept a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from opdb.catalog.facts.signature import read_signature, torch_schema
from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.generated import validators
from opdb.generated.builders import TARGETS
from opdb.generated.torch_ops import SCHEMAS
from opdb.judge.samples import kernel_types, sample_config, slot_of
from opdb.judge.validate import check
from opdb.measure.conformance import data, tolerance
from opdb.measure.conformance.torch_calls import operator, sample_calls, works
from opdb.plugins.executorch.codegen.glue import KernelForm, OutVariant
from opdb.plugins.executorch.codegen.gtests import (
    BY_SHORT_NAME,
    DtypeValue,
    HeldTensor,
    KernelCall,
    KernelTests,
)
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.programs.torch_ops.call import TORCH
from opdb.runtime import native
from opdb.runtime.checks import Undecidable
from opdb.runtime.tensors import Rejection, TensorRef
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

#: The number of calls per data type that test a kernel.
CALLS = 3
EQUAL = (0.0, 0.0)
SHORT = {dtype: short for short, dtype in TORCH.items()}
#: The significant bits of a float type without the implicit one.
BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 23}


def tests_of(
    kernels: Kernels, variant: OutVariant, forms: Sequence[KernelForm], held: Mapping[str, frozenset[str]]
) -> KernelTests:
    """The tests of one kernel; none for an op without a generated validator (a spec outside of opdb).

    ``held``: QNN op -> data types in the library's C kernel; empty: all that it supports.
    """
    if any(validators.module(f.op) is None for f in forms):
        return KernelTests(())
    every: list[KernelCall] = []
    for dtype in BY_SHORT_NAME:
        with torch.random.fork_rng(devices=[]):
            if variant.name.startswith("aten::"):
                calls = list(_aten_calls(kernels, variant, forms, dtype, held))
            else:
                calls = list(_own_calls(kernels.catalog, variant, forms[0].op, dtype, held))
        taken = [c for c in calls if c.taken]
        every += ([c for c in taken if c.held] or taken)[:CALLS] or calls[:1]
    return KernelTests(tuple(every))


def _first(config: OpConfig) -> str:
    """The data type that selects a C kernel."""
    return next((t.dtype for t in config.inputs if t.type != "NULL"), "")


def _held(config: OpConfig, held: Mapping[str, frozenset[str]]) -> bool:
    return not held[config.op] or _first(config) in held[config.op]


def _takes(catalog: Catalog, config: OpConfig) -> bool:
    """True if the rules accept a call, and the C kernel supports its data type.

    A kernel of several functions may lack some of them in a type, which no spec says: so the kernel is run.
    """
    kernel = catalog.ops[config.op].kernel
    if kernel is None or _first(config) not in kernel.dtypes:
        return False
    if check(config, Target(None, None)).verdict != "accept":
        return False
    try:
        native.run(config, data.inputs("asked", config))
    except native.KernelError as error:
        return error.status != "unsupported"
    return True


def _bounds(
    catalog: Catalog, config: OpConfig, outs: Sequence[HeldTensor]
) -> tuple[tuple[float, float], ...]:
    """The relative and absolute bound of each result, as in opdb.measure.conformance.tolerance."""
    stated = tolerance.bounds(catalog, config).get(
        "f32", tolerance.Bounds(tolerance.DEFAULT_ULP, tolerance.DEFAULT_ABS)
    )
    found = []
    for out in outs:
        if out.dtype not in BITS or (stated.ulp, stated.absolute) == (0, 0):
            found.append(EQUAL)
        elif out.dtype in ("f16", "bf16"):
            largest = max((abs(v) for v in out.values if np.isfinite(v)), default=0.0)
            unit = 2.0 ** -BITS[out.dtype]
            found.append((tolerance.HALF_ULP * 2.0**-10 + unit, tolerance.HALF_OF_LARGEST * largest))
        else:
            found.append((stated.ulp * 2.0 ** -BITS[out.dtype], stated.absolute))
    return tuple(found)


# -- operators of ATen


@dataclass
class _CallView:
    """A call of an operator and its results (the ``NodeView`` of opdb.runtime.forms)."""

    target: str
    arguments: Mapping[str, Any]
    made: Sequence[torch.Tensor]
    name: str = "call"

    def arg(self, name: str) -> Any:
        value = self.arguments[name]
        if isinstance(value, torch.Tensor):
            return _ref(value, (name, None))
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return [_ref(v, (name, i)) for i, v in enumerate(value)]
        if isinstance(value, torch.dtype):
            return SHORT.get(value, str(value))
        kind = next(a.type for a in torch_schema(self.target).arguments if a.name == name)
        return float(value) if kind.startswith(("Scalar", "float")) and isinstance(value, int) else value

    def result(self, index: int) -> TensorRef:
        return self.results()[index]

    def results(self) -> Sequence[TensorRef]:
        refs = [_ref(t, None) for t in self.made]
        return [replace(r, shape=r.shape or (1,), base_shape=r.shape or (1,)) for r in refs]

    def result_used(self, index: int) -> bool:
        return True


def _ref(tensor: torch.Tensor, key: tuple[str, int | None] | None) -> TensorRef:
    shape = tuple(tensor.shape)
    return TensorRef(shape, SHORT.get(tensor.dtype, str(tensor.dtype)), key=key, base_shape=shape)


def _aten_calls(
    kernels: Kernels,
    variant: OutVariant,
    forms: Sequence[KernelForm],
    dtype: str,
    held: Mapping[str, frozenset[str]],
) -> Iterator[KernelCall]:
    called = operator(variant.target)
    schema = torch_schema(variant.target)
    for mapping in kernels.mappings(variant.target, forms):
        given = sample_calls(mapping, schema, TORCH[dtype])
        indices = _wide(sample_calls(mapping, schema))
        for number, arguments in enumerate([*given, *_narrowed(given, called, indices)]):
            found = _lowered(kernels.catalog, variant, forms, arguments, called)
            if found is None:
                made = _results(called, arguments)
                if all(t.dtype in SHORT for t in made):
                    outs = tuple(map(_tensor, made))
                    yield KernelCall(dtype, _shown(arguments), outs, (EQUAL,) * len(outs), taken=False)
                continue
            config, refs = found
            arguments = _valued(f"{variant.name}-{mapping.op.name}-{dtype}-{number}", config, refs, arguments)
            outs = tuple(_tensor(t) for t in _results(called, arguments))
            bounds = _bounds(kernels.catalog, config, outs)
            yield KernelCall(dtype, _shown(arguments), outs, bounds, True, _held(config, held))


def _wide(given: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names of arguments that are tensors of 64-bit integers."""
    return {n for c in given for n, v in c.items() if isinstance(v, torch.Tensor) and v.dtype == torch.int64}


def _narrowed(given: Sequence[dict[str, Any]], called: Any, indices: set[str]) -> Iterator[dict[str, Any]]:
    """The calls with 32-bit instead of 64-bit indices, if PyTorch accepts them."""
    for arguments in given if indices else ():
        narrow = arguments | {n: arguments[n].to(torch.int32) for n in indices}
        if works(called, narrow):
            yield narrow


def _lowered(
    catalog: Catalog,
    variant: OutVariant,
    forms: Sequence[KernelForm],
    arguments: Mapping[str, Any],
    called: Any,
) -> tuple[OpConfig, Sequence[TensorRef | None]] | None:
    """The config of the first form that builds for a call, and the op's inputs; None if its rules refuse it."""
    view = _CallView(variant.target, arguments, _several(called(**arguments)))
    known = {f.name: f for f in TARGETS.get(variant.target, ())}
    for form in forms:
        if form.op not in known:
            return None
        try:
            (op,) = known[form.op].build(view).ops
        except (Rejection, Undecidable):
            continue
        return (op.config(), op.inputs) if _takes(catalog, op.config()) else None
    return None


def _valued(
    case: str, config: OpConfig, refs: Sequence[TensorRef | None], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments with values that are meaningful to the op."""
    found = dict(arguments)
    for ref, array in zip(refs, data.inputs(case, config), strict=True):
        if ref is None or ref.key is None or array is None:
            continue
        key: Any = ref.key
        name, place = key
        if place is None:
            found[name] = _torch_tensor(array, ref)
        else:
            found[name] = [*found[name][:place], _torch_tensor(array, ref), *found[name][place + 1 :]]
    return found


def _torch_tensor(array: data.Array, ref: TensorRef) -> torch.Tensor:
    made = torch.from_numpy(np.ascontiguousarray(array)).reshape(ref.base_shape)
    return made.view(torch.bfloat16) if ref.dtype == "bf16" else made.to(TORCH[ref.dtype])


def _results(called: Any, arguments: Mapping[str, Any]) -> list[torch.Tensor]:
    """PyTorch's results; floats are computed in double precision and rounded once, if PyTorch can."""
    plain = _several(called(**arguments))
    try:
        precise = _several(called(**{n: _double(v) for n, v in arguments.items()}))
    except RuntimeError:
        return plain
    return [p.to(t.dtype) if t.is_floating_point() else t for p, t in zip(precise, plain, strict=True)]


def _several(made: Any) -> list[torch.Tensor]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return [_double(v) for v in value] if isinstance(value, (list, tuple)) else value


def _shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments in the form of generated tests."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _tensor(value)
        if isinstance(value, (list, tuple)):
            return [one(v) for v in value]
        return DtypeValue(SHORT[value]) if isinstance(value, torch.dtype) else value

    return {name: one(value) for name, value in arguments.items()}


def _tensor(tensor: torch.Tensor) -> HeldTensor:
    return HeldTensor(SHORT[tensor.dtype], tuple(tensor.shape), tuple(tensor.flatten().tolist()))


# -- ops of QNN


def _own_calls(
    catalog: Catalog, variant: OutVariant, name: str, dtype: str, held: Mapping[str, frozenset[str]]
) -> Iterator[KernelCall]:
    from opdb.measure.conformance.executors.base import NoOracle
    from opdb.measure.conformance.executors.torch_oracle import compute

    op = catalog.compiled(name)
    # The runtime's tensors have no encodings.
    types = {s: dtype if BY_SHORT[t].quantized else t for s, t in kernel_types(op, dtype).items()}
    for sample in range(len(op.definition.samples)):
        try:
            config = sample_config(op, sample, types)
        except OpdbError:
            continue
        inputs = data.inputs(f"{variant.name}-{dtype}-{sample}", config)
        arguments = _own_arguments(variant, op, config, inputs)
        if not _takes(catalog, config):
            outs = tuple(HeldTensor(t.dtype, t.shape, (0,) * int(np.prod(t.shape))) for t in config.outputs)
            yield KernelCall(dtype, arguments, outs, (EQUAL,) * len(outs), taken=False)
            continue
        try:
            wanted = compute(config, inputs)
        except NoOracle:
            continue
        outs = tuple(_wanted(t, w) for t, w in zip(config.outputs, wanted, strict=True))
        yield KernelCall(dtype, arguments, outs, _bounds(catalog, config, outs), True, _held(config, held))


def _wanted(tensor: TensorConfig, real: data.Array) -> HeldTensor:
    made = torch.from_numpy(np.ascontiguousarray(real)).to(TORCH[tensor.dtype])
    return HeldTensor(tensor.dtype, tensor.shape, tuple(made.flatten().tolist()))


def _own_arguments(
    variant: OutVariant, op: CompiledOp, config: OpConfig, inputs: Sequence[data.Array | None]
) -> dict[str, Any]:
    """The arguments of an op's torch operator, by name."""
    schema = read_signature(variant.target, SCHEMAS[op.name])
    found: dict[str, Any] = {a.name: a.default if a.has_default else None for a in schema.arguments}
    enums = {
        p.name: {number: name for name, number in p.definition.enum.items()}
        for p in op.params
        if p.definition.enum
    }
    for param in config.params:
        value: Any = list(param.value) if param.shape is not None else param.value
        found[param.name] = enums[param.name][value] if param.name in enums else value
    listed: dict[str, list[HeldTensor]] = {}
    for config_, array in zip(config.inputs, inputs, strict=True):
        if array is not None:
            listed.setdefault(slot_of(config_), []).append(_stored(config_, array))
    variadic = {s.name for s in op.inputs if s.variadic}
    return found | {slot: held if slot in variadic else held[0] for slot, held in listed.items()}


def _stored(config: TensorConfig, array: data.Array) -> HeldTensor:
    return HeldTensor(config.dtype, config.shape, tuple(data.real(array, config).flatten().tolist()))
