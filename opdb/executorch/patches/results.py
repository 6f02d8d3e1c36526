"""The order in which a QNN graph gives its results.

ExecuTorch's runtime hands over results in the order in which the graph's ops write them, and expects that of the
program.  An op that follows one node of several results (a Cast to int64, a Dequantize) can be late or early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opdb.errors import OpdbError
from opdb.executorch.patches.graphs import edge, edge_op, nodes, per_tensor
from opdb.executorch.patches.registry import Context, patch
from opdb.executorch.patches.undo import Undo, replaced


def _dequantize_comes_late() -> bool:
    """Of topk with quantized values: those leave by a Dequantize, after the places that topk writes itself."""
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
    needed=_dequantize_comes_late,
    always=True,
)
def in_order(context: Context) -> Undo:
    """Every graph of ExecuTorch's backend writes its results in the order of its program."""
    from executorch.backends.qualcomm.qnn_preprocess import QnnBackend

    stock = QnnBackend._build_op_wrappers

    def build(edge_program: Any, *more: Any, **named: Any) -> Any:
        ops = stock(edge_program, *more, **named)
        return ordered(ops, wanted(edge_program.graph_module.graph)) if isinstance(ops, list) else ops

    return replaced(QnnBackend, "_build_op_wrappers", staticmethod(build))


def wanted(graph: Any) -> list[str]:
    """The names that the builders give the tensors of a graph's results, in its order."""
    out = []
    for node in next(n for n in graph.nodes if n.op == "output").args[0]:
        several = getattr(node.target, "__name__", "") == "getitem"
        source, index = node.args if several else (node, 0)
        out.append(f"output_{source.name}@{index}")
    return list(dict.fromkeys(out))


def ordered(ops: list[Any], names: Sequence[str]) -> list[Any]:
    """``ops`` (PyQnnOpWrapper) so that they write ``names`` in this order; what no other op reads may go last.

    Raises OpdbError where that is not enough.
    """
    written = {id(op): [n for n in _names(op.GetOpWrapper().GetOutputTensors()) if n in names] for op in ops}
    if _follows(ops, written, names):
        return ops
    read = {n for op in ops for n in _names(op.GetOpWrapper().GetInputTensors())}
    last = [op for op in ops if written[id(op)] and not read.intersection(written[id(op)])]
    last.sort(key=lambda op: names.index(written[id(op)][0]))
    out = [op for op in ops if not any(op is moved for moved in last)] + last
    if not _follows(out, written, names):
        raise OpdbError(
            f"the results {', '.join(names)} cannot be written in this order; give the graph copies of them"
        )
    return out


def _follows(ops: Sequence[Any], written: dict[int, list[str]], names: Sequence[str]) -> bool:
    places = [names.index(n) for op in ops for n in written[id(op)]]
    return places == sorted(places)


def _names(tensors: Sequence[Any]) -> list[str]:
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn

    return [PyQnn.PyQnnTensorWrapper(t).GetName() for t in tensors]
