"""GELU written as single operators between quantized tensors becomes one node; float chains and similar ones are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper, parser

from opdb.programs.onnx.chains import joined

ERF = "a = Div(d, root)  b = Erf(a)  c = Add(b, one)"
TANH = "s = Pow(d, three)  m = Mul(s, small)  i = Add(d, m)  o = Mul(i, wide)  b = Tanh(o)  c = Add(one, b)"
NUMBERS = {
    "root": 2**0.5,
    "one": 1.0,
    "half": 0.5,
    "three": 3.0,
    "small": 0.044715,
    "wide": (2 / np.pi) ** 0.5,
}


def operators(body: str, ends: bool = True) -> list[str]:
    """The remaining operators of x, the chain from d to e, and y."""
    first, last = "d = Identity(x)", "y = Identity(e)"
    if ends:
        first = "q = QuantizeLinear(x, step, z)  d = DequantizeLinear(q, step, z)"
        last = "f = QuantizeLinear(e, step, z)  y = DequantizeLinear(f, step, z)"
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) {{ {first} {body} {last} }}'
    )
    values = {name: np.float32(value).reshape(()) for name, value in NUMBERS.items()}
    held = {name: numpy_helper.to_array(numpy_helper.from_array(np.asarray(v))) for name, v in values.items()}
    return [n.op_type for n in joined(list(model.graph.node), ["y"], held) if n is not None]


@pytest.mark.parametrize(
    ("chain", "name"),
    [
        (f"{ERF}  g = Mul(d, c)  e = Mul(g, half)", "Gelu"),
        (f"{ERF}  g = Mul(half, d)  e = Mul(c, g)", "Gelu"),
        (f"{ERF}  g = Mul(c, half)  e = Mul(d, g)", "Gelu"),
        (f"{TANH}  g = Mul(d, half)  e = Mul(g, c)", "FastGelu"),
    ],
)
def test_written_out_gelu_becomes_one_node(chain: str, name: str) -> None:
    assert operators(chain) == [
        "QuantizeLinear",
        "DequantizeLinear",
        name,
        "QuantizeLinear",
        "DequantizeLinear",
    ]


@pytest.mark.parametrize(
    "chain",
    [
        f"{ERF}  g = Mul(d, c)  e = Mul(g, one)",  # twice GELU
        "a = Mul(d, root)  b = Erf(a)  c = Add(b, one)  g = Mul(d, c)  e = Mul(g, half)",
        f"{ERF}  g = Mul(d, c)  e = Mul(g, q)",
    ],
)
def test_similar_chains_are_unchanged(chain: str) -> None:
    assert "Erf" in operators(chain)


def test_float_gelu_is_unchanged() -> None:
    """The graph passes fuse it later."""
    assert "Erf" in operators(f"{ERF}  g = Mul(d, c)  e = Mul(g, half)", ends=False)


def test_a_chain_with_another_reader_is_unchanged() -> None:
    chain = f"{ERF}  g = Mul(d, c)  e = Mul(g, half)  h = QuantizeLinear(g, step, z)"
    assert "Erf" in operators(chain)
