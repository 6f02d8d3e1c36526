"""``OpdbBackend``: the class that ExecuTorch calls to prepare the nodes of a delegate."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from opdb.core.errors import OpdbError
from opdb.execute.compile.build import compile_to_file
from opdb.execute.libraries.results import CompileResult
from opdb.plugins.executorch.delegate import graph_form
from opdb.plugins.executorch.delegate.blob import ALIGN
from opdb.plugins.executorch.delegate.lower import lower
from opdb.plugins.executorch.delegate.module import Arg, ContextFile, Module
from opdb.plugins.executorch.delegate.specs import Options, options_of
from opdb.runtime.qnn import context_file


@final
class OpdbBackend(BackendDetails):  # type: ignore[misc]  # untyped base
    """The class's name is the backend's id; the runtime looks up a backend of this name.

    The result depends only on the program and its compile specs: equal ones give equal bytes.
    """

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The blob of one delegate.  Raises OpdbError with the reasons if the target refuses it."""
        options = options_of(compile_specs)
        module = lower(edge_program, options, "forward_0")
        return _result(_prepared([module], options)[0], options)

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """The blobs of all delegates of all methods.

        Graphs with the same options share the large parts: one context of the library, or each constant once.
        """
        together: dict[Options, list[tuple[str, int]]] = defaultdict(list)
        modules: dict[tuple[str, int], Module] = {}
        for method, programs in edge_programs.items():
            for i, (program, specs) in enumerate(zip(programs, compile_specs[method], strict=True)):
                options = options_of(specs)
                modules[method, i] = lower(program, options, f"{method}_{i}")
                together[options].append((method, i))
        made: dict[tuple[str, int], PreprocessResult] = {}
        for options, places in together.items():
            ready = _prepared([modules[place] for place in places], options)
            made |= {place: _result(m, options) for place, m in zip(places, ready, strict=True)}
        return {m: [made[m, i] for i in range(len(p))] for m, p in edge_programs.items()}


def _result(module: Module, options: Options) -> PreprocessResult:
    written = graph_form.write(module, named=options.weights == "named")
    store = NamedDataStore()
    for key, content in written.named.items():
        store.add_named_data(key, content, alignment=ALIGN)
    handles = {i: module.handles.get(op.name, ()) for i, op in enumerate(module.graph.ops)}
    return PreprocessResult(
        processed_bytes=written.blob,
        debug_handle_map={i: found for i, found in handles.items() if found},
        data_store_output=store.get_named_data_store_output(),
    )


def _prepared(modules: Sequence[Module], options: Options) -> list[Module]:
    """The modules with their contexts, if the options ask for any; one context for all if they may share it."""
    if not options.prepared:
        return list(modules)
    if len(modules) == 1 or not options.shares:
        return [made for m in modules for made in _context([m], options, beside=False)]
    return _context(modules, options, beside=True)


def _context(modules: Sequence[Module], options: Options, *, beside: bool) -> list[Module]:
    """The modules in one context, which is compiled for them."""
    graphs = [m.graph for m in modules]
    target = options.target.spelled()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "context")
        compiled = compile_to_file(
            graphs, path, options.backend, target.soc, options.graph_options, weight_sharing=beside
        )
        _done(compiled.result, modules, options)
        content = path.read_bytes()
    file = context_file.unpack(content, "the context")
    header = file.header
    identity = replace(
        modules[0].identity,
        package=header.package,
        library_version=header.version,
        build_id=header.build_id,
        soc_model=header.soc_model,
    )
    key = graph_form.data_key(content) if beside else ""
    context = ContextFile(content, len(content) - len(file.payload), key)
    ends = {name: (*graph.inputs, *graph.outputs) for name, graph in header.graphs.items()}
    ids = {name: {t.config.name: t.id for t in tensors} for name, tensors in ends.items()}
    return [
        replace(m, args=_held(m, ids), identity=identity, context=context, ids=ids[m.graph.name])
        for m in modules
    ]


def _held(module: Module, ids: Mapping[str, Mapping[str, int]]) -> tuple[Arg, ...]:
    """The ends of ``execute``; an input that the context dropped gets no tensor."""
    known = ids[module.graph.name]
    return tuple(a if a.tensor in known else replace(a, tensor=None) for a in module.args)


def _done(result: CompileResult, modules: Sequence[Module], options: Options) -> None:
    """Raises OpdbError unless the library prepared all graphs; names the op, the edge node, and a cure."""
    if result.stage == "done":
        return
    ops = {op.name: op for m in modules for op in m.graph.ops if m.graph.name == result.graph}
    place = ""
    if result.node in ops:
        op = ops[result.node]
        place = f", op {op.op} {op.name} of the node {op.origin}"
    log = "; ".join(result.log[-3:])
    raise OpdbError(
        f"{options.target}: the library {'refuses' if result.verdict == 'no' else result.verdict} at the "
        f"stage {result.stage} of the graph {result.graph}{place}: {log or 'no log'}; leave its operator to others with "
        f"Options(leave=(...,)), or run `opdb check` on the model; {result.explained}"
    )
