"""The places of ExecuTorch 1.4.1 that a registration changes; each function returns what undoes it.

Those of its partitioner are in opdb.executorch.partitioning, those of its quantizer in opdb.executorch.quantizing.

=================================  ====================================================================
``node_visitor_manager``           ``_node_visitor_dict``: edge name -> builder class
``LayoutTransform``                ``layout_agnostic_ops``
``I64toI32``                       ``I64_IN_OPS``: arguments that PyTorch wants as int64
``FuseConsecutiveCast`` and others  passes that change values
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
from opdb.executorch.operators import edge_name, edge_operators
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


def passes(targets: Iterable[str]) -> Undo:
    """Passes of ExecuTorch that change values.

    FuseConsecutiveCast drops the first of two casts whatever it does to the numbers: ``x.long().float()`` becomes
    ``x``.  DecomposeMaxPool3d forgets the dilation, and takes adaptive pools for its own; where opdb maps the pools
    they stay as they are.  So do asinh and its like (DecomposeHyperbolicVariants: log(x + sqrt(x * x + 1)), which is
    -7.6 for -200 in fp16), and the exponents of powers of floats (a tensor hides which of them HTP computes rightly).
    CanonicalizeConv turns lines without a batch into images of another shape, which have other convolutions.
    I64toI32 ends where a node of several results has one of int64; each result that leaves keeps its type by itself.
    Remove0DTensor takes the whole line for the number that ``select`` picks of it; where opdb maps it, it stays.
    """
    from executorch.backends.qualcomm._passes.decompose_maxpool3d import DecomposeMaxPool3d
    from executorch.backends.qualcomm._passes.fuse_consecutive_cast import FuseConsecutiveCast
    from executorch.backends.qualcomm._passes.remove_0d_tensor import Remove0DTensor
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
    if "aten.select.int" in set(targets):
        undos.append(replaced(Remove0DTensor, "call", lambda self, module: PassResult(module, False)))
    kept = (_hyperbolic_kept(targets), _exponents_kept(targets))
    return all_of((*undos, *kept, _lines_with_a_batch(), _types_of_several_results()))


def _hyperbolic_kept(targets: Iterable[str]) -> Undo:
    """The edge operators that DecomposeHyperbolicVariants knows stay where opdb maps them; a quantizer sees parts."""
    from executorch.backends.qualcomm._passes.decompose_hyperbolic_variants import DecomposeHyperbolicVariants

    kept = set(edge_operators(targets)) & DecomposeHyperbolicVariants._EDGE_OPS
    stock = DecomposeHyperbolicVariants.__init__

    def init(self: Any) -> None:
        stock(self)
        for op in kept:
            del self._dispatcher[op]

    return replaced(DecomposeHyperbolicVariants, "__init__", init)


def _exponents_kept(targets: Iterable[str]) -> Undo:
    """What a quantizer has seen has its exponents as tensors already; a pass of the export makes the others ones."""
    import torch
    from executorch.backends.qualcomm._passes.lift_constant_scalar_operands import SKIP_LIFT_OPS
    from executorch.backends.qualcomm._passes.qnn_pass_manager import QnnPassManager

    power = torch.ops.aten.pow.Tensor_Scalar
    stock = QnnPassManager.transform_for_export_pipeline

    def transform_for_export_pipeline(self: Any, *program: Any, **named: Any) -> Any:
        SKIP_LIFT_OPS.add(power)
        try:
            return stock(self, *program, **named)
        finally:
            SKIP_LIFT_OPS.discard(power)

    if "aten.pow.Tensor_Scalar" not in set(targets):
        return all_of(())
    return replaced(QnnPassManager, "transform_for_export_pipeline", transform_for_export_pipeline)


def _lines_with_a_batch() -> Undo:
    """CanonicalizeConv, which puts a dimension at 2, gets conv1d and conv_transpose1d of two dimensions with a batch."""
    import torch
    from executorch.backends.qualcomm._passes.canonicalize_conv import CanonicalizeConv
    from executorch.backends.qualcomm._passes.utils import append_qdq, copy_meta

    stock = CanonicalizeConv.call
    aten = torch.ops.aten

    def batched(value: Any) -> Any:
        return copy_meta(value.meta, lambda m: {**m, "val": m["val"].unsqueeze(0)})

    def call(self: Any, module: Any) -> Any:
        graph = module.graph
        for node in list(graph.nodes):
            if node.target not in self.conv1d_op_map or node.meta["val"].dim() != 2:
                continue
            source, users, meta = node.args[0], list(node.users), dict(node.meta)
            with graph.inserting_before(node):
                lines = graph.call_function(aten.unsqueeze_copy.default, (source, 0))
            lines.meta = batched(source)
            node.replace_input_with(source, append_qdq(module, lines, source))
            node.meta = batched(node)
            encoded = append_qdq(module, node, users[0])
            with graph.inserting_after(encoded):
                line = graph.call_function(aten.squeeze_copy.dims, (encoded, [0]))
            line.meta = meta
            for user in users:
                user.replace_input_with(node, line)
        return stock(self, module)

    return replaced(CanonicalizeConv, "call", call)


def _types_of_several_results() -> Undo:
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32
    from executorch.backends.qualcomm.utils.constants import QCOM_ORIG_DTYPE

    stock = I64toI32._preserve_output_dtype

    def preserve(self: Any, module: Any) -> None:
        for node in module.graph.nodes:
            if isinstance(node.meta.get(QCOM_ORIG_DTYPE), list):
                del node.meta[QCOM_ORIG_DTYPE]
        stock(self, module)

    return replaced(I64toI32, "_preserve_output_dtype", preserve)


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
