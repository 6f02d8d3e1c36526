"""Compiles models to files of Qualcomm's libraries, and runs these: ``opdb.compile``, ``opdb.quantize``, ``opdb.run``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.names import counted, plural
from opdb.execute.compile.build import Compiled, compile_to_file
from opdb.execute.compile.model import graph_name, lowered, precision_of
from opdb.programs.load import has_names
from opdb.programs.model import Model, program_of

Array = np.ndarray[Any, Any]


def compile(
    model: Model | QnnGraph,
    file: str | Path,
    target: Target,
    inputs: tuple[Any, ...] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    encodings: str | None = None,
    dtype: str = "f32",
    timeout: float = 600.0,
) -> Compiled:
    """Writes a context file that `opdb run`, ``opdb.run`` and QNN's runtime load; `opdb compile`.

    ``model``: as in ``opdb.check``, or the graph from ``opdb.quantize``.  ``timeout``: seconds for the library.

    Raises OpdbError if a node has no QNN op on ``target`` (with the reasons), and if the library refuses the graph.

    >>> import opdb, torch
    >>> target = opdb.Target("HTP", "SM8650", execution="emulator")
    >>> made = opdb.compile(torch.nn.Softmax(-1), "softmax.bin", target, (torch.randn(2, 8),))
    >>> made.size > 0
    True
    """
    from opdb.runtime.qnn.graph import GraphOptions

    if isinstance(model, QnnGraph):
        graph, record = model, {"model": model.name}
    else:
        coverage, graph = _graph(model, target, inputs, dims, encodings, dtype)
        record = _record(str(model) if isinstance(model, str | Path) else graph.name, coverage)
    options = GraphOptions(precision=precision_of([graph], target.backend))
    options.check(str(target.backend))
    made = compile_to_file(
        [graph], Path(file), str(target.backend), target.soc, options,
        metadata=record | {"execution": target.execution}, timeout=timeout,
    )  # fmt: skip
    if made.result.stage != "done":
        raise OpdbError(f"{file}: {target} refused the graph at {made.result.stage}: {made.result.explained}")
    return made


def quantize(
    model: Model,
    target: Target,
    data: Iterable[Mapping[str, Any]],
    inputs: tuple[Any, ...] | None = None,
    *,
    recipe: str = "8a8w",
    dims: Mapping[str, int] | None = None,
) -> QnnGraph:
    """Quantizes a float model to a graph for ``opdb.compile``; `opdb compile --quantize`.

    ``data``: samples, each an array for every input by its name, like those that the model will get.  ``recipe``: its name
    (`opdb recipe show`) or a .yaml file.

    Raises OpdbError if a node has no form on ``target``, and for samples that do not fit the inputs.

    >>> import numpy, opdb, torch
    >>> target = opdb.Target("HTP", "SM8650", execution="emulator")
    >>> data = [{"input": numpy.random.rand(2, 8).astype("f4")} for _ in range(4)]
    >>> graph = opdb.quantize(torch.nn.Softmax(-1), target, data, (torch.randn(2, 8),))
    >>> {tensor.dtype for tensor in graph.tensors.values()}
    {'uq8'}
    """
    from opdb.execute.compile.sources import sources_of
    from opdb.lower.quantize import quantize as quantized
    from opdb.lower.quantize.recipe import named

    coverage, graph = _graph(model, target, inputs, dims, None, "f32", to_quantize=True)
    return quantized(graph, data, target=target, recipe=named(recipe), sources=sources_of(coverage.rows))


def run(
    file: str | Path, inputs: Mapping[str, Any], *, graph: str | None = None, timeout: float = 600.0
) -> dict[str, Array]:
    """Runs a compiled graph on its library and returns its outputs by name, as real numbers; `opdb run`.

    ``inputs``: an array for each input by its name, real numbers if the input is quantized.  ``graph``: the name of one if the file has
    several.  On x86-64 Qualcomm's library emulates the chip.

    Raises OpdbError for an invalid file, an input that is missing or has another shape, and if the library fails.

    >>> import numpy, opdb, torch
    >>> target = opdb.Target("HTP", "SM8650", execution="emulator")
    >>> made = opdb.compile(torch.nn.Softmax(-1), "softmax.bin", target, (torch.randn(2, 8),))
    >>> outputs = opdb.run("softmax.bin", {"input": numpy.zeros((2, 8), "f4")})
    >>> [float(value.round(3).max()) for value in outputs.values()]
    [0.125]
    """
    from opdb.execute.compile.inputs import stored_inputs
    from opdb.execute.compile.states import recorded
    from opdb.execute.libraries.client import VendorWorker
    from opdb.runtime.qnn import context_file
    from opdb.runtime.qnn.real_numbers import to_real

    header = context_file.read(Path(file)).header
    name = graph or next(iter(header.graphs))
    if name not in header.graphs or (graph is None and len(header.graphs) > 1):
        raise OpdbError(f"{file}: name one of its graphs: {', '.join(header.graphs)}")
    ends = header.graphs[name]
    kept = {s.input: s.initial for s in recorded(header.metadata, name)}
    fed = kept | stored_inputs(inputs, [t.config for t in ends.inputs if t.config.name not in kept])
    with VendorWorker(header.backend, header.soc, soc_model=header.soc_model, timeout=timeout) as worker:
        loaded = worker.load(Path(file))
        if loaded.stage != "done":
            raise OpdbError(f"{file}: {header.backend} does not load it: {loaded.explained}")
        result = worker.execute(name, fed)
    if result.stage != "done":
        raise OpdbError(f"{file}: {header.backend} fails at {result.stage}: {result.explained}")
    return {t.config.name: to_real(t.config, result.outputs[t.config.name]) for t in ends.outputs}


def graph_of(
    model: Model,
    target: Target,
    inputs: tuple[Any, ...] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
) -> QnnGraph:
    """The optimized QNN graph of a model.  Raises OpdbError with the reasons if a node has no QNN op on ``target``."""
    return _graph(model, target, inputs, dims, None, "f32")[1]


def _graph(
    model: Model,
    target: Target,
    inputs: tuple[Any, ...] | None,
    dims: Mapping[str, int] | None,
    encodings: str | None,
    dtype: str,
    to_quantize: bool = False,
) -> tuple[Coverage, QnnGraph]:
    """The verdicts and the graph of a model.  Raises OpdbError with the reasons if a node is refused."""
    from opdb.execute.compile.model_io import Ends
    from opdb.programs.onnx.files import ends

    program, file = program_of(model, inputs, dims=dims, encodings=encodings)
    name = graph_name(file or type(model).__name__)
    named = Ends(*ends(file)) if file is not None and has_names(file) else None
    coverage, graph = lowered(program, target, name, float_dtype=dtype, ends=named, to_quantize=to_quantize)
    if graph is None:
        refused = [row for row in coverage.rows if row.verdict != "supported"]
        lines = [
            f"{row.node} ({row.target}): {'; '.join(r['message'] for r in row.reasons)}" for row in refused
        ]
        raise OpdbError(
            f"{counted(len(refused), 'node')} of {name} {plural(len(refused), 'has', 'have')} no QNN op on {target}:\n"
            + "\n".join(lines)
        )
    return coverage, graph


def _record(model: str, coverage: Coverage) -> dict[str, Any]:
    """The record of a context file's origin."""
    met = coverage.errata()
    return {
        "model": model,
        "errata": {kind: [e.erratum for e in met if e.policy == kind] for kind in ("avoid", "warn")},
    }
