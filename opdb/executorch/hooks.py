"""The places of ExecuTorch 1.4.1 that a registration changes; each function returns what undoes it.

=================================  ====================================================================
``node_visitor_manager``           ``_node_visitor_dict``: edge name -> builder class
``QnnOperatorSupport``             ``is_node_supported``: an operator without a builder, or a fault in one,
                                   sends the node to the CPU instead of ending the export
``QnnPartitioner``                 ``ops_to_not_decompose``: operators to keep whole, node by node;
                                   ``generate_partitions``: none that reads constants alone
``common_defs``                    ``to_be_implemented_operator``: refused without being asked about
``LayoutTransform``                ``layout_agnostic_ops``
``I64toI32``                       ``I64_IN_OPS``: arguments that PyTorch wants as int64
``htp_rules``, ``lpai_rules``      ``_RULES``: operator -> how the quantizer annotates it
``FuseConsecutiveCast`` and others  two passes that change values
``get_current_qnn_manager``        tells which compiler specs are at work (as bound in two modules)
=================================  ====================================================================
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from opdb.errors import OpdbError
from opdb.executorch import env, layout
from opdb.runtime.lowering import Lowered, NodeView, Reason, Rejected

Undo = Callable[[], None]


class Decider:
    """``lower`` with the target of the program at work: a given one, or that of its compiler specs."""

    def __init__(self, lower: Callable[[NodeView, Any], Lowered | Rejected], target: Any) -> None:
        self._lower = lower
        self._given = target
        self._followed = threading.local()

    def follow(self, compiler_specs: Any) -> None:
        if self._given is None:
            self._followed.target = target_of(compiler_specs)

    def __call__(self, view: NodeView) -> Lowered | Rejected:
        target = self._given
        return self._lower(view, getattr(self._followed, "target", None) if target is None else target)


def target_of(compiler_specs: Any) -> Any:
    """The backend and SoC (opdb.validate.Target) that ExecuTorch's compiler specs name."""
    from executorch.backends.qualcomm.partition.utils import generate_qnn_executorch_option
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    from opdb.validate import Target

    options = flatbuffer_to_option(generate_qnn_executorch_option(compiler_specs))
    backend = options.backend_options.backend_type.name.removeprefix("k").removesuffix("Backend").upper()
    soc = options.soc_info.soc_model.name
    target = Target(backend, None if soc.startswith("UNKNOWN") else soc, _sdk())
    target.context()  # an SoC that the catalogue does not know is said before anything is built
    return target


@cache
def _sdk() -> str:
    """The version of the QNN libraries of this process; ex) 2.47."""
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn

    library = Path(env.require_active()) / "lib" / env.HOST / env.HTP
    # ExecuTorch opens the library by its name, which the loader must know first for the one that forwards: the
    # vendor's behind it is of the same name, and the device configuration would reach it untranslated.
    ctypes.CDLL(env.HTP)
    return ".".join(PyQnn.GetQnnSdkBuildId(str(library)).removeprefix("v").split(".")[:2])


def follow_target(decide: Decider) -> Undo:
    """Every program is judged for the backend and SoC of its own compiler specs."""
    from executorch.backends.qualcomm import qnn_preprocess
    from executorch.backends.qualcomm.partition import qnn_partitioner

    def hooked(stock: Any) -> Any:
        def get_current_qnn_manager(backend_type: Any, compile_specs: Any) -> Any:
            decide.follow(compile_specs)
            return stock(backend_type, compile_specs)

        return get_current_qnn_manager

    modules = (qnn_preprocess, qnn_partitioner)
    return _all(_set(m, "get_current_qnn_manager", hooked(m.get_current_qnn_manager)) for m in modules)


def builders(
    names: Mapping[str, str],
    decide: Decider,
    accept: Callable[[str, str], None],
    reject: Callable[[str, tuple[Reason, ...]], None],
    compared: Callable[[Any], None] | None = None,
) -> tuple[Undo, Mapping[str, Any]]:
    """opdb's builder for every edge name in ``names``; also ExecuTorch's own, by edge name.

    ``compared``: if given, those classes go on building, and it is told the differences.
    """
    from executorch.backends.qualcomm.builders import node_visitor_manager

    from opdb.executorch.visitor import OpdbVisitor

    registry = node_visitor_manager._node_visitor_dict
    before = dict(registry)
    stock = {edge: before[edge] for edge in names if edge in before}
    made = {
        "target": list(names),
        "lower": staticmethod(decide),
        "names": dict(names),
        "stock": stock,
        "accept": staticmethod(accept),
        "reject": staticmethod(reject),
        "compared": None if compared is None else staticmethod(compared),
    }
    node_visitor_manager.register_node_visitor(type("RegisteredVisitor", (OpdbVisitor,), made))

    def undo() -> None:
        for edge in names:
            registry.pop(edge, None)
        registry.update(stock)

    return undo, before


def never_abort(reject: Callable[[str, tuple[Reason, ...]], None]) -> Undo:
    """A node that no builder takes, or whose builder raises, is left to the CPU, with the reason."""
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnOperatorSupport

    from opdb.executorch.outside import DEQUANTIZED_CONSTANT, dequantizes
    from opdb.executorch.view import constant_names
    from opdb.lower import unmapped_reason

    stock = QnnOperatorSupport.is_node_supported
    left: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_node_supported(self: Any, submodules: Any, node: Any) -> bool:
        try:
            # Readers come first, as the partitioner goes.
            visitor = self.node_visitors.get(getattr(node.target, "__name__", ""))
            if (
                visitor is not None
                and dequantizes(node, constant_names(visitor.edge_program))
                and left.issuperset(node.users)
            ):
                reject(node.name, (DEQUANTIZED_CONSTANT,))
                return False
            if stock(self, submodules, node):
                return True
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

    return _set(QnnOperatorSupport, "is_node_supported", is_node_supported)


def without_constant_graphs(reject: Callable[[str, tuple[Reason, ...]], None]) -> Undo:
    """A group of nodes that reads constants alone is left to the CPU: QNN saves no graph without inputs."""
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner

    from opdb.executorch.outside import CONSTANT_GRAPH, reads_inputs
    from opdb.executorch.view import constant_names

    stock = QnnPartitioner.generate_partitions

    def generate_partitions(self: Any, program: Any) -> Any:
        constants, kept = constant_names(program), []
        for partition in stock(self, program):
            if reads_inputs(partition.nodes, constants):
                kept.append(partition)
                continue
            for node in partition.nodes:
                reject(node.name, (CONSTANT_GRAPH,))
        return kept

    return _set(QnnPartitioner, "generate_partitions", generate_partitions)


def kept_whole(targets: Iterable[str], decide: Decider, built: Container[str]) -> Undo:
    """Operators that PyTorch would decompose stay whole where opdb's builder takes them.

    A node that is kept whole and then refused ends ExecuTorch's flow ("was not decomposed or delegated"),
    so each is judged before, with the encodings that it will have.  Others keep ExecuTorch's own policy, and so does
    an operator that it keeps whole for a pass (col2im).  ``built``: edge names that ExecuTorch has builders for.
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
        whole = Whole(program, decide)

        def check(node: Any) -> bool:
            left = isinstance(node.target, EdgeOpOverload)  # asked again, of what no partition took
            operator = node.target._op if left else node.target
            if operator not in table or (left and operator in own and _runs_on_cpu(operator)):
                return False  # PyTorch does not decompose it, or ExecuTorch can run it on the CPU
            accepted = whole.accepts(node) if node.target in ours else None
            if not accepted and operator in ops and str(operator) not in built:
                return bool(allows(node))
            return bool(allows(node)) and node.target not in own if accepted is None else accepted

        return [*ops, *sorted(own - set(ops), key=str)], check

    return _set(QnnPartitioner, "ops_to_not_decompose", ops_to_not_decompose)


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

    edges = _edge_operators(targets)
    listed = common_defs.to_be_implemented_operator
    return _contents(listed, [op for op in listed if op not in edges])


def layouts(targets: Iterable[str]) -> Undo:
    """Which operators take any layout: opdb's view puts those that commute with permutations in the stored one.

    ExecuTorch lists some that do not commute (``bmm``, ``repeat``: every layout costs them Transposes anyway),
    and lacks others (``tanh``, ``cos``, ...), so that a region ends at them.
    """
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    edges = _edge_operators(targets)
    known = LayoutTransform.layout_agnostic_ops
    sensitive = LayoutTransform.layout_sensitive_ops
    more = {op for op in edges if layout.elementwise(_name(op)) and op not in sensitive}
    fewer = {op for op in edges if op in known and not layout.commutes(_name(op))}
    return _set(LayoutTransform, "layout_agnostic_ops", (set(known) | more) - fewer)


#: ATen operators whose index arguments PyTorch wants as int64, by position (ATen's schemas).
_INT64 = {
    "aten.scatter.value": 2, "aten.scatter.reduce": 2, "aten.scatter.value_reduce": 2,
    "aten.scatter_add.default": 2, "aten.scatter_reduce.two": 2,
}  # fmt: skip


def int64_inputs(targets: Iterable[str]) -> Undo:
    """Indices of scatter's forms stay int64 to PyTorch while ExecuTorch turns the rest into int32."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    wanted = {t: _INT64[t] for t in targets if t in _INT64}
    more = {op: [wanted[_name(op)]] for op in _edge_operators(wanted)}
    return _set(I64toI32, "I64_IN_OPS", {**I64toI32.I64_IN_OPS, **more})


def quantizer_rules(targets: Iterable[str]) -> Undo:
    """Rules for operators that ExecuTorch's quantizer knows none of, for HTP and LPAI."""
    from executorch.backends.qualcomm.quantizer.annotators import htp_rules, lpai_rules
    from executorch.backends.qualcomm.quantizer.rules import GeneralOpDef, OpQuantRule

    from opdb.executorch.annotate import annotate
    from opdb.lower import forms

    wanted = {overload(t): forms(t)[0].name for t in targets if forms(t)}

    def added(rules: dict[Any, Any]) -> Undo:
        new = [op for op in wanted if op not in rules]
        for op in new:
            rules[op] = OpQuantRule(op, wanted[op], annotate, GeneralOpDef.validate)

        def undo() -> None:
            for op in new:
                del rules[op]

        return undo

    return _all(added(module.get_rules()) for module in (htp_rules, lpai_rules))


def passes(targets: Iterable[str]) -> Undo:
    """Two passes of ExecuTorch that change values.

    FuseConsecutiveCast drops the first of two casts whatever it does to the numbers: ``x.long().float()`` becomes
    ``x``.  DecomposeMaxPool3d forgets the dilation, and takes adaptive pools for its own; where opdb maps the pools
    they stay as they are.
    """
    from executorch.backends.qualcomm._passes.decompose_maxpool3d import DecomposeMaxPool3d
    from executorch.backends.qualcomm._passes.fuse_consecutive_cast import FuseConsecutiveCast
    from executorch.exir.pass_base import PassResult

    def fuse(self: Any, graph_module: Any) -> None:
        for node in graph_module.graph.nodes:
            before = node.args[0] if node.target in self.op_map else None
            if before is None or before.target not in self.op_map:
                continue
            if keeps_values(before.args[0].meta["val"].dtype, before.meta["val"].dtype):
                node.replace_input_with(before, before.args[0])

    undos = [_set(FuseConsecutiveCast, "_fuse", fuse)]
    if "aten.max_pool3d_with_indices.default" in set(targets):
        undos.append(_set(DecomposeMaxPool3d, "call", lambda self, module: PassResult(module, False)))
    return _all(undos)


def keeps_values(dtype: Any, through: Any) -> bool:
    """Whether each value of a torch dtype is itself after a cast to ``through``; int64 counts as int32, as in QNN."""
    import torch

    if torch.bool in (dtype, through):
        return bool(dtype == torch.bool)
    if dtype == through:
        return True
    wide = {torch.int64: torch.int32}
    dtype, through = wide.get(dtype, dtype), wide.get(through, through)
    if dtype.is_floating_point != through.is_floating_point:
        bits = 0 if dtype.is_floating_point else torch.iinfo(dtype).bits
        return not dtype.is_floating_point and 2**bits <= 2 / torch.finfo(through).eps
    if dtype.is_floating_point:
        return bool(torch.finfo(dtype).bits <= torch.finfo(through).bits) and dtype != torch.bfloat16
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return bool(torch.iinfo(through).min <= low and high <= torch.iinfo(through).max)


#: What the edge dialect has in the place of an ATen operator, besides copying forms of views.
EDGE_FORMS = {"aten._to_copy.default": "dim_order_ops._to_dim_order_copy.default"}


def edge_names(name: str) -> tuple[str, ...]:
    """The operator itself, and what the edge dialect has in its place; ex) the copying form of a view."""
    import torch

    overload(name)
    namespace, op, overload_name = name.split(".")
    copy = getattr(getattr(torch.ops, namespace), f"{op}_copy", None)
    has = copy is not None and overload_name in copy.overloads()
    more = (f"{namespace}.{op}_copy.{overload_name}",) if has else ()
    return (name, *more, *((EDGE_FORMS[name],) if name in EDGE_FORMS else ()))


def overload(name: str) -> Any:
    """PyTorch's operator of this name.  Raises OpdbError for a name that it does not have."""
    import torch

    namespace, _, rest = name.partition(".")
    op, _, overload_name = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None) if op and "." not in overload_name else None
    if packet is None or overload_name not in packet.overloads():
        if namespace != "aten" and overload_name:
            raise OpdbError(f"PyTorch knows no operator {name!r}; import the module that defines it first")
        raise OpdbError(f"{name!r} is not an ATen operator of this PyTorch; ex) aten.relu.default")
    return getattr(packet, overload_name)


def _edge_operators(targets: Iterable[str]) -> list[Any]:
    """The edge dialect's operators of these ATen targets and of their copying forms."""
    from executorch.exir.dialects._ops import ops as exir_ops

    found = []
    for target in targets:
        for name in edge_names(target):
            namespace, op, overload_name = name.split(".")
            found.append(getattr(getattr(getattr(exir_ops.edge, namespace), op), overload_name))
    return found


def _name(edge_operator: Any) -> str:
    return str(edge_operator.__name__)


def _set(owner: Any, name: str, value: Any) -> Undo:
    stock = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, stock)


def _contents(listed: list[Any], contents: list[Any]) -> Undo:
    """Changes a list that other modules have imported by name."""
    stock = list(listed)
    listed[:] = contents

    def undo() -> None:
        listed[:] = stock

    return undo


def _all(undos: Iterable[Undo]) -> Undo:
    done = list(undos)

    def undo() -> None:
        for one in reversed(done):
            one()

    return undo
