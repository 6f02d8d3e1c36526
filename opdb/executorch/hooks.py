"""The places of ExecuTorch 1.4.1 that a registration changes; each function returns what undoes it.

Those of its partitioner are in opdb.executorch.partitioning.

=================================  ====================================================================
``node_visitor_manager``           ``_node_visitor_dict``: edge name -> builder class
``LayoutTransform``                ``layout_agnostic_ops``
``I64toI32``                       ``I64_IN_OPS``: arguments that PyTorch wants as int64; ``call``: zero points
``AnnotateQuantAttrs``             ``call``: the encoding of what index_put writes into
``QnnPassManager``                 ``transform_for_export_pipeline``: zero points are int64
``htp_rules``, ``lpai_rules``      ``_RULES``: operator -> how the quantizer annotates it
``FuseConsecutiveCast`` and others  two passes that change values
``get_current_qnn_manager``        tells which compiler specs are at work (as bound in two modules)
=================================  ====================================================================
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from opdb.executorch import env, layout
from opdb.executorch.operators import edge_name, edge_operators, overload
from opdb.executorch.undo import Undo, all_of, replaced
from opdb.runtime.lowering import Lowered, NodeView, Reason, Rejected


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
    return all_of(replaced(m, "get_current_qnn_manager", hooked(m.get_current_qnn_manager)) for m in modules)


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


def layouts(targets: Iterable[str]) -> Undo:
    """Which operators take any layout: opdb's view puts those that commute with permutations in the stored one.

    ExecuTorch lists some that do not commute (``bmm``, ``repeat``: every layout costs them Transposes anyway),
    and lacks others (``tanh``, ``cos``, ...), so that a region ends at them.
    """
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    edges = edge_operators(targets)
    known = LayoutTransform.layout_agnostic_ops
    sensitive = LayoutTransform.layout_sensitive_ops
    more = {op for op in edges if layout.elementwise(edge_name(op)) and op not in sensitive}
    fewer = {op for op in edges if op in known and not layout.commutes(edge_name(op))}
    return replaced(LayoutTransform, "layout_agnostic_ops", (set(known) | more) - fewer)


#: ATen operators whose index arguments PyTorch wants as int64, by position (ATen's schemas).
_INT64 = {
    "aten.scatter.value": 2, "aten.scatter.reduce": 2, "aten.scatter.value_reduce": 2,
    "aten.scatter_add.default": 2, "aten.scatter_reduce.two": 2,
}  # fmt: skip


def int64_inputs(targets: Iterable[str]) -> Undo:
    """Indices of scatter's forms stay int64 to PyTorch while ExecuTorch turns the rest into int32."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    wanted = {t: _INT64[t] for t in targets if t in _INT64}
    more = {op: [wanted[edge_name(op)]] for op in edge_operators(wanted)}
    return replaced(I64toI32, "I64_IN_OPS", {**I64toI32.I64_IN_OPS, **more})


#: Operators whose first argument, some of which the result replaces, has the result's encoding.
_WRITTEN_INTO = ("aten.index_put.default", "aten.index_copy.default", "aten.slice_scatter.default",
                 "aten.select_scatter.default")  # fmt: skip


def encodings_of_what_is_written_into() -> Undo:
    """An input or constant that index_put and its like write into has the encoding of the result.

    ExecuTorch's quantizer observes the values and the result only.  What other nodes read keeps its numbers, and so
    does a buffer that the program changes: its memory holds numbers of floating point.
    """
    from executorch.backends.qualcomm._passes.annotate_quant_attrs import AnnotateQuantAttrs
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    stock = AnnotateQuantAttrs.call

    def call(self: Any, graph_module: Any) -> Any:
        result = stock(self, graph_module)
        buffers = self.edge_program.graph_signature.inputs_to_buffers
        for node in result.graph_module.graph.nodes:
            attrs = node.meta.get(QCOM_QUANT_ATTRS)
            if attrs is None or getattr(node.target, "__name__", "") not in _WRITTEN_INTO:
                continue
            written = node.args[0]
            changed = written.name in buffers and any(user.op == "output" for user in node.users)
            if written.op != "placeholder" or changed or len(written.users) > 1:
                continue
            if QCOM_QUANT_ATTRS not in written.meta:
                written.meta[QCOM_QUANT_ATTRS] = dict(attrs)
        return result

    return replaced(AnnotateQuantAttrs, "call", call)


def int64_zero_points() -> Undo:
    """Zero points of weights and biases by channel are int64, before and after ExecuTorch turns the rest into int32.

    Where the reader of a weight is left to the CPU, ExecuTorch's kernel reads them as int64 whatever they are, and
    the numbers would be off by what lies in memory.
    """
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    exports, narrows = QnnPassManager.transform_for_export_pipeline, I64toI32.call

    def transform_for_export_pipeline(self: Any, exported_program: Any, *more: Any, **named: Any) -> Any:
        program = exports(self, exported_program, *more, **named)
        for zeros in _zero_points(program.graph):
            _widen(zeros, program)
        return program

    def call(self: Any, graph_module: Any) -> Any:
        result = narrows(self, graph_module)
        for zeros in _zero_points(result.graph_module.graph):
            if zeros.target is self.copy_op:
                zeros.replace_all_uses_with(zeros.args[0])
        result.graph_module.recompile()
        return result

    return all_of(
        (
            replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline),
            replaced(I64toI32, "call", call),
        )
    )


def _zero_points(graph: Any) -> list[Any]:
    of = [
        n for n in graph.nodes if getattr(n.target, "__name__", "").endswith("dequantize_per_channel.default")
    ]
    return [n.args[2] for n in of if n.args[2] is not None]


def _widen(placeholder: Any, program: Any) -> None:
    """Makes a buffer of int32 one of int64."""
    import torch

    name = program.graph_signature.inputs_to_buffers.get(placeholder.name)
    for tensors in (program.state_dict, program.constants):
        if name in tensors and tensors[name].dtype == torch.int32:
            tensors[name] = tensors[name].to(torch.int64)
            placeholder.meta["val"] = placeholder.meta["val"].to(torch.int64)


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

    return all_of(added(module.get_rules()) for module in (htp_rules, lpai_rules))


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

    undos = [replaced(FuseConsecutiveCast, "_fuse", fuse)]
    if "aten.max_pool3d_with_indices.default" in set(targets):
        undos.append(replaced(DecomposeMaxPool3d, "call", lambda self, module: PassResult(module, False)))
    return all_of(undos)


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
