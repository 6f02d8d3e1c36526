"""LSTM, GRU and RNN, written out step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Unreadable, Value

ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "Affine": lambda x, alpha=1.0, beta=0.0: x * alpha + beta,
    "Elu": lambda x, alpha=1.0: functional.elu(x, alpha),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: torch.clamp(x * alpha + beta, 0.0, 1.0),
    "LeakyRelu": lambda x, alpha=0.01: functional.leaky_relu(x, alpha),
    "Relu": torch.relu,
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: torch.tanh(x * beta) * alpha,
    "Sigmoid": torch.sigmoid,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "Tanh": torch.tanh,
    "ThresholdedRelu": lambda x, alpha=1.0: functional.threshold(x, alpha, 0.0),
}
#: Operator -> number of gates, default activations.
KINDS = {"GRU": (3, ("Sigmoid", "Tanh")), "LSTM": (4, ("Sigmoid", "Tanh", "Tanh")), "RNN": (1, ("Tanh",))}


@dataclass(frozen=True)
class Cell:
    """One direction: weights [gates * hidden, input], [gates * hidden, hidden], biases [gates * hidden]."""

    node: Node
    weight: Tensor
    recurrent: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    peepholes: Tensor | None
    activations: list[Callable[[Tensor], Tensor]]

    def gates(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.input_bias)

    def clipped(self, x: Tensor) -> Tensor:
        limit = self.node.get("clip")
        return x if limit is None else torch.clamp(x, -limit, limit)

    def step(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return {"GRU": self._gru, "LSTM": self._lstm, "RNN": self._rnn}[self.node.op](gates, h, c)

    def _rnn(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, None]:
        f = self.activations[0]
        return f(self.clipped(gates + functional.linear(h, self.recurrent, self.hidden_bias))), None

    def _gru(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, None]:
        f, g = self.activations
        size = h.shape[-1]
        update, reset, new = gates.split(size, -1)
        if self.node.get("linear_before_reset", 0):
            of_z, of_r, of_h = functional.linear(h, self.recurrent, self.hidden_bias).split(size, -1)
            z, r = f(self.clipped(update + of_z)), f(self.clipped(reset + of_r))
            n = g(self.clipped(new + r * of_h))
        else:
            bias = self.hidden_bias
            zr = functional.linear(h, self.recurrent[: 2 * size], None if bias is None else bias[: 2 * size])
            z, r = (f(self.clipped(a + b)) for a, b in zip((update, reset), zr.split(size, -1), strict=True))
            n = g(
                self.clipped(
                    new
                    + functional.linear(
                        r * h, self.recurrent[2 * size :], None if bias is None else bias[2 * size :]
                    )
                )
            )
        return (1 - z) * n + z * h, None

    def _lstm(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor]:
        """ONNX's order of gates: input, output, forget, cell; peepholes: input, output, forget."""
        assert c is not None
        f, g, last = self.activations
        size = h.shape[-1]
        i, o, forget, new = (gates + functional.linear(h, self.recurrent, self.hidden_bias)).split(size, -1)
        of_i, of_o, of_f = (None,) * 3 if self.peepholes is None else self.peepholes.split(size, -1)
        if of_i is not None:
            i, forget = i + of_i * c, forget + of_f * c
        i, forget = f(self.clipped(i)), f(self.clipped(forget))
        c = forget * c + i * g(self.clipped(new))
        if of_o is not None:
            o = o + of_o * c
        return f(self.clipped(o)) * last(c), c


def _activations(node: Node, direction: int) -> list[Callable[[Tensor], Tensor]]:
    default = KINDS[node.op][1]
    names = node.get("activations") or list(default)
    first = direction * len(default) if len(names) > len(default) else 0
    alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
    if (alphas or betas) and direction:
        raise Unreadable("numbers of activations in two directions")

    def made(name: str) -> Callable[[Tensor], Tensor]:
        if name not in ACTIVATIONS:
            raise Unreadable(f"the activation '{name}' is unknown")
        numbers = {}
        if name in ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu") and alphas:
            numbers["alpha"] = alphas.pop(0)
        if name in ("Affine", "HardSigmoid", "ScaledTanh") and betas:
            numbers["beta"] = betas.pop(0)
        return lambda x: ACTIVATIONS[name](x, **numbers)

    return [made(n) for n in names[first : first + len(default)]]


def _recurrent(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Value = None,
    h0: Tensor | None = None, c0: Tensor | None = None, p: Tensor | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """``x`` [steps, batch, input], or [batch, steps, input] with layout 1; results Y, Y_h and, for LSTM, Y_c."""
    if node.get("input_forget", 0):
        raise Unreadable("coupled input and forget gates")
    layout = node.get("layout", 0)
    x = x.transpose(0, 1) if layout else x
    steps, batch, _ = x.shape
    known = node.ints("sequence_lens", lengths)
    if known is not None and any(n != steps for n in known):
        raise Unreadable("sequences that are shorter than the others")
    way = node.get("direction", "forward")
    size = r.shape[-1]
    results, last_h, last_c = [], [], []
    for d in range(w.shape[0]):
        of_input, of_hidden = (None, None) if b is None else b[d].chunk(2)
        of_cell = None if p is None else p[d]
        cell = Cell(node, w[d], r[d], of_input, of_hidden, of_cell, _activations(node, d))
        h = x.new_zeros(batch, size) if h0 is None else (h0[:, d] if layout else h0[d])
        c = None if node.op != "LSTM" else x.new_zeros(batch, size)
        if c0 is not None:
            c = c0[:, d] if layout else c0[d]
        gates, made = cell.gates(x), []
        backwards = way == "reverse" or d == 1
        for t in reversed(range(steps)) if backwards else range(steps):
            h, c = cell.step(gates[t], h, c)
            made.append(h)
        results.append(torch.stack(made[::-1] if backwards else made))
        last_h.append(h)
        last_c.append(c)
    y = torch.stack(results, 1)  # [steps, directions, batch, hidden]
    ends = [torch.stack(last_h), *([torch.stack(last_c)] if node.op == "LSTM" else [])]
    if layout:
        y, ends = y.permute(2, 0, 1, 3), [e.transpose(0, 1) for e in ends]
    return y, *ends


OPERATORS = {name: Operator(_recurrent, known=(4,)) for name in KINDS}
