"""The order in which a QNN graph gives its results.

ExecuTorch's runtime hands over results in the order in which the graph's ops write them, and expects that of the
program.  An op that follows one node of several results (a Cast to int64, a Dequantize) can be late or early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opdb.errors import OpdbError
from opdb.executorch.undo import Undo, replaced


def in_order() -> Undo:
    """Every graph of ExecuTorch's backend writes its results in the order of its program."""
    from executorch.backends.qualcomm.qnn_preprocess import QnnBackend

    stock = QnnBackend._build_op_wrappers

    def build(edge_program: Any, *more: Any) -> Any:
        ops = stock(edge_program, *more)
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
