"""The reproduction of an erratum as a graph with data, and PyTorch's results for it.

A record without a reproduction gets the first sample of its op that a validator accepts and that meets its condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.names import counted
from opdb.core.op_config import OpConfig, TensorConfig, from_json
from opdb.judge.samples import sample_config, slot_of
from opdb.judge.validate import check
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Array
from opdb.measure.conformance.expressions import reader
from opdb.measure.conformance.lanes import pytorch
from opdb.runtime.checks import Undecidable
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledErratum, CompiledOp, some_of_row
from opdb.spec.erratum import Erratum

#: The number of type combinations tried per type row, to find a sample that meets a condition.
COMBINATIONS = 8


@dataclass(frozen=True)
class Trial:
    """A graph, the data of its inputs, and the real values that its outputs should have."""

    graph: QnnGraph
    inputs: Mapping[str, Array]
    last: OpConfig  # the op whose outputs are compared
    expected: tuple[Array, ...]
    unknown: str = ""  # why the expected values are unknown


def reproduction(catalog: Catalog, erratum: Erratum, target: Target) -> tuple[OpConfig, ...]:
    """The ops of a record's reproduction, in the order of execution; () if there is none."""
    found = erratum.reproduction
    if found is not None:
        raw = [found.config] if found.config is not None else found.graph
        return tuple(from_json(_without_fill(each)) for each in raw)
    sample = next(_samples(catalog, erratum, target), None)
    return () if sample is None else (sample,)


def trial(catalog: Catalog, erratum: Erratum, configs: Sequence[OpConfig], ident: str, half: bool) -> Trial:
    """Builds the graph of ``configs`` with data.  ``ident`` seeds the random data; ``half``: floats are float16 values.

    Raises OpdbError for data that does not fit its tensor.
    """
    how = erratum.reproduction.inputs if erratum.reproduction is not None else {}
    written = {t.name for c in configs for t in c.outputs}
    read = {t.name for c in configs for t in c.inputs}
    graph = QnnGraph(erratum.erratum.replace("-", "_"))
    held: dict[str, Array] = {}
    unknown = ""
    results: Sequence[Array] = ()
    for number, config in enumerate(configs):
        named = with_slots(catalog.compiled(config.op), config)
        made_up = data.inputs(f"{ident}/{number}" if number else ident, named, half)
        for tensor, array in zip(config.inputs, made_up, strict=True):
            if tensor.type != "NULL" and tensor.name not in held:
                held[tensor.name] = _filled(erratum.erratum, tensor, how.get(tensor.name, "random"), array)
        arrays = [None if t.type == "NULL" else held[t.name] for t in config.inputs]
        computed = _computed(named, arrays)
        if isinstance(computed, str):
            unknown, computed = computed, []
        results = computed
        for tensor, value in zip(config.outputs, results, strict=False):
            held[tensor.name] = data.written(value, tensor)
        _add(graph, config, number, held, written, read)
        if unknown:
            results = ()
    inputs = {t.name: held[_original(t.name, held)] for t in graph.inputs}
    return Trial(graph, inputs, configs[-1], tuple(results), unknown)


def _computed(config: OpConfig, arrays: Sequence[Array | None]) -> Sequence[Array] | str:
    """PyTorch's results; or a text if it fails, e.g. for a bias of another size, which a library should refuse."""
    try:
        return pytorch(config, arrays)
    except (RuntimeError, TypeError) as error:
        return f"PyTorch does not compute it: {str(error).splitlines()[0]}"


def hits(compiled: CompiledOp, found: CompiledErratum, config: OpConfig, target: Target) -> bool:
    """True if a config meets the condition of a record, whatever its scope is."""
    nodes = {"unless": found.rule.require}
    if found.rule.when is not None:
        nodes["when"] = found.rule.when
    try:
        value = reader(compiled, nodes)(config, target.context())
    except Undecidable:
        return False
    return value.get("when", True) is True and value["unless"] is False


def with_slots(compiled: CompiledOp, config: OpConfig) -> OpConfig:
    """The config with its inputs named by slots; tensors of a graph have other names."""
    known = {s.name for s in compiled.inputs}
    if all(slot_of(t) in known for t in config.inputs):
        return config
    names: list[str] = []
    for i, slot in enumerate(compiled.inputs):
        if not slot.variadic:
            names.append(slot.name)
            continue
        others = len(compiled.inputs) - i - 1
        names += [f"{slot.name}[{k}]" for k in range(len(config.inputs) - len(names) - others)]
    inputs = tuple(replace(t, name=n) for t, n in zip(config.inputs, names, strict=False))
    return replace(config, inputs=inputs)


def _samples(catalog: Catalog, erratum: Erratum, target: Target) -> Iterator[OpConfig]:
    if erratum.op is None or erratum.backend not in catalog.ops[erratum.op].backends:
        return
    compiled = catalog.compiled(erratum.op)
    found = next((e for e in compiled.errata.get(erratum.backend, ()) if e.id == erratum.erratum), None)
    if found is None:
        return
    for row in compiled.type_rows[erratum.backend]:
        for types in some_of_row(row, COMBINATIONS):
            for number in range(len(compiled.definition.samples)):
                config = sample_config(compiled, number, types)
                if check(config, target).verdict == "accept" and hits(compiled, found, config, target):
                    yield config


def _without_fill(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """An op config in the form that ``opdb validate`` reads."""
    return {k: v for k, v in raw.items() if k != "id"}


def _filled(record: str, tensor: TensorConfig, how: Any, made_up: Array | None) -> Array:
    """The data of one tensor, as stored: from the config, real values from the record, or random ones."""
    kind = BY_SHORT[tensor.dtype].numpy
    if tensor.data is not None:
        return np.asarray(tensor.data, dtype=kind).reshape(tensor.shape)
    if how == "random":
        assert made_up is not None
        return made_up
    size = int(np.prod(tensor.shape))
    values = np.arange(size) if how == "arange" else np.asarray(how, dtype=np.float64).reshape(-1)
    if values.size not in (1, size):
        raise OpdbError(
            f"{record}: reproduction.inputs.{tensor.name} has {counted(values.size, 'value')}; its shape "
            f"{list(tensor.shape)} needs {size}, or one that all elements have"
        )
    return data.written(np.broadcast_to(values, size).reshape(tensor.shape), tensor)


def _plain(name: str) -> str:
    """A name that every library accepts; e.g. xs[1] -> xs_1_."""
    return re.sub(r"\W", "_", name)


def _original(plain: str, held: Mapping[str, Array]) -> str:
    return next(n for n in held if _plain(n) == plain)


def _add(
    graph: QnnGraph,
    config: OpConfig,
    number: int,
    held: Mapping[str, Array],
    written: set[str],
    read: set[str],
) -> None:
    """Adds one op and its new tensors."""
    for t in (*config.inputs, *config.outputs):
        name = _plain(t.name)
        if t.type == "NULL" or name in graph.tensors:
            continue
        if t.type == "STATIC":
            kind = "STATIC"
        elif t.name in written:
            kind = "NATIVE" if t.name in read else "APP_READ"
        else:
            kind = "APP_WRITE"
        values = held[t.name] if kind == "STATIC" else None
        graph.tensors[name] = GraphTensor(name, t.dtype, t.shape, kind, values, t.quant, t.sparse)
    inputs = tuple(None if t.type == "NULL" else _plain(t.name) for t in config.inputs)
    outputs = tuple(_plain(t.name) for t in config.outputs)
    graph.ops.append(GraphOp(f"op{number}", config.op, inputs, config.params, outputs, config.package))
