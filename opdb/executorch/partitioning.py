"""The places of ExecuTorch 1.4.1's partitioner that a registration changes; each function returns what undoes it.

==========================  ===========================================================================
``QnnOperatorSupport``      ``is_node_supported``: an operator without a builder, or a fault in one,
                            sends the node to the CPU instead of ending the export
``QnnPartitioner``          ``generate_partitions``: none that reads constants alone
``QnnPartitioner``          ``ops_to_not_decompose``: operators to keep whole, node by node
``common_defs``             ``to_be_implemented_operator``: refused without being asked about
==========================  ===========================================================================
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

from opdb.executorch import layout
from opdb.executorch.operators import edge_operators, overload
from opdb.executorch.outside import (
    CONSTANT_GRAPH,
    CONSTANT_RESULT,
    DEQUANTIZED_CONSTANT,
    ENDLESS_SCALE,
    dequantizes,
    endless_scale,
    read_outside,
    reads_inputs,
)
from opdb.executorch.passes import of_other_windows
from opdb.executorch.undo import Undo, replaced, with_contents
from opdb.runtime.lowering import Reason

if TYPE_CHECKING:
    from opdb.executorch.hooks import Decider


#: Constants that one graph would write and another read; partitioning is done again without them.
_between_graphs: weakref.WeakSet[Any] = weakref.WeakSet()


def never_abort(reject: Callable[[str, tuple[Reason, ...]], None], forms: MutableMapping[str, str]) -> Undo:
    """A node that no builder takes, whose builder raises, or that QNN refuses, is left to the CPU, with the reason.

    ``forms``: what builders have taken, by the names of nodes; ``reject`` takes a node out of it.
    """
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnOperatorSupport

    from opdb.executorch.view import constant_names
    from opdb.lowering.candidates import unmapped_reason

    stock = QnnOperatorSupport.is_node_supported
    left: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_node_supported(self: Any, submodules: Any, node: Any) -> bool:
        try:
            if endless_scale(node):
                reject(node.name, (ENDLESS_SCALE,))
                left.add(node)
                return False
            # Readers come first, as the partitioner goes.
            if node in _between_graphs or read_outside(node, lambda u: u.op != "output" and u not in left):
                reject(node.name, (CONSTANT_RESULT,))
                left.add(node)
                return False
            visitor = self.node_visitors.get(getattr(node.target, "__name__", ""))
            if (
                visitor is not None
                and dequantizes(node, constant_names(visitor.edge_program))
                and left.issuperset(node.users)
            ):
                reject(node.name, (DEQUANTIZED_CONSTANT,))
                return False
            forms.pop(node.name, None)  # of another program, or of another asking
            if stock(self, submodules, node):
                return True
            if node.name in forms:
                why = "opdb's rules accept the node, QNN's validator refuses it; the log has its words"
                reject(node.name, (Reason(forms[node.name], "vendor", why),))
            left.add(node)
            return False
        except KeyError as e:
            if e.args != (getattr(node.target, "__name__", None),):
                reject(node.name, (Reason("stock", "internal", f"KeyError: {e}"),))
            else:
                reject(node.name, (unmapped_reason(node.target.__name__),))
        except Exception as e:  # whatever a builder raises
            reject(node.name, (Reason("stock", "internal", f"{type(e).__name__}: {e}"),))
        left.add(node)
        self.nodes_to_wrappers.clear()
        return False

    return replaced(QnnOperatorSupport, "is_node_supported", is_node_supported)


def without_constant_graphs(reject: Callable[[str, tuple[Reason, ...]], None]) -> Undo:
    """A group of nodes that reads constants alone is left to the CPU: QNN saves no graph without inputs.

    So is a constant that another group reads as well; what it leaves is grouped anew, as it may part a group in two.
    """
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner

    from opdb.executorch.view import constant_names

    stock = QnnPartitioner.generate_partitions

    def generate_partitions(self: Any, program: Any) -> Any:
        constants, kept = constant_names(program), []
        partitions = stock(self, program)
        while between := [n for p in partitions for n in p.nodes if read_outside(n, p.nodes.__contains__)]:
            _between_graphs.update(between)
            partitions = stock(self, program)
        for partition in partitions:
            if reads_inputs(partition.nodes, constants):
                kept.append(partition)
                continue
            for node in partition.nodes:
                reject(node.name, (CONSTANT_GRAPH,))
        return kept

    return replaced(QnnPartitioner, "generate_partitions", generate_partitions)


def kept_whole(targets: Iterable[str], decide: Decider, built: Container[str]) -> Undo:
    """Operators that PyTorch would decompose stay whole where opdb's builder takes them.

    A node that is kept whole and then refused ends ExecuTorch's flow ("was not decomposed or delegated"),
    so each is judged before, with the encodings that it will have.  Others keep ExecuTorch's own policy, and so does
    an operator that it keeps whole for a pass (col2im), where the pass takes it.  ``built``: edge names that ExecuTorch
    has builders for.
    """
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
    from executorch.exir.dialects.edge._ops import EdgeOpOverload
    from executorch.exir.program._program import _default_decomposition_table

    from opdb.executorch.whole import Whole

    table = _default_decomposition_table()
    own = {op for op in map(overload, targets) if op in table and not layout.laid_out_as_another(str(op))}
    ours = {overload(t) for t in targets}
    stock = QnnPartitioner.ops_to_not_decompose

    def ops_to_not_decompose(self: Any, program: Any) -> Any:
        ops, allows = stock(self, program)
        decide.follow(self.compiler_specs_snapshot)
        whole = Whole(program, decide, decide.avoids)

        def check(node: Any) -> bool:
            left = isinstance(node.target, EdgeOpOverload)  # asked again, of what no partition took
            operator = node.target._op if left else node.target
            if operator not in table or (left and operator in own and _runs_on_cpu(operator)):
                return False  # PyTorch does not decompose it, or ExecuTorch can run it on the CPU
            if not all(_as_written(v) for v in _values(node)):
                return False
            accepted = whole.accepts(node) if node.target in ours else None
            if not accepted and operator in ops and str(operator) not in built:
                return bool(allows(node)) and not of_other_windows(node)
            return bool(allows(node)) and node.target not in own if accepted is None else accepted

        return [*ops, *sorted(own - set(ops), key=str)], check

    return replaced(QnnPartitioner, "ops_to_not_decompose", ops_to_not_decompose)


def _values(node: Any) -> list[Any]:
    value = node.meta.get("val")
    return [
        v for v in (value if isinstance(value, (tuple, list)) else [value]) if hasattr(v, "is_contiguous")
    ]


def _as_written(value: Any) -> bool:
    """Whether a result lies in memory as QNN writes it; ex) not that of rot90, which is a view of what it turns.

    The program would read it in the order of the view.
    """
    import torch

    last = value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last)
    return bool(value.is_contiguous()) or last


def _runs_on_cpu(operator: Any) -> bool:
    """Whether the runtime of the executorch wheel has a kernel for an operator."""
    return str(operator._schema.name) in _kernels()


@cache
def _kernels() -> frozenset[str]:
    from executorch.extension.pybindings import _portable_lib

    return frozenset(name.partition(".")[0] for name in _portable_lib._get_operator_names())


def listed_as_missing(targets: Iterable[str]) -> Undo:
    """Operators that ExecuTorch lists as yet to be implemented are asked about where opdb maps them."""
    from executorch.backends.qualcomm.partition import common_defs

    edges = edge_operators(targets)
    listed = common_defs.to_be_implemented_operator
    return with_contents(listed, [op for op in listed if op not in edges])
