"""PyTorch's answers for transforms, rotations and recurrent cells."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.meaning import optional


def hadamard(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    n = inputs[0].shape[-1] if inputs[0].ndim else 1
    if n & (n - 1):
        raise NoOracle("the documents do not say what it is for a size that is no power of two")
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < n:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64), matrix)
    return [inputs[0] @ matrix * params.get("scale", 1.0)]


def stft(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    signal, window = inputs[0].squeeze(-1), optional(inputs, 1)
    length = params.get("frame_length", len(window) if window is not None else signal.shape[1])
    if length < 1:
        raise NoOracle("the documents do not say what a frame without numbers is")
    y = torch.stft(
        signal,
        length,
        hop_length=params["frame_step"],
        window=torch.ones(length, dtype=signal.dtype) if window is None else window,
        center=False,
        onesided=bool(params.get("onesided", True)),
        return_complex=True,
    )
    return [torch.view_as_real(y.transpose(1, 2))]


def logit(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    epsilon = optional(inputs, 1)
    return [torch.logit(inputs[0], None if epsilon is None else float(epsilon[0]))]


def rotary_embedding(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Multiplies pairs as complex numbers by those of the caches."""
    x, ids = inputs[0], optional(inputs, 3)
    size = params.get("rotary_embedding_dim", x.shape[-1])
    turned, kept = x[..., : size // 2 * 2], x[..., size // 2 * 2 :]
    turns = torch.complex(inputs[1], inputs[2])
    turns = (turns if ids is None else turns[ids.long()]).unsqueeze(1)
    if params.get("interleaved", False):
        pairs = torch.view_as_complex(turned.unflatten(-1, (-1, 2)).contiguous()) * turns
        return [torch.cat([torch.view_as_real(pairs).flatten(-2), kept], -1)]
    a, b = turned.chunk(2, -1)
    pairs = torch.complex(a, b) * turns
    return [torch.cat([pairs.real, pairs.imag, kept], -1)]


def group_query_attention(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """ONNX Runtime's GroupQueryAttention in terms of scaled_dot_product_attention; each batch separately.

    By its documents, seqlens_k is one less than a batch's total number of rows; rows before this call's are in the past.
    """
    query, seqlens, total, key, value, *rest = (*inputs, *[None] * 11)[:11]
    past_key, past_value, cos, sin, ids, bias = rest
    heads, kv_heads, seq = params["num_heads"], params["kv_num_heads"], query.shape[1]
    size = config.outputs[0].shape[2] // heads
    if heads % kv_heads or (key is not None and key.shape[1] != seq) or params.get("do_rotary", 0) > 1:
        raise NoOracle("the documents do not say which keys belong to which queries")
    if key is None:
        query, key, value = query.split([heads * size, kv_heads * size, kv_heads * size], -1)
    parts = [t.unflatten(-1, (-1, size)).transpose(1, 2) for t in (query, key, value)]
    made = []
    for n in range(len(query)):
        q, k, v = (t[n : n + 1] for t in parts)
        past = 0 if int(total) == seq else int(seqlens[n]) + 1 - seq
        if past < 0 or past > (0 if past_key is None else past_key.shape[2]):
            raise NoOracle("there are no such rows of the past")
        if params.get("do_rotary", 0):
            at = torch.arange(past, past + seq) if ids is None else ids[n].long()
            q, k = (rotary_embedding(config, [t, cos[at][None], sin[at][None]], {})[0] for t in (q, k))
        if past:
            k, v = (
                torch.cat([past_key[n : n + 1, :, :past], k], 2),
                torch.cat([past_value[n : n + 1, :, :past], v], 2),
            )
        mask = torch.full((seq, past + seq), -torch.inf, dtype=q.dtype).triu(past + 1)
        if bias is not None:
            mask = mask + bias[n if len(bias) > 1 else 0, :, :, : past + seq]
        y = F.scaled_dot_product_attention(q, k, v, mask, scale=params.get("scale"), enable_gqa=True)
        presents = [
            F.pad(t[0], (0, 0, 0, o.shape[2] - past - seq))
            for t, o in zip((k, v), config.outputs[1:], strict=False)
        ]
        made.append([y[0].transpose(0, 1).flatten(1), *presents])
    return [torch.stack(of_batches) for of_batches in zip(*made, strict=True)]


def lrn(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Multiplies alpha by the number of neighbors: PyTorch divides by it, QNN does not."""
    x, radius = inputs[0], params["radius"]
    alpha, beta, bias = params.get("alpha", 1.0), params.get("beta", 0.5), params.get("bias", 1.0)
    size = 2 * radius + 1
    if radius < 0:
        raise NoOracle("the documents do not say what a negative radius is")
    if params.get("region", 0) == 1:
        squares = F.avg_pool2d(
            torch.square(x).movedim(-1, 1), size, stride=1, padding=radius, divisor_override=1
        )
        return [x / (bias + alpha * squares.movedim(1, -1)) ** beta]
    rows = x.reshape(-1, x.shape[-1], 1)
    return [F.local_response_norm(rows, size, alpha * size, beta, bias).reshape(x.shape)]


def lstm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Runs step by step the cell of Android's NNAPI, whose parts it has.

    The documents leave a gate's output open; in QNN CPU 2.47 it is the argument of its function.
    """
    x = inputs[0]
    given = {t.name: v for t, v in zip(config.inputs, inputs, strict=True) if v is not None}
    if any(n.startswith("ln_") for n in given):
        raise NoOracle("the documents do not say what is added to a variance before its root is taken")
    if (
        len({n in given for n in ("w_xi", "w_hi", "b_i")}) > 1
        or len({n in given for n in ("w_cf", "w_co")}) > 1
    ):
        raise NoOracle("the documents want all parts of a gate, or none")
    units, outputs = given["w_xf"].shape[0], given["w_hf"].shape[1]
    if units != outputs and ("w_proj" not in given or any(t.name == "output_gate" for t in config.outputs)):
        raise NoOracle("the documents give the output gate as many numbers as the output has")
    timed = x.ndim == 3
    steps = x.unsqueeze(0) if not timed else x if params.get("time_major", True) else x.transpose(0, 1)
    if params.get("direction", 0) == 1:
        steps = torch.flip(steps, [0])
    batch = steps.shape[1]
    h = given.get("initial_h", torch.zeros(batch, outputs, dtype=x.dtype))
    c = given.get("initial_c", torch.zeros(batch, units, dtype=x.dtype))
    clip, output_clip = params.get("cell_clip_threshold", 0.0), params.get("output_clip_threshold", 0.0)

    def gate(name: str, step: T, state: T) -> T:
        y = F.linear(step, given[f"w_x{name}"], given[f"b_{name}"]) + F.linear(h, given[f"w_h{name}"])
        return y + state * given[f"w_c{name}"] if f"w_c{name}" in given else y

    sequence, into, forget, cell, out = [], c, c, c, c
    for step in steps:
        forget, cell = gate("f", step, c), gate("c", step, 0.0)
        into = gate("i", step, c) if "w_xi" in given else -forget
        c = torch.sigmoid(forget) * c + torch.sigmoid(into) * torch.tanh(cell)
        c = torch.clamp(c, -clip, clip) if clip > 0 else c
        out = gate("o", step, c)
        h = torch.sigmoid(out) * torch.tanh(c)
        if "w_proj" in given:
            h = F.linear(h, given["w_proj"], given.get("b_proj"))
            h = torch.clamp(h, -output_clip, output_clip) if output_clip > 0 else h
        sequence.append(h)
    return _over_time(config, params, sequence, timed, [c, h, into, forget, cell, out, h])


def _over_time(config: OpConfig, params: Params, steps: list[T], timed: bool, last: list[T]) -> list[T]:
    turned = steps[::-1] if params.get("direction", 0) == 1 else steps
    whole = torch.stack(turned)
    if not timed:
        whole = whole.squeeze(0)
    elif not params.get("time_major", True):
        whole = whole.transpose(0, 1)
    made = [whole, *last]
    return [m.reshape(t.shape) for m, t in zip(made, config.outputs, strict=False)]


def gru(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x = inputs[0]
    given = {t.name: v for t, v in zip(config.inputs, inputs, strict=True) if v is not None}
    steps = x if params.get("time_major", True) else x.transpose(0, 1)
    if params.get("direction", 0) == 1:
        steps = torch.flip(steps, [0])
    units = given["w_xz"].shape[0]
    h = given.get("initial_h", torch.zeros(1, steps.shape[1], units, dtype=x.dtype))[0]

    def into(name: str, step: T, state: T) -> tuple[T, T]:
        return (F.linear(step, given[f"w_x{name}"], given.get(f"b_x{name}")),
                F.linear(state, given[f"w_h{name}"], given.get(f"b_h{name}")))  # fmt: skip

    sequence = []
    for step in steps:
        update, reset = (torch.sigmoid(sum(into(n, step, h))) for n in ("z", "r"))
        if params.get("linear_before_reset", 0):
            from_x, from_h = into("n", step, h)
            new = torch.tanh(from_x + reset * from_h)
        else:
            new = torch.tanh(sum(into("n", step, reset * h)))
        h = (1 - update) * new + update * h
        sequence.append(h)
    return _over_time(config, params, sequence, True, [h])
