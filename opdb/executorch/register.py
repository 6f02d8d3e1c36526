"""Puts opdb's builders in the place of ExecuTorch's, and takes them out again.

ExecuTorch has no interface for this; what is touched is private to release 1.4.1, which is checked:

* ``node_visitor_manager._node_visitor_dict``: edge name -> builder class;
* ``get_skip_decomp_table``, the name bound in ``partition.qnn_partitioner`` and ``utils.utils``: ATen
  operators to keep whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opdb.errors import OpdbError
from opdb.executorch import env
from opdb.runtime.lowering import Reason

_forms: dict[str, str] = {}
_reasons: dict[str, tuple[Reason, ...]] = {}
_undo: list[Callable[[], None]] = []


def register(
    lower: Any, target: Any, targets: Iterable[str], *, whole: Iterable[str] = ()
) -> tuple[str, ...]:
    """Replaces the builders of ``targets`` by opdb's; the edge names that were taken over.

    ``lower``: ``lower(view, target) -> Lowered | Rejected`` (opdb.executorch.visitor.Lower).
    ``target``: passed on to it.  ``targets``: ATen names of the specs; ex) aten.view.default, which also
    takes over its edge form aten.view_copy.default.  ``whole``: operators among them that PyTorch would
    otherwise decompose before a builder sees them; ex) aten.softplus.default.

    Raises OpdbError when the process lacks the environment, for another executorch, for a name that is
    no ATen operator, and when builders are registered already.
    """
    env.require_active()
    if _undo:
        raise OpdbError("opdb's builders are registered already; call unregister() first")
    from executorch.backends.qualcomm.builders import node_visitor_manager

    from opdb.executorch.visitor import OpdbVisitor

    wanted = tuple(targets)
    names = {edge: name for name in wanted for edge in _edge_names(name)}
    names |= {name: name for name in wanted}  # a spec of the copying form itself goes first
    registry = node_visitor_manager._node_visitor_dict
    stock = {edge: registry[edge] for edge in names if edge in registry}
    visitor = type(
        "RegisteredVisitor",
        (OpdbVisitor,),
        {
            "target": list(names),
            "lower": staticmethod(lower),
            "lower_target": target,
            "names": names,
            "stock": stock,
            "accept": staticmethod(_accept),
            "reject": staticmethod(_reject),
        },
    )
    keep = [_overload(name) for name in whole]
    forget()
    node_visitor_manager.register_node_visitor(visitor)
    _undo.append(lambda: _restore(registry, names, stock))
    if keep:
        _keep_whole(keep)
    return tuple(names)


def unregister() -> None:
    """Puts back what ``register`` replaced; nothing happens when nothing is registered."""
    while _undo:
        _undo.pop()()


def reasons() -> dict[str, tuple[Reason, ...]]:
    """Edge nodes that opdb's builders rejected since ``register`` or ``forget``, with all reasons."""
    return dict(_reasons)


def forms() -> dict[str, str]:
    """Edge nodes that were accepted, with the lowering taken; ex) LayerNorm, or a decomposition's name."""
    return dict(_forms)


def forget() -> None:
    """Empties ``reasons`` and ``forms``; node names repeat from model to model."""
    _reasons.clear()
    _forms.clear()


def _accept(node: str, form: str) -> None:
    _reasons.pop(node, None)
    _forms[node] = form


def _reject(node: str, why: tuple[Reason, ...]) -> None:
    _forms.pop(node, None)
    _reasons[node] = why


def _restore(registry: dict[str, Any], names: Iterable[str], stock: Mapping[str, Any]) -> None:
    for edge in names:
        registry.pop(edge, None)
    registry.update(stock)


def _edge_names(name: str) -> tuple[str, ...]:
    """The operator itself, and the copying form that the edge dialect has in the place of a view."""
    import torch

    _overload(name)
    _, op, overload = name.split(".")
    copy = getattr(torch.ops.aten, f"{op}_copy", None)
    return (
        (name, f"aten.{op}_copy.{overload}") if copy is not None and overload in copy.overloads() else (name,)
    )


def _overload(name: str) -> Any:
    import torch

    namespace, _, rest = name.partition(".")
    op, _, overload = rest.partition(".")
    packet = getattr(torch.ops.aten, op, None) if namespace == "aten" and op else None
    if packet is None or overload not in packet.overloads():
        raise OpdbError(f"{name!r} is not an ATen operator of this PyTorch; ex) aten.relu.default")
    return getattr(packet, overload)


def _keep_whole(operators: list[Any]) -> None:
    from executorch.backends.qualcomm.partition import qnn_partitioner
    from executorch.backends.qualcomm.utils import utils

    for module in (qnn_partitioner, utils):
        stock = module.get_skip_decomp_table

        def extended(stock: Callable[[], list[Any]] = stock) -> list[Any]:
            table = stock()
            return table + [op for op in operators if op not in table]

        module.get_skip_decomp_table = extended
        _undo.append(lambda module=module, stock=stock: setattr(module, "get_skip_decomp_table", stock))  # type: ignore[misc]
