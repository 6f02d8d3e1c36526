"""GroupQueryAttention against ONNX Runtime's kernel, whose op it is modeled on, and against PyTorch's attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.measure.conformance.executors.torch_oracle import compute
from opdb.runtime import native
from opdb.runtime.native import KernelError

pytestmark = pytest.mark.native

SHORTS = {"f4": "f32", "i4": "i32", "i8": "i64"}
SIZE = 16  # of a head: ONNX Runtime turns only multiples of 16


class Call:
    """The inputs of one call, by QNN's names, and its config; ``present``: rows of the output caches, 0 for none."""

    def __init__(
        self, seq: int, past: int, seqlens: list[int], total: int, present: int, heads: tuple[int, int] = (4, 2),
        packed: bool = False, turns: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        rng, n, (own, shared) = np.random.default_rng(5), len(seqlens), heads
        angles = rng.uniform(0, 6, (64, SIZE // 2))

        def made(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape, np.float32)

        self.given: dict[str, np.ndarray | None] = {
            "query": made(n, seq, (own + 2 * shared * packed) * SIZE),
            "seqlens_k": np.array(seqlens, np.int32),
            "total_sequence_length": np.array(total, np.int32),
            "key": None if packed else made(n, seq, shared * SIZE),
            "value": None if packed else made(n, seq, shared * SIZE),
            "past_key": made(n, shared, past, SIZE) if past else None,
            "past_value": made(n, shared, past, SIZE) if past else None,
            "cos_cache": np.cos(angles).astype(np.float32) if turns else None,
            "sin_cache": np.sin(angles).astype(np.float32) if turns else None,
            "position_ids": more.get("position_ids"),
            "attention_bias": more.get("attention_bias"),
        }
        self.params = {"num_heads": own, "kv_num_heads": shared, "do_rotary": int(turns)}
        self.scale = {"scale": more["scale"]} if "scale" in more else {}
        caches = [(n, shared, present, SIZE)] * 2 if present else []
        self.config = OpConfig(
            "GroupQueryAttention",
            tuple(
                TensorConfig(name, "f32", (), "NULL") if a is None else TensorConfig(name, SHORTS[a.dtype.str[1:]], a.shape)
                for name, a in self.given.items()
            ),
            (
                *(ParamConfig(name, "u32", value) for name, value in self.params.items()),
                *(ParamConfig(name, "f32", value) for name, value in self.scale.items()),
            ),
            tuple(TensorConfig("", "f32", s) for s in [(n, seq, own * SIZE), *caches]),
        )  # fmt: skip

    def run(self) -> list[np.ndarray]:
        """The kernel's results; checks that PyTorch's are the same."""
        arrays = list(self.given.values())
        got = native.run(self.config, arrays)
        for have, want in zip(got, compute(self.config, arrays), strict=True):
            assert np.allclose(have, want, rtol=1e-5, atol=2e-6)
        return got

    def onnx(self) -> list[np.ndarray]:
        """The results of ONNX Runtime's CPU kernel."""
        runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
        helper = onnx.helper
        names = [
            "query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache",
            "sin_cache", "position_ids", "attention_bias",
        ]  # fmt: skip
        given = {k: np.atleast_1d(self.given[k]) for k in names if self.given[k] is not None}
        node = helper.make_node(
            "GroupQueryAttention", [n if n in given else "" for n in names], ["y", "k", "v"], domain="com.microsoft",
            **self.params, **self.scale,
        )  # fmt: skip
        shown = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ]
        made = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("y", "k", "v")]
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(
            helper.make_graph([node], "g", shown, made), opset_imports=sets, ir_version=10
        )
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, given))


def bias(*shape: int) -> np.ndarray:
    return np.random.default_rng(6).standard_normal(shape, np.float32)


CALLS: dict[str, dict[str, Any]] = {
    "prompt": {"seq": 5, "past": 0, "seqlens": [4], "total": 5, "present": 5},
    "prompt of two batches, turned": {"seq": 5, "past": 0, "seqlens": [4, 4], "total": 5, "present": 5, "turns": True},
    "prompt into a cache that has rows": {"seq": 4, "past": 9, "seqlens": [3], "total": 4, "present": 9, "turns": True},
    "one token": {"seq": 1, "past": 16, "seqlens": [7], "total": 8, "present": 16, "turns": True},
    "one token, batches of other lengths": {
        "seq": 1, "past": 16, "seqlens": [7, 4, 0], "total": 8, "present": 16, "turns": True,
    },
    "a cache that grows": {"seq": 1, "past": 7, "seqlens": [7], "total": 8, "present": 8},
    "several tokens after others": {"seq": 4, "past": 16, "seqlens": [9], "total": 10, "present": 16, "turns": True},
    "more rows than are multiplied at once": {"seq": 50, "past": 0, "seqlens": [49], "total": 50, "present": 50, "turns": True},
    "packed": {"seq": 5, "past": 0, "seqlens": [4, 4], "total": 5, "present": 5, "packed": True, "turns": True},
    "one key head": {"seq": 3, "past": 0, "seqlens": [2], "total": 3, "present": 3, "heads": (6, 1)},
    "as many key heads": {"seq": 3, "past": 0, "seqlens": [2], "total": 3, "present": 3, "heads": (3, 3)},
    "a scale": {"seq": 3, "past": 0, "seqlens": [2], "total": 3, "present": 3, "scale": 0.75},
    "positions": {
        "seq": 3, "past": 0, "seqlens": [2], "total": 3, "present": 3, "turns": True, "position_ids": np.array([[7, 8, 9]]),
    },
    "a bias for all heads": {"seq": 4, "past": 0, "seqlens": [3, 3], "total": 4, "present": 4, "attention_bias": bias(1, 1, 4, 4)},
    "a bias of each": {"seq": 4, "past": 0, "seqlens": [3, 3], "total": 4, "present": 4, "attention_bias": bias(2, 4, 4, 4)},
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_kernel_matches_onnx_runtime(name: str) -> None:
    call = Call(**CALLS[name])
    for have, want in zip(call.run(), call.onnx(), strict=True):
        assert np.allclose(have, want, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", CALLS)
def test_output_caches_are_optional(name: str) -> None:
    (alone,) = Call(**CALLS[name] | {"present": 0}).run()
    assert np.array_equal(alone, Call(**CALLS[name]).run()[0])


def test_prompts_may_have_different_lengths() -> None:
    """Rows after a prompt's end are undefined."""
    call = Call(seq=4, past=0, seqlens=[3, 1], total=4, present=4, turns=True)
    for have, want in zip(call.run(), call.onnx(), strict=True):
        rows = have.ndim - 2  # the axis of the sequence, in one batch
        assert np.allclose(have[0], want[0], rtol=1e-5, atol=2e-6)
        assert np.allclose(*(a[1].take(range(2), rows - 1) for a in (have, want)), rtol=1e-5, atol=2e-6)


def test_positions_may_have_gaps() -> None:
    """Each row is rotated by its own position; ONNX Runtime reads only the first of a prompt, so PyTorch is the reference."""
    ids = np.array([[7, 0, 63], [1, 1, 0]])
    given = {"seq": 3, "past": 0, "seqlens": [2, 2], "total": 3, "present": 3, "turns": True}
    own, usual = Call(**given, position_ids=ids).run(), Call(**given).run()
    assert not np.allclose(own[0], usual[0], atol=0.01)


def test_a_token_does_not_see_later_ones() -> None:
    first = Call(seq=6, past=0, seqlens=[5], total=6, present=6)
    second = Call(seq=6, past=0, seqlens=[5], total=6, present=6)
    for name in ("key", "value"):
        changed = second.given[name]
        assert changed is not None
        changed[:, 4:] = 10  # with more, sums in float are too far off for `run`
    assert np.array_equal(first.run()[0][:, :4], second.run()[0][:, :4])


def test_decoding_token_by_token_equals_the_whole_prompt() -> None:
    """The cache of each step is the past of the next."""
    whole = Call(seq=6, past=0, seqlens=[5, 5], total=6, present=6, turns=True)
    cache = [np.zeros((2, 2, 6, SIZE), np.float32)] * 2
    rows = []
    for i in range(6):
        step = Call(seq=1, past=6, seqlens=[i, i], total=i + 1, present=6, turns=True)
        for name in ("query", "key", "value"):
            every = whole.given[name]
            assert every is not None
            step.given[name] = every[:, i : i + 1]
        step.given |= dict(zip(("past_key", "past_value"), cache, strict=True))
        row, *cache = step.run()
        rows.append(row)
    y, *presents = whole.run()
    assert np.allclose(np.concatenate(rows, 1), y, rtol=1e-5, atol=2e-6)
    assert all(np.array_equal(a, b) for a, b in zip(cache, presents, strict=True))


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"seqlens": [16]}, "too small"),
        ({"seqlens": [17]}, "outside"),
        ({"seqlens": [-1]}, "outside"),
        ({"seqlens": [2**31 - 1]}, "outside"),
        ({"past": 0}, "outside"),
        ({"turns": True, "position_ids": np.array([[64]])}, "outside"),
        ({"turns": True, "position_ids": np.array([[-1]])}, "outside"),
        ({"heads": (5, 2)}, "unsupported"),
    ],
)
def test_out_of_range_inputs_are_rejected(changes: dict[str, Any], answer: str) -> None:
    call = Call(**{"seq": 1, "past": 16, "seqlens": [7], "total": 8, "present": 16} | changes)
    with pytest.raises(KernelError, match=answer):
        native.run(call.config, list(call.given.values()))


def test_a_bias_shorter_than_the_past_is_rejected() -> None:
    call = Call(seq=2, past=0, seqlens=[1], total=2, present=2, attention_bias=bias(1, 1, 2, 1))
    with pytest.raises(KernelError, match="outside"):
        native.run(call.config, list(call.given.values()))


def test_keys_of_a_different_length_are_unsupported() -> None:
    call = Call(seq=2, past=0, seqlens=[1], total=2, present=2)
    longer = Call(seq=3, past=0, seqlens=[2], total=3, present=3)
    inputs = [longer.config.inputs[i] if i in (3, 4) else t for i, t in enumerate(call.config.inputs)]
    arrays = [longer.given[k] if k in ("key", "value") else a for k, a in call.given.items()]
    config = OpConfig(call.config.op, tuple(inputs), call.config.params, call.config.outputs)
    with pytest.raises(KernelError, match="unsupported"):
        native.run(config, arrays)
