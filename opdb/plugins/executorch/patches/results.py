"""Puts the results of a QNN graph into the program's order.

ExecuTorch's runtime returns results in the order in which the graph's ops write them, and expects the program's
order.  An op after a node with several results (a Cast to int64, a Dequantize) can be late or early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.patches.graphs import edge, edge_op, nodes, per_tensor
from opdb.plugins.executorch.patches.registry import Context, patch
from opdb.plugins.executorch.patches.undo import Undo, all_of, replaced


def _dequantize_comes_late() -> bool:
    """True for topk with quantized values: they leave through a Dequantize, after the indices that topk itself writes."""
    import torch
    from executorch.backends.qualcomm.qnn_preprocess import QnnBackend
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    program = edge(lambda x: tuple(torch.topk(x, 2)), torch.ones(1, 4))
    for node in program.graph.nodes:
        if node.op == "placeholder" or (node.op == "call_function" and node.args[1:] in ((0,), (2,))):
            node.meta[QCOM_QUANT_ATTRS] = per_tensor()
    for node in nodes(program.graph_module, edge_op("aten.topk.default")):
        node.meta["val"] = (node.meta["val"][0], node.meta["val"][1].to(torch.int32))
    htp = QnnExecuTorchBackendType.kHtpBackend
    ops = QnnBackend._build_op_wrappers(program, False, [], False, htp)
    names = wanted(program.graph_module.graph)
    written = {id(op): [n for n in _names(op.GetOpWrapper().GetOutputTensors()) if n in names] for op in ops}
    return not _follows(ops, written, names)


@patch(
    "results-in-order",
    "bug",
    "the runtime takes results in the order in which a graph's ops write them for those of the program; an op after a node "
    "of several results (a Cast to int64, a Dequantize) is late",
    "qnn_preprocess:QnnBackend._build_op_wrappers",
    "_passes.qnn_pass_manager:QnnPassManager.transform_for_preprocess_pipeline",
    needed=_dequantize_comes_late,
    always=True,
)
def in_order(context: Context) -> Undo:
    """Makes every graph of ExecuTorch's backend write its results in the program's order."""
    from executorch.backends.qualcomm._passes import qnn_pass_manager
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager
    from executorch.backends.qualcomm.qnn_preprocess import QnnBackend

    stock, passes = QnnBackend._build_op_wrappers, QnnPassManager.transform_for_preprocess_pipeline

    def build(edge_program: Any, *more: Any, **named: Any) -> Any:
        ops = stock(edge_program, *more, **named)
        return ordered(ops, wanted(edge_program.graph_module.graph)) if isinstance(ops, list) else ops

    def transform_for_preprocess_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        module = passes(self, exported_program, *more, **named)
        if with_copies(module.graph):
            module.recompile()
            exported_program._graph_signature = qnn_pass_manager._get_updated_graph_signature(
                exported_program.graph_signature, module
            )
        return module

    return all_of(
        (
            replaced(QnnBackend, "_build_op_wrappers", staticmethod(build)),
            replaced(QnnPassManager, "transform_for_preprocess_pipeline", transform_for_preprocess_pipeline),
        )
    )


def with_copies(graph: Any) -> bool:
    """Copies results that are written too early: an earlier result depends on them, or comes between results of their writer.

    Returns True if it copied any.
    """
    end = next(n for n in graph.nodes if n.op == "output")
    results = list(dict.fromkeys(end.args[0]))
    writers = [_writer(n) for n in results]
    before: set[Any] = set()
    copied = False
    for place, (result, writer) in enumerate(zip(results, writers, strict=True)):
        parted = writer in writers[:place] and writers[place - 1] is not writer
        if result.op == "call_function" and (writer in before or parted):
            with graph.inserting_before(end):
                copy = graph.call_function(
                    edge_op("aten.view_copy.default"), (result, list(result.meta["val"].shape))
                )
            copy.meta = dict(result.meta)
            end.replace_input_with(result, copy)
            copied = True
        before |= _sources(writer)
    return copied


def _writer(node: Any) -> Any:
    """The node whose ops write a result."""
    return node.args[0] if getattr(node.target, "__name__", "") == "getitem" else node


def _sources(node: Any) -> set[Any]:
    """The nodes that a node's value depends on."""
    found: set[Any] = set()
    waiting = list(node.all_input_nodes)
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += at.all_input_nodes
    return found


def wanted(graph: Any) -> list[str]:
    """The builders' names for the tensors of a graph's results, in the graph's order."""
    out = []
    for node in next(n for n in graph.nodes if n.op == "output").args[0]:
        several = getattr(node.target, "__name__", "") == "getitem"
        source, index = node.args if several else (node, 0)
        out.append(f"output_{source.name}@{index}")
    return list(dict.fromkeys(out))


def ordered(ops: list[Any], names: Sequence[str]) -> list[Any]:
    """Reorders ``ops`` (PyQnnOpWrapper) so that they write ``names`` in this order.

    Raises OpdbError if no order does.
    """
    written = {id(op): [n for n in _names(op.GetOpWrapper().GetOutputTensors()) if n in names] for op in ops}
    if _follows(ops, written, names):
        return ops
    made = {n: op for op in ops for n in _names(op.GetOpWrapper().GetOutputTensors())}
    reads = {
        id(op): [made[n] for n in _names(op.GetOpWrapper().GetInputTensors()) if n in made] for op in ops
    }
    out: list[Any] = []
    done: set[int] = set()
    for last in (*(made[n] for n in names if n in made), *ops):
        _with_sources(last, reads, done, out)
    if not _follows(out, written, names):
        raise OpdbError(
            f"the results {', '.join(names)} cannot be written in this order; give the graph copies of them"
        )
    return out


def _with_sources(op: Any, reads: dict[int, list[Any]], done: set[int], out: list[Any]) -> None:
    """Appends ``op`` to ``out`` after the ops it reads from, each once."""
    stack = [op]
    while stack:
        at = stack[-1]
        left = [source for source in reads[id(at)] if id(source) not in done]
        if left:
            stack.append(left[0])
            continue
        stack.pop()
        if id(at) not in done:
            done.add(id(at))
            out.append(at)


def _follows(ops: Sequence[Any], written: dict[int, list[str]], names: Sequence[str]) -> bool:
    places = [names.index(n) for op in ops for n in written[id(op)]]
    return places == sorted(places)


def _names(tensors: Sequence[Any]) -> list[str]:
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn

    return [PyQnn.PyQnnTensorWrapper(t).GetName() for t in tensors]
