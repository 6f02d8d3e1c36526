"""The ranges that a PT2E quantizer chose, from the quantize nodes of its module."""

from __future__ import annotations

from typing import Any

from opdb.lower.quantize.ranges import TensorRange


def ranges_of(module: Any) -> dict[str, TensorRange]:
    """Maps the input node of each quantize_per_tensor node (torch.fx.GraphModule) to its range; folded weights are not included."""
    found = {}
    for node in module.graph.nodes:
        if str(node.target) == "quantized_decomposed.quantize_per_tensor.default":
            x, scale, zero, low, high, _ = node.args
            dtype = f"{'sq' if low < 0 else 'uq'}{8 if high < 256 else 16}"
            found[x.name] = TensorRange((low - zero) * scale, (high - zero) * scale, dtype, scale, -zero)
    return found
