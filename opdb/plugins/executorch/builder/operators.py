"""Operators of PyTorch and of ExecuTorch's edge dialect by their names in specs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opdb.core.errors import OpdbError

#: The edge dialect's replacements of ATen operators, other than copying forms of views.
EDGE_FORMS = {"aten._to_copy.default": "dim_order_ops._to_dim_order_copy.default"}


def edge_names(name: str) -> tuple[str, ...]:
    """The operator itself, and its replacements in the edge dialect; e.g. the copying form of a view."""
    import torch

    overload(name)
    namespace, op, overload_name = name.split(".")
    copy = getattr(getattr(torch.ops, namespace), f"{op}_copy", None)
    has = copy is not None and overload_name in copy.overloads()
    more = (f"{namespace}.{op}_copy.{overload_name}",) if has else ()
    return (name, *more, *((EDGE_FORMS[name],) if name in EDGE_FORMS else ()))


def overload(name: str) -> Any:
    """PyTorch's operator of this name.  Raises OpdbError for an unknown name."""
    import torch

    namespace, _, rest = name.partition(".")
    op, _, overload_name = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None) if op and "." not in overload_name else None
    if packet is None or overload_name not in packet.overloads():
        if namespace != "aten" and overload_name:
            raise OpdbError(f"PyTorch knows no operator {name!r}; import the module that defines it first")
        raise OpdbError(f"{name!r} is not an ATen operator of this PyTorch; e.g. aten.relu.default")
    return getattr(packet, overload_name)


def edge_operators(targets: Iterable[str]) -> list[Any]:
    """The edge dialect's operators for these ATen targets, including their copying forms."""
    from executorch.exir.dialects._ops import ops as exir_ops

    found = []
    for target in targets:
        for name in edge_names(target):
            namespace, op, overload_name = name.split(".")
            found.append(getattr(getattr(getattr(exir_ops.edge, namespace), op), overload_name))
    return found


def edge_name(edge_operator: Any) -> str:
    return str(edge_operator.__name__)
