"""Writes files/*.tflite with TensorFlow's converter; run by hand, with tensorflow-cpu 2.20 in a separate environment.

    python tests/programs/tflite/make_files.py tests/programs/tflite/files [NAME ...]

Each file has one operator or a small network, in floats unless its name has a suffix: ``8a8w`` and ``16a8w`` are fully quantized by
the converter on random samples, ``8w`` has only its weights in 8 bits, ``f16`` has float16 weights.  Weights are random.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

SAMPLES = 8
rng = np.random.default_rng(7)


def weight(*shape: int, scale: float = 0.3) -> Any:
    return tf.constant(rng.normal(size=shape).astype(np.float32) * scale)


IMAGE, WIDE, ROWS = (1, 8, 8, 6), (1, 7, 9, 4), (2, 5, 12)
NN, MATH, RAW = tf.nn, tf.math, tf.raw_ops
#: name -> (function, shapes of its inputs); each in floats and in 8 bits.
QUANTIZED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "abs": (tf.abs, [ROWS]),
    "add": (lambda x, y: x + y, [IMAGE, IMAGE]),
    "add_relu": (lambda x: NN.relu(x + weight(1, 1, 1, 6)), [IMAGE]),
    "average_pool_same": (lambda x: NN.avg_pool2d(x, 3, 2, "SAME"), [WIDE]),
    "average_pool_valid": (lambda x: NN.avg_pool2d(x, 2, 2, "VALID"), [IMAGE]),
    "batch_matmul": (lambda x, y: tf.matmul(x, y), [(2, 5, 8), (2, 8, 6)]),
    "batch_matmul_adjoint": (lambda x, y: tf.matmul(x, y, adjoint_b=True), [(2, 5, 8), (2, 6, 8)]),
    "batch_to_space": (lambda x: tf.batch_to_space(x, [2, 2], [[0, 1], [0, 0]]), [(4, 3, 4, 5)]),
    "broadcast_to": (lambda x: tf.broadcast_to(x, [2, 5, 12]), [(1, 5, 12)]),
    "concatenation": (lambda x, y: tf.concat([x, y], -1), [IMAGE, (1, 8, 8, 2)]),
    "conv": (lambda x: NN.bias_add(NN.conv2d(x, weight(3, 3, 6, 8), 1, "SAME"), weight(8)), [IMAGE]),
    "conv_dilated": (lambda x: NN.conv2d(x, weight(3, 3, 4, 8), 1, "VALID", dilations=2), [WIDE]),
    "conv_relu6_strided": (lambda x: NN.relu6(NN.conv2d(x, weight(3, 3, 4, 8), 2, "SAME") + weight(8)), [WIDE]),
    "conv_grouped": (lambda x: NN.conv2d(x, weight(3, 3, 3, 8), 1, "SAME"), [IMAGE]),
    "depthwise": (lambda x: NN.depthwise_conv2d(x, weight(3, 3, 6, 1), [1, 1, 1, 1], "SAME"), [IMAGE]),
    "depthwise_multiplier": (lambda x: NN.depthwise_conv2d(x, weight(3, 3, 4, 2), [1, 2, 2, 1], "SAME"), [WIDE]),
    "depth_to_space": (lambda x: NN.depth_to_space(x, 2), [(1, 4, 4, 8)]),
    "div": (lambda x, y: x / (MATH.abs(y) + 1.0), [ROWS, ROWS]),
    "elu": (NN.elu, [ROWS]),
    "embedding": (lambda x: tf.gather(x, tf.constant([3, 0, 3, 1])), [(5, 8)]),
    "exp": (tf.exp, [ROWS]),
    "fully_connected": (lambda x: NN.relu(tf.matmul(x, weight(12, 7)) + weight(7)), [(4, 12)]),
    "fully_connected_rows": (lambda x: tf.tensordot(x, weight(12, 7), 1), [ROWS]),
    "gather": (lambda x: tf.gather(x, tf.constant([2, 0]), axis=1), [ROWS]),
    "gather_nd": (lambda x: tf.gather_nd(x, tf.constant([[0, 1], [1, 3]])), [ROWS]),
    "gelu": (lambda x: NN.gelu(x), [ROWS]),
    "gelu_tanh": (lambda x: NN.gelu(x, approximate=True), [ROWS]),
    "greater": (lambda x, y: x > y, [ROWS, ROWS]),
    "hard_swish": (lambda x: x * NN.relu6(x + 3.0) * (1.0 / 6.0), [IMAGE]),
    "l2_normalize": (lambda x: NN.l2_normalize(x, -1), [(4, 12)]),
    "leaky_relu": (lambda x: NN.leaky_relu(x, 0.1), [IMAGE]),
    "log_softmax": (lambda x: NN.log_softmax(x), [(4, 12)]),
    "logistic": (tf.sigmoid, [IMAGE]),
    "max_pool_same": (lambda x: NN.max_pool2d(x, 3, 2, "SAME"), [WIDE]),
    "maximum": (lambda x, y: tf.maximum(x, y), [ROWS, ROWS]),
    "mean_axes": (lambda x: tf.reduce_mean(x, [1, 2]), [IMAGE]),
    "mean_keep": (lambda x: tf.reduce_mean(x, -1, keepdims=True), [ROWS]),
    "minimum": (lambda x, y: tf.minimum(x, y), [ROWS, ROWS]),
    "mirror_pad": (lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]], "REFLECT"), [IMAGE]),
    "mul": (lambda x, y: x * y, [ROWS, (12,)]),
    "neg": (lambda x: -x, [ROWS]),
    "pack": (lambda x, y: tf.stack([x, y], 1), [(2, 12), (2, 12)]),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 2], [2, 1], [0, 0]]), [IMAGE]),
    "padv2": (lambda x: tf.pad(x, [[0, 0], [0, 1], [1, 0]], constant_values=-1.0), [ROWS]),
    "prelu": (lambda x: NN.relu(x) - weight(6) * NN.relu(-x), [IMAGE]),
    "reduce_max": (lambda x: tf.reduce_max(x, -1), [ROWS]),
    "reduce_min": (lambda x: tf.reduce_min(x, 1, keepdims=True), [ROWS]),
    "relu": (NN.relu, [IMAGE]),
    "relu6": (NN.relu6, [IMAGE]),
    "reshape": (lambda x: tf.reshape(x, [5, -1]), [ROWS]),
    "resize_bilinear": (lambda x: tf.compat.v1.image.resize_bilinear(x, [13, 16]), [IMAGE]),
    "resize_bilinear_corners": (
        lambda x: tf.compat.v1.image.resize_bilinear(x, [13, 16], align_corners=True), [IMAGE]
    ),
    "resize_bilinear_half": (lambda x: tf.image.resize(x, [12, 20]), [IMAGE]),
    "resize_nearest": (lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, [16, 24]), [IMAGE]),
    "resize_nearest_half": (lambda x: tf.image.resize(x, [12, 16], "nearest"), [IMAGE]),
    "reverse": (lambda x: tf.reverse(x, [1]), [ROWS]),
    "rsqrt": (lambda x: MATH.rsqrt(MATH.abs(x) + 0.5), [ROWS]),
    "select": (lambda x, y: tf.where(x > 0.0, x, y), [ROWS, ROWS]),
    "slice": (lambda x: tf.slice(x, [0, 1, 2], [2, 3, -1]), [ROWS]),
    "softmax": (NN.softmax, [ROWS]),
    "space_to_batch": (lambda x: tf.space_to_batch(x, [2, 2], [[1, 0], [0, 0]]), [(1, 7, 8, 5)]),
    "space_to_depth": (lambda x: NN.space_to_depth(x, 2), [IMAGE]),
    "split": (lambda x: tf.split(x, 3, -1), [ROWS]),
    "split_v": (lambda x: tf.split(x, [2, 3, 7], -1), [ROWS]),
    "sqrt": (lambda x: tf.sqrt(MATH.abs(x)), [ROWS]),
    "squared_difference": (lambda x, y: MATH.squared_difference(x, y), [ROWS, ROWS]),
    "squeeze": (lambda x: tf.squeeze(x, 0), [IMAGE]),
    "strided_slice": (lambda x: x[:, 4:0:-2, 1], [ROWS]),
    "sub": (lambda x, y: x - y, [ROWS, (5, 1)]),
    "sum": (lambda x: tf.reduce_sum(x, [1, 2]), [ROWS]),
    "tanh": (tf.tanh, [ROWS]),
    "tile": (lambda x: tf.tile(x, [1, 2, 1]), [ROWS]),
    "transpose": (lambda x: tf.transpose(x, [0, 3, 1, 2]), [IMAGE]),
    "transpose_conv": (
        lambda x: NN.conv2d_transpose(x, weight(3, 3, 5, 6), [1, 16, 16, 5], 2, "SAME") + weight(5), [IMAGE]
    ),
    "transpose_conv_valid": (
        lambda x: NN.conv2d_transpose(x, weight(2, 2, 5, 6), [1, 16, 16, 5], 2, "VALID"), [IMAGE]
    ),
    "unpack": (lambda x: tf.unstack(x, axis=1), [(2, 3, 12)]),
}  # fmt: skip
#: In floats alone.
FLOATS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "argmax": (lambda x: tf.argmax(x, -1), [ROWS]),
    "argmin": (lambda x: tf.argmin(x, 1, tf.int32), [ROWS]),
    "cast": (lambda x: tf.cast(x * 10.0, tf.int32), [ROWS]),
    "ceil": (MATH.ceil, [ROWS]),
    "conv3d": (lambda x: NN.conv3d(x, weight(2, 3, 3, 3, 4), [1, 1, 1, 1, 1], "SAME"), [(1, 4, 6, 6, 3)]),
    "cos": (tf.cos, [ROWS]),
    "cumsum": (lambda x: tf.cumsum(x, 1), [ROWS]),
    "cumsum_exclusive": (lambda x: tf.cumsum(x, -1, exclusive=True, reverse=True), [ROWS]),
    "dynamic_update_slice": (
        lambda x, y: gen_xla_ops.xla_dynamic_update_slice(x, y, tf.constant([0, 2, 0])), [ROWS, (2, 2, 12)]
    ),
    "equal": (lambda x, y: MATH.equal(tf.sign(x), tf.sign(y)), [ROWS, ROWS]),
    "expand_dims": (lambda x: tf.expand_dims(x, 1), [ROWS]),
    "floor": (tf.floor, [ROWS]),
    "floor_div": (lambda x, y: MATH.floordiv(x, MATH.abs(y) + 1.0), [ROWS, ROWS]),
    "floor_mod": (lambda x, y: MATH.floormod(x, MATH.abs(y) + 1.0), [ROWS, ROWS]),
    "less_equal_and": (lambda x, y: tf.logical_and(x <= y, x >= -y), [ROWS, ROWS]),
    "local_response_normalization": (lambda x: NN.local_response_normalization(x, 2, 1.0, 0.3, 0.6), [IMAGE]),
    "log": (lambda x: MATH.log(MATH.abs(x) + 0.1), [ROWS]),
    "logical": (lambda x, y: tf.logical_not(tf.logical_or(x > 0.0, y > 0.0)), [ROWS, ROWS]),
    "mirror_pad_symmetric": (lambda x: tf.pad(x, [[0, 0], [1, 1], [2, 1]], "SYMMETRIC"), [ROWS]),
    "not_equal": (lambda x, y: tf.sign(x) != tf.sign(y), [ROWS, ROWS]),
    "one_hot": (lambda x: tf.one_hot(tf.cast(MATH.abs(x) * 3.0, tf.int32), 6), [(2, 5)]),
    "pow": (lambda x, y: MATH.pow(MATH.abs(x) + 0.1, y), [ROWS, ROWS]),
    "reduce_all": (lambda x: tf.reduce_all(x > -1.0, -1), [ROWS]),
    "reduce_any": (lambda x: tf.reduce_any(x > 1.5, -1), [ROWS]),
    "reduce_prod": (lambda x: tf.reduce_prod(x, -1), [ROWS]),
    "round": (MATH.round, [ROWS]),
    "sign": (tf.sign, [ROWS]),
    "sin": (tf.sin, [ROWS]),
    "square": (MATH.square, [ROWS]),
    "topk": (lambda x: NN.top_k(x, 3), [ROWS]),
    "where": (lambda x: tf.where(x > 0.0), [(4, 5)]),
}  # fmt: skip


class MobileBlocks(tf.Module):
    """Two inverted bottlenecks with squeeze and excitation, a pooled head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = weight(3, 3, 3, 8)
        shapes = [(1, 1, 8, 24), (3, 3, 24, 1), (24, 6), (6, 24), (1, 1, 24, 8)]
        self.blocks = [[weight(*shape) for shape in shapes] for _ in range(2)]
        self.head = weight(8, 10)

    def __call__(self, x: Any) -> Any:
        x = NN.relu6(NN.conv2d(x, self.stem, 2, "SAME"))
        for wide, depthwise, down, up, narrow in self.blocks:
            y = NN.relu6(NN.conv2d(x, wide, 1, "SAME"))
            y = NN.relu6(NN.depthwise_conv2d(y, depthwise, [1, 1, 1, 1], "SAME"))
            s = tf.reduce_mean(y, [1, 2])
            s = tf.sigmoid(tf.matmul(NN.relu(tf.matmul(s, down)), up))
            x = x + NN.conv2d(y * s[:, None, None, :], narrow, 1, "SAME")
        return NN.softmax(tf.matmul(tf.reduce_mean(x, [1, 2]), self.head))


class Attention(tf.Module):
    """A transformer's block: two heads of 8, an MLP, layer norms."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = weight(16, 48), weight(16, 16)
        self.up, self.down = weight(16, 32), weight(32, 16)

    def norm(self, x: Any) -> Any:
        mean = tf.reduce_mean(x, -1, keepdims=True)
        return (x - mean) * MATH.rsqrt(
            tf.reduce_mean(MATH.squared_difference(x, mean), -1, keepdims=True) + 1e-5
        )

    def __call__(self, x: Any) -> Any:
        q, k, v = tf.split(tf.tensordot(self.norm(x), self.qkv, 1), 3, -1)
        q, k, v = (tf.transpose(tf.reshape(t, [1, 6, 2, 8]), [0, 2, 1, 3]) for t in (q, k, v))
        weights = NN.softmax(tf.matmul(q, k, transpose_b=True) * 0.35)
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [1, 6, 16])
        x = x + tf.tensordot(mixed, self.out, 1)
        return x + tf.tensordot(NN.gelu(tf.tensordot(self.norm(x), self.up, 1)), self.down, 1)


NETWORKS = {"mobile_blocks": (MobileBlocks(), [(1, 32, 32, 3)]), "attention": (Attention(), [(1, 6, 16)])}


def convert(function: Callable[..., Any], shapes: list[tuple[int, ...]], form: str) -> bytes:
    owner = function if isinstance(function, tf.Module) else None
    called = tf.function(lambda *x: function(*x), [tf.TensorSpec(s, tf.float32) for s in shapes])
    made = tf.lite.TFLiteConverter.from_concrete_functions([called.get_concrete_function()], owner)

    def samples() -> Iterator[list[Any]]:
        for _ in range(SAMPLES):
            yield [rng.normal(size=s).astype(np.float32) for s in shapes]

    if form:
        made.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "f16":
        made.target_spec.supported_types = [tf.float16]
    elif form in ("8a8w", "16a8w"):
        made.representative_dataset = samples
        sets = tf.lite.OpsSet
        eight = form == "8a8w"
        made.target_spec.supported_ops = [
            sets.TFLITE_BUILTINS_INT8
            if eight
            else sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        ]
        made.inference_input_type = made.inference_output_type = tf.int8 if eight else tf.int16
    return bytes(made.convert())


def main(folder: Path, wanted: list[str]) -> None:
    forms = [(name, case, form) for name, case in QUANTIZED.items() for form in ("", "8a8w")]
    forms += [(name, case, "") for name, case in FLOATS.items()]
    forms += [
        (name, QUANTIZED[name], "16a8w") for name in ("add", "conv", "fully_connected", "logistic", "softmax")
    ]
    forms += [(name, QUANTIZED[name], form) for name in ("conv", "fully_connected") for form in ("8w", "f16")]
    forms += [
        (name, case, form) for name, case in NETWORKS.items() for form in ("", "8a8w", "16a8w", "8w", "f16")
    ]
    for name, (function, shapes), form in forms:
        if wanted and name not in wanted:
            continue
        file = folder / f"{name}{'-' if form else ''}{form}.tflite"
        try:
            file.write_bytes(convert(function, shapes, form))
        except Exception as error:
            lines = str(error).splitlines()
            why = f"{type(error).__name__}: {lines[0][:150] if lines else ''}"
            sys.stderr.write(f"{file.name}: not converted: {why}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
