"""The places of ExecuTorch 1.4.1 that a registration changes; each function returns what undoes it.

Those of its partitioner are in opdb.executorch.partitioning, of its quantizer in opdb.executorch.quantizing, of its
passes over graphs in opdb.executorch.passes.

=================================  ====================================================================
``node_visitor_manager``           ``_node_visitor_dict``: edge name -> builder class
``LayoutTransform``                ``layout_agnostic_ops``
``I64toI32``                       ``I64_IN_OPS``: arguments that PyTorch wants as int64
``get_current_qnn_manager``        tells which compiler specs are at work (as bound in two modules)
``get_node_visitors``              puts ExecuTorch's builder in the place of opdb's for ops of op packages (the same)
=================================  ====================================================================
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from opdb.errata.policy import active
from opdb.errata.report import Extra
from opdb.executorch import env, layout
from opdb.executorch.operators import edge_name, edge_operators
from opdb.executorch.undo import Undo, all_of, replaced
from opdb.lowering.extra import extras
from opdb.runtime.lowering import Lowered, NodeView, Reason, Rejected
from opdb.targets.target import Target


class Decider:
    """``lower`` with the target of the program at work: a given one, or that of its compiler specs.

    ``asked``: the execution and the policy for errata of targets that compiler specs name.
    """

    def __init__(
        self, lower: Callable[[NodeView, Any], Lowered | Rejected], target: Any, asked: Target
    ) -> None:
        self._lower = lower
        self._given = target
        self._asked = asked
        self._followed = threading.local()

    def follow(self, compiler_specs: Any) -> None:
        if self._given is None:
            self._followed.target = target_of(compiler_specs, self._asked)

    def __call__(self, view: NodeView) -> Lowered | Rejected:
        return self._lower(view, self._target())

    def extra(self, view: NodeView, lowered: Lowered) -> Mapping[str, Extra | None]:
        """What avoiding the errata costs that ``lowered`` avoids or may show (opdb.errata.report.Met)."""
        return extras(lowered, lambda target: self._lower(view, target), self._target())

    def avoids(self, erratum: str) -> bool:
        """Whether the program's target has an erratum that is to be avoided; so it is for what is no opdb target."""
        target = self._target()
        return not isinstance(target, Target) or active(erratum, target)

    def _target(self) -> Any:
        return getattr(self._followed, "target", None) if self._given is None else self._given


def target_of(compiler_specs: Any, asked: Target) -> Target:
    """The target that ExecuTorch's compiler specs name, with the execution and the policy of ``asked``."""
    from executorch.backends.qualcomm.partition.utils import generate_qnn_executorch_option
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    options = flatbuffer_to_option(generate_qnn_executorch_option(compiler_specs))
    backend = options.backend_options.backend_type.name.removeprefix("k").removesuffix("Backend").upper()
    soc = options.soc_info.soc_model.name
    target = replace(asked, backend=backend, soc=None if soc.startswith("UNKNOWN") else soc, sdk=_sdk())
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


def of_op_packages(names: Mapping[str, str]) -> Undo:
    """Operators of op packages keep opdb's builder: ExecuTorch's own writes lists as int64 and knows no words."""
    from executorch.backends.qualcomm import qnn_preprocess
    from executorch.backends.qualcomm.builders import node_visitor_manager

    def hooked(stock: Any) -> Any:
        def get_node_visitors(*args: Any, op_package_infos: Any = None, **kwargs: Any) -> Any:
            theirs = [info for info in op_package_infos or () if info.custom_op_name not in names]
            return stock(*args, op_package_infos=theirs, **kwargs)

        return get_node_visitors

    modules = (qnn_preprocess, node_visitor_manager)
    return all_of(replaced(m, "get_node_visitors", hooked(m.get_node_visitors)) for m in modules)


def builders(
    names: Mapping[str, str],
    decide: Decider,
    accept: Callable[[str, Lowered, Mapping[str, Extra | None]], None],
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
    and lacks others (``tanh``, ``cos``, ...), so that a region ends at them.  Convolutions whose padding is a word
    begin one, as others do.
    """
    from executorch.backends.qualcomm._passes.layout_transform import LayoutTransform

    edges = edge_operators(targets)
    known = LayoutTransform.layout_agnostic_ops
    sensitive = LayoutTransform.layout_sensitive_ops
    more = {op for op in edges if layout.elementwise(edge_name(op)) and op not in sensitive}
    fewer = {op for op in edges if op in known and not layout.commutes(edge_name(op))}
    begin = {op for op in edges if edge_name(op) in layout.LAID_OUT}
    return all_of(
        [
            replaced(LayoutTransform, "layout_agnostic_ops", (set(known) | more) - fewer),
            replaced(LayoutTransform, "layout_sensitive_ops", set(sensitive) | begin),
        ]
    )


#: ATen operators whose index arguments PyTorch wants as int64, by position (ATen's schemas).
_INT64 = {
    "aten.scatter.value": 2, "aten.scatter.reduce": 2, "aten.scatter.value_reduce": 2,
    "aten.scatter_add.default": 2, "aten.scatter_reduce.two": 2, "aten.take.default": 1,
}  # fmt: skip


def int64_inputs(targets: Iterable[str]) -> Undo:
    """Indices of take and of scatter's forms stay int64 to PyTorch while ExecuTorch turns the rest into int32."""
    from executorch.backends.qualcomm._passes.i64_to_i32 import I64toI32

    wanted = {t: _INT64[t] for t in targets if t in _INT64}
    more = {op: [wanted[edge_name(op)]] for op in edge_operators(wanted)}
    return replaced(I64toI32, "I64_IN_OPS", {**I64toI32.I64_IN_OPS, **more})
