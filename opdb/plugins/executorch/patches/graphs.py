"""Small programs on which self-tests run an unpatched pass of ExecuTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


class Call(torch.nn.Module):  # type: ignore[misc]  # untyped base
    """A module that calls one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


def traced(function: Callable[..., Any], *inputs: Any) -> Any:
    """The graph of ATen operators that the passes of a quantizer see."""
    with torch.no_grad():
        return torch.export.export(module(function), inputs, strict=True).module(check_guards=False)


def edge(function: Callable[..., Any], *inputs: Any, whole: Sequence[Any] = ()) -> Any:
    """The edge program.  ``whole``: ATen operators that are not decomposed."""
    from executorch.exir import EdgeCompileConfig, to_edge

    config = EdgeCompileConfig(_check_ir_validity=False, preserve_ops=list(whole))
    with torch.no_grad():
        exported = torch.export.export(module(function), inputs, strict=True)
        return to_edge(exported, compile_config=config).exported_program()


def module(function: Callable[..., Any]) -> torch.nn.Module:
    return function if isinstance(function, torch.nn.Module) else Call(function)


def differs(changed: Any, function: Callable[..., Any], *inputs: torch.Tensor, error: float = 1e-5) -> bool:
    """True if a graph changed by a pass gives another result than PyTorch, or raises."""
    changed.recompile()
    try:
        with torch.no_grad():
            got = changed(*inputs)
    except Exception:  # anything that operators of the graph raise
        return True
    got = got[0] if isinstance(got, (tuple, list)) else got
    wanted = module(function)(*inputs)
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return True
    if not got.dtype.is_floating_point:
        return not torch.equal(got, wanted)
    return not torch.allclose(got.double(), wanted.double(), rtol=error, atol=error)


def raises(function: Callable[..., Any], *given: Any, **named: Any) -> bool:
    try:
        function(*given, **named)
    except Exception:  # anything that the release raises
        return True
    return False


def nodes(graph_module: Any, target: Any) -> list[Any]:
    return [n for n in graph_module.graph.nodes if n.target is target]


def edge_op(name: str) -> Any:
    """The edge dialect's operator for an ATen name, e.g. aten.relu.default."""
    from opdb.plugins.executorch.builder.operators import edge_operators

    return edge_operators([name])[0]


def per_tensor(scale: float = 0.05, zero_point: int = 3, dequantize: bool = False) -> dict[str, Any]:
    """A node's meta for an 8-bit encoding, in the form of ExecuTorch's passes."""
    from executorch.backends.qualcomm.utils import constants as key

    kind = "dequantize" if dequantize else "quantize"
    return {
        key.QCOM_ENCODING: edge_op(f"quantized_decomposed.{kind}_per_tensor.default"),
        key.QCOM_SCALE: scale,
        key.QCOM_ZERO_POINT: zero_point,
        key.QCOM_QUANT_MIN: 0,
        key.QCOM_QUANT_MAX: 255,
        key.QCOM_DTYPE: torch.uint8,
    }


def through(x: Any, scale: float = 0.05, zero_point: int = 3) -> Any:
    """Quantizes to 8 bits and dequantizes."""
    import torch.ao.quantization.fx._decomposed

    of = torch.ops.quantized_decomposed
    encoding = (scale, zero_point, 0, 255, torch.uint8)
    return of.dequantize_per_tensor(of.quantize_per_tensor(x, *encoding), *encoding)


def exported(function: Callable[..., Any], *inputs: Any) -> Any:
    """The undecomposed program of ATen operators."""
    with torch.no_grad():
        return torch.export.export(module(function), inputs, strict=True)
