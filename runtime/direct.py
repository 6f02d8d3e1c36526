"""The builder of ``torch.ops.qnn.<op>`` and ``torch.ops.<package>.<op>``: maps arguments one to one to the op.

opdb.programs.torch_ops defines the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.core.names import counted
from opdb.core.op_config import ParamConfig
from opdb.generated import validators
from opdb.generated.torch_ops import PACKAGES, SCALARS, SCHEMAS
from opdb.runtime.binding import Param, Signature
from opdb.runtime.forms import Form, Lowered, NodeView, one_op, require, scalar, tensor_param
from opdb.runtime.tensors import Rejection, TensorRef, reshape

#: The operator namespace of QNN's own ops; ops of another package use the package's name.
LIBRARY = "qnn"
#: QNN's own package.
OWN = "qti.aisw"


@dataclass(frozen=True)
class DirectForm(Form):
    """The form of a target such as qnn.<op>.default; ``name`` is the op."""

    package: str = OWN

    def build(self, node: NodeView) -> Lowered:
        used = [node.result_used(i) for i in range(len(node.results()))]
        return direct(self.name, node.arg, node.results(), used, self.package)


def targets() -> tuple[str, ...]:
    """All targets, e.g. qnn.Gru.default, OpdbCustom.DequantizeAdd.default."""
    return tuple(f"{library}.{op}.default" for library, ops in libraries().items() for op in ops)


def libraries() -> dict[str, dict[str, str]]:
    """The schemas of all operators, by namespace."""
    return {LIBRARY: SCHEMAS, **PACKAGES}


def forms(target: str) -> tuple[Form, ...]:
    """The form of a target of these libraries; () for any other target."""
    library, _, rest = target.partition(".")
    op = rest.removesuffix(".default")
    if op not in libraries().get(library, ()):
        return ()
    return (DirectForm(op, (op,), "", "", package=OWN if library == LIBRARY else library),)


def signature(op: str) -> Signature:
    module = validators.module(op)
    assert module is not None, op  # SCHEMAS and the validators come from the same catalog
    found: Signature = module.SIGNATURE
    return found


def direct(
    op: str,
    arg: Callable[[str], Any],
    results: Sequence[TensorRef],
    used: Sequence[bool] | None = None,
    package: str = OWN,
) -> Lowered:
    """Lowers ``op`` with the arguments that ``arg`` returns by name.  ``used``: True for each result that is read.

    Drops trailing optional results that are unread or have the shape [0].  Raises Rejection for a value that the
    parameter cannot have.
    """
    own = signature(op)
    if len(own.outputs) == 1 and own.outputs[0].variadic:
        outputs: dict[str, Any] = {own.outputs[0].name: list(results)}
    else:
        keep = len(results)
        while keep and own.outputs[keep - 1].optional and _absent(results, used, keep - 1):
            keep -= 1
        outputs = {s.name: t for s, t in zip(own.outputs, results[:keep], strict=False)}
    inputs = {s.name: arg(s.name) for s in own.inputs}
    inputs |= {n: reshape(t, ()) for n in SCALARS.get(op, ()) if (t := inputs[n]) is not None}
    params = [_param(op, p, value) for p in own.params if (value := arg(p.name)) is not None]
    return one_op(op, inputs=inputs, params=params, outputs=outputs, package=package)


def _absent(results: Sequence[TensorRef], used: Sequence[bool] | None, i: int) -> bool:
    return results[i].shape == (0,) or (used is not None and not used[i])


def _param(op: str, param: Param, value: Any) -> ParamConfig:
    if param.enum:
        numbers = {name: number for number, name in param.enum.items()}
        known = ", ".join(numbers)
        require(value in numbers, f"{op}: {param.name} must be one of {known}", (param.name, value))
        return scalar(param.name, param.dtype, numbers[value])
    if not param.dims:
        return scalar(param.name, param.dtype, value)
    width = param.dims[1] if len(param.dims) > 1 else None
    if width is None:
        return tensor_param(param.name, param.dtype, value)
    if len(value) % width:
        raise Rejection(f"{op}: {param.name} needs rows of {width}, got {counted(len(value), 'value')}")
    rows = [list(value[i : i + width]) for i in range(0, len(value), width)]
    return tensor_param(param.name, param.dtype, rows)
