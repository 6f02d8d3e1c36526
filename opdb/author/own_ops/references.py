"""References for a user's own op: from ``each`` in its spec, from a Python file, or from a similar op."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opdb.author.own_ops.elements import evaluate
from opdb.codegen.rules import snake
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.op_config import OpConfig
from opdb.judge.samples import slot_of
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Array
from opdb.spec.definitions import CompiledOp
from opdb.spec.each import kind_of, parameters

#: Maps an op config and its stored inputs to the real values of its outputs: float64, int64, or bool.
Reference = Callable[[OpConfig, Sequence[Array | None]], list[Array]]


def of_elements(compiled: CompiledOp) -> Reference:
    """A reference that evaluates the spec's expression with numpy in float64."""

    def compute(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
        params = _params(compiled, config)
        chosen = ""
        kernel = compiled.definition.kernel
        if kernel is not None and kernel.by is not None:
            enum = compiled.definition.params[kernel.by].enum
            chosen = next(word for word, number in enum.items() if number == params[kernel.by])
        kind = kind_of(config.inputs[0].dtype)
        values = {n: a for n, a in _real(config, inputs).items() if a is not None}
        values |= {n: np.asarray(params[n]) for n in parameters(compiled.definition)}
        return [evaluate(compiled.each[chosen][kind], kind, values)]

    return compute


def of_file(path: Path, compiled: CompiledOp) -> Reference:
    """A reference from a Python file: its function with the op's name in snake case, or ``reference``.

    It is called with an array of real values (float64, int64, or bool) for each input, None for an omitted one,
    and the parameters by name, and returns an array, or one for each output.  Raises OpdbError without file or function.
    """
    try:
        found = runpy.run_path(str(path))
    except OSError as error:
        raise OpdbError(f"{path}: cannot read this reference: {error.strerror}") from None
    except Exception as error:  # anything that the file raises
        raise OpdbError(f"{path}: this reference cannot be loaded: {type(error).__name__}: {error}") from None
    own = snake(compiled.name)
    function = found.get(own) or found.get("reference")
    if not callable(function):
        raise OpdbError(f"{path}: no function {own}; a reference is 'def {own}(inputs..., **params)'")

    def compute(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
        try:
            made = function(*_real(config, inputs).values(), **_params(compiled, config))
        except Exception as error:  # anything that the function raises
            raise OpdbError(f"{path}: {function.__name__}: {type(error).__name__}: {error}") from None
        outputs = made if isinstance(made, tuple | list) else (made,)
        if len(outputs) != len(config.outputs):
            raise OpdbError(
                f"{path}: {function.__name__} returns {counted(len(outputs), 'array')}; "
                f"{compiled.name} has {counted(len(config.outputs), 'output')}"
            )
        return [np.asarray(o) for o in outputs]

    return compute


def of_op(like: CompiledOp, compiled: CompiledOp) -> Reference:
    """A reference that runs a similar opdb op in PyTorch; its slots and parameters correspond one to one."""
    from opdb.measure.conformance.executors.torch_oracle import compute as asked

    slots = {a.name: b.name for a, b in zip(compiled.slots, like.slots, strict=True)}
    params = {a.name: b.name for a, b in zip(compiled.params, like.params, strict=True)}

    def compute(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
        named = replace(
            config,
            op=like.name,
            package=like.definition.package,
            inputs=tuple(replace(t, name=t.name.replace(slot_of(t), slots[slot_of(t)], 1)) for t in config.inputs),
            outputs=tuple(replace(t, name=t.name.replace(slot_of(t), slots[slot_of(t)], 1)) for t in config.outputs),
            params=tuple(replace(p, name=params[p.name]) for p in config.params),
        )  # fmt: skip
        return asked(named, inputs)

    return compute


def _real(config: OpConfig, inputs: Sequence[Array | None]) -> dict[str, Array | None]:
    return {
        t.name: None if a is None else data.real(a, t) for a, t in zip(inputs, config.inputs, strict=True)
    }


def _params(compiled: CompiledOp, config: OpConfig) -> dict[str, Any]:
    """All parameters: numbers, lists, lists of rows; omitted ones have their defaults."""
    found: dict[str, Any] = {}
    for p in compiled.params:
        if p.default is not None and p.default.kind == "const":
            found[p.name] = p.default.value
    for given in config.params:
        value: Any = given.value
        if given.shape is not None:
            value = list(given.value)
            if len(given.shape) == 2:
                width = given.shape[1]
                value = [value[i : i + width] for i in range(0, len(value), width)]
        if given.dtype == "f32":  # rounded to float32, like a package passes it to a kernel
            value = np.float32(value).tolist()
        found[given.name] = value
    return found
