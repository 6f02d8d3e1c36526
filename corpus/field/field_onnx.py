"""Cases of ONNX files: each function returns the model, in ONNX's textual syntax or made by its helpers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from field_case import case
from onnx import TensorProto, helper, numpy_helper

Weights = dict[str, Any]
node = helper.make_node
CONTRIB = "com.microsoft"
DEVICE = ("--soc", "SM8650")


def text(body: str, opset: int = 17, domain: str = "", **weights: Any) -> onnx.ModelProto:
    """The model of ``g (inputs) => (outputs) { nodes }``; ``weights`` are arrays, or ONNX tensors."""
    others = f', "{domain}" : 1' if domain else ""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}{others}]> {body}')
    for name, value in weights.items():
        held = value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        held.name = name
        model.graph.initializer.append(held)
    return model


def random(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype(np.float32)


# O1: floats on a chip without them.

NO_FP16: Any = {
    "said": "has no floating point on the NPU",
    "compile_options": ("--quantize", "8a8w", "--data", "random:1"),
    "results": False,
}


@case("O1", options=("--soc", "SM8635"), **NO_FP16)
def relu_v73() -> onnx.ModelProto:
    return text("g (float[1,8] x) => (float[1,8] y) { y = Relu(x) }")


@case("O1", options=("--soc", "SC8280X"), **NO_FP16)
def matmul_v68() -> onnx.ModelProto:
    return text("g (float[4,8] x) => (float[4,8] y) { y = MatMul(x, w) }", w=random(8, 8))


@case("O1", options=("--soc", "SM7475"), **NO_FP16)
def conv_v69() -> onnx.ModelProto:
    return text("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=random(4, 3, 3, 3))


@case("O1", options=("--soc", "SW6100"), **NO_FP16)
def softmax_v81() -> onnx.ModelProto:
    return text("g (float[4,8] x) => (float[4,8] y) { y = Softmax(x) }")


@case("O1", options=("--soc", "SM6450"), **NO_FP16)
def layer_norm_v73() -> onnx.ModelProto:
    return text(
        "g (float[4,8] x) => (float[4,8] y) { y = LayerNormalization<axis=-1>(x, w) }",
        w=np.ones(8, np.float32),
    )


@case("O1", options=("--soc", "SM8635"))
def quantized_relu_v73() -> onnx.ModelProto:
    return quantized("y0 = Relu(a)")


# O2: quantized files.  docs/results/quantized-onnx.md has 162 files of ONNX Runtime's, AIMET's and Quark's forms.


def quantized(
    body: str, kind: str = "uint8", zero: int = 128, opset: int = 17, **weights: Any
) -> onnx.ModelProto:
    return text(
        f"g ({kind}[1,8,8] x) => ({kind}[1,8,8] y) {{ a = DequantizeLinear(x, s, z) {body} y = QuantizeLinear(y0, s, z) }}",
        opset, s=np.float32(0.02), z=np.asarray(zero, kind), **weights,
    )  # fmt: skip


@case("O2")
def relu_of_uint8() -> onnx.ModelProto:
    return quantized("y0 = Relu(a)")


@case("O2")
def sigmoid_of_int8() -> onnx.ModelProto:
    return quantized("y0 = Sigmoid(a)", "int8", 0)


@case("O2")
def add_of_uint16() -> onnx.ModelProto:
    return quantized("y0 = Add(a, a)", "uint16", 32768, 21)


@case("O2")
def matmul_with_int8_weights() -> onnx.ModelProto:
    weight = np.random.default_rng(0).integers(-127, 127, (8, 8), np.int8)
    return quantized("b = DequantizeLinear(w, t) y0 = MatMul(a, b)", w=weight, t=np.float32(0.01))


@case("O2", within=0.01)  # one step
def softmax_of_uint8() -> onnx.ModelProto:
    return quantized("y0 = Softmax(a)")


@case("O2")
def transpose_and_join() -> onnx.ModelProto:
    return quantized("t = Transpose<perm=[0,2,1]>(a) c = Concat<axis=1>(t, a) y0 = Slice(c, from, to)",
                     **{"from": np.array([0, 4, 0]), "to": np.array([1, 12, 8])})  # fmt: skip


# O3: compile builds everything that check accepts, on SM8350 too.


def on_sm8350(body: str, shape: str = "1,16,64", **weights: Any) -> onnx.ModelProto:
    return text(f"g (float[{shape}] x) => (float[{shape}] y) {{ {body} }}", **weights)


OLD = {"options": ("--soc", "SM8350")}


@case("O3", **OLD)
def div_erf() -> onnx.ModelProto:
    return on_sm8350("a = Div(x, c) y = Erf(a)", c=np.float32(1.41))


@case("O3", **OLD)
def gelu_by_erf() -> onnx.ModelProto:
    return on_sm8350(
        "a = Div(x, c) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)",
        c=np.float32(1.4142), one=np.float32(1), half=np.float32(0.5),
    )  # fmt: skip


@case("O3", **OLD)
def tanh() -> onnx.ModelProto:
    return on_sm8350("y = Tanh(x)")


@case("O3", **OLD)
def softmax_of_scores() -> onnx.ModelProto:
    return on_sm8350("a = Mul(x, c) y = Softmax<axis=-1>(a)", c=np.float32(0.125))


@case("O3", **OLD)
def two_products() -> onnx.ModelProto:
    return on_sm8350("a = MatMul(x, w) y = MatMul(a, w)", w=random(64, 64, scale=0.1))


@case("O3", **OLD)
def gru() -> onnx.ModelProto:
    return text(
        "g (float[4,1,8] x) => (float[4,1,1,16] y) { y, h = GRU<hidden_size=16>(x, w, r) }",
        w=random(1, 48, 8, scale=0.3), r=random(1, 48, 16, scale=0.3),
    )  # fmt: skip


# O4: six dimensions and more.


def windows(
    shape: Sequence[int], first: Sequence[int], order: Sequence[int], last: Sequence[int]
) -> onnx.ModelProto:
    given, result = (",".join(map(str, s)) for s in (shape, last))
    return text(
        f"g (float[{given}] x) => (float[{result}] y) {{ a = Reshape(x, f) b = Transpose<perm={list(order)}>(a) y = Reshape(b, l) }}",
        f=np.array(first), l=np.array(last),
    )  # fmt: skip


@case("O4")
def window_partition() -> onnx.ModelProto:
    return windows((1, 8, 8, 16), (1, 2, 4, 2, 4, 16), (0, 1, 3, 2, 4, 5), (4, 4, 4, 16))


@case("O4")
def window_reverse() -> onnx.ModelProto:
    return windows((4, 4, 4, 16), (1, 2, 2, 4, 4, 16), (0, 1, 3, 2, 4, 5), (1, 8, 8, 16))


@case("O4")
def pixel_shuffle() -> onnx.ModelProto:
    return windows((1, 12, 4, 5), (1, 3, 2, 2, 4, 5), (0, 1, 4, 2, 5, 3), (1, 3, 8, 10))


@case("O4")
def pixel_unshuffle_of_two() -> onnx.ModelProto:
    return windows((2, 3, 8, 10), (2, 3, 4, 2, 5, 2), (0, 1, 3, 5, 2, 4), (2, 12, 4, 5))


@case("O4")
def patches_of_a_video() -> onnx.ModelProto:
    return windows((1, 3, 4, 8, 8), (1, 3, 2, 2, 2, 4, 2, 4), (0, 2, 4, 6, 1, 3, 5, 7), (1, 8, 96))


@case("O4")
def patches_of_an_image() -> onnx.ModelProto:
    return windows((1, 3, 8, 8), (1, 3, 2, 4, 2, 4), (0, 2, 4, 3, 5, 1), (1, 4, 48))


@case(
    "O4",
    exit=1,
    said="x reshaped to rank 5, e.g. [6, 4, 2, 5, 2], axes [1, 4] instead of [2, 5]",
    results=False,
)
def sum_over_a_window() -> onnx.ModelProto:
    return text(
        "g (float[2,12,2,10] x) => (float[2,3,2,5] y) { a = Reshape(x, f) y = ReduceSum<keepdims=0>(a, d) }",
        f=np.array([2, 3, 4, 2, 5, 2]), d=np.array([2, 5]),
    )  # fmt: skip


# O5: operators of other domains, and unknown ones.


@case("O5")
def fused_matmul() -> onnx.ModelProto:
    return text("g (float[2,4,8] x, float[2,6,8] k) => (float[2,4,6] y) { y = com.microsoft.FusedMatMul<transB=1,alpha=0.35>(x, k) }",
                domain=CONTRIB)  # fmt: skip


@case("O5", within=0.02)
def matmul_n_bits() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    return text(
        "g (float[1,4,64] x) => (float[1,4,16] y) { y = com.microsoft.MatMulNBits<K=64,N=16,bits=4,block_size=32>(x, w, s) }",
        domain=CONTRIB, w=rng.integers(0, 256, (16, 2, 16), np.uint8), s=(rng.random(32) / 50).astype(np.float32),
    )  # fmt: skip


@case("O5")
def simplified_layer_norm() -> onnx.ModelProto:
    return text("g (float[1,4,64] x) => (float[1,4,64] y) { y = SimplifiedLayerNormalization<epsilon=1e-5>(x, w) }",
                w=random(64))  # fmt: skip


@case("O5")
def skip_layer_norm() -> onnx.ModelProto:
    return text(
        "g (float[1,4,64] x, float[1,4,64] z) => (float[1,4,64] y) { y = com.microsoft.SkipLayerNormalization<epsilon=1e-5>(x, z, w, b) }",
        domain=CONTRIB, w=random(64), b=random(64) * 0.1,
    )  # fmt: skip


@case("O5")
def bias_gelu() -> onnx.ModelProto:
    return text("g (float[1,4,64] x) => (float[1,4,64] y) { y = com.microsoft.BiasGelu(x, b) }", domain=CONTRIB,
                b=random(64))  # fmt: skip


@case("O5")
def multi_head_attention() -> onnx.ModelProto:
    return text(
        "g (float[1,8,32] q, float[1,8,32] k, float[1,8,32] v) => (float[1,8,32] y) "
        "{ y = com.microsoft.MultiHeadAttention<num_heads=4>(q, k, v) }",
        domain=CONTRIB,
    )  # fmt: skip


@case("O5", exit=1, said="onnx.NonMaxSuppression", results=False)
def non_max_suppression() -> onnx.ModelProto:
    return text(
        "g (float[1,6,4] b, float[1,2,6] s) => (float[1,2,6] p, int64[n,3] i) { p = Sigmoid(s) i = NonMaxSuppression(b, p, most) }",
        most=np.array([3]),
    )  # fmt: skip


@case("O5", exit=1, said="onnx.If", results=False)
def if_on_data() -> onnx.ModelProto:
    return text(
        """g (float[2,8] x) => (float[2,8] y) {
            m = ReduceMax<keepdims=0>(x) c = Greater(m, zero)
            a = If (c) <then_branch = t () => (float[2,8] u) { u = Relu(x) }, else_branch = e () => (float[2,8] w) { w = Neg(x) }>
            y = Exp(a) }""",
        zero=np.float32(0),
    )  # fmt: skip


@case("O5", exit=1, said="Strange", results=False)
def another_domain() -> onnx.ModelProto:
    return text("g (float[2,8] x) => (float[2,8] y) { a = Relu(x) y = acme.Strange(a) }", domain="acme")


# O6: inputs that are no tensors of numbers.


@case("O6", exit=2, said="string", results=False)
def strings() -> onnx.ModelProto:
    return text("g (string[2] x) => (string[2] y) { y = Identity(x) }")


@case("O6", exit=2, said="string", results=False)
def strings_beside_numbers() -> onnx.ModelProto:
    return text("g (float[2] a, string[2] x) => (float[2] y, string[2] z) { y = Relu(a) z = Identity(x) }")


@case("O6", exit=2, said="sequence", results=False)
def sequence() -> onnx.ModelProto:
    return text("g (seq(float[2]) x) => (float[n,2] y) { y = ConcatFromSequence<axis=0, new_axis=1>(x) }")


@case("O6", exit=2, said="sequence", results=False)
def sequence_of_strings() -> onnx.ModelProto:
    return text("g (seq(string[2]) x) => (int64 y) { y = SequenceLength(x) }")


@case("O6", exit=2, said="optional", results=False)
def optional() -> onnx.ModelProto:
    return text("g (optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }", 18)


@case("O6", exit=1, said="onnx.SplitToSequence", results=False)
def sequence_inside() -> onnx.ModelProto:
    return text(
        "g (float[4,2] x) => (float[4,2] y) { s = SplitToSequence<axis=0>(x, n) a = ConcatFromSequence<axis=0>(s) y = Relu(a) }",
        n=np.array([2, 2]),
    )  # fmt: skip


# O7: weights that are widened, and a word about it.

WIDENED = {"said": "widen", "within": 0.02}


def blocks(kind: int, count: int, size: int, axis: int = 0) -> onnx.ModelProto:
    rng, low = np.random.default_rng(0), 0 if kind in (TensorProto.UINT4, TensorProto.UINT8) else -8
    scales = (64 // size, 16) if axis == 0 else (64, 16 // size)
    return text(
        f"g (float[1,4,64] x) => (float[1,4,16] y) {{ a = DequantizeLinear<axis={axis},block_size={size}>(w, s) y = MatMul(x, a) }}",
        21, w=helper.make_tensor("w", kind, [64, 16], rng.integers(low, low + count, 64 * 16).tolist()),
        s=((rng.random(scales) + 0.1) / 50).astype(np.float32),
    )  # fmt: skip


@case("O7", **WIDENED)
def int4_in_blocks_of_32() -> onnx.ModelProto:
    return blocks(TensorProto.INT4, 16, 32)


@case("O7", **WIDENED)
def int4_in_blocks_of_16() -> onnx.ModelProto:
    return blocks(TensorProto.INT4, 16, 16)


@case("O7", **WIDENED)
def int4_in_one_block() -> onnx.ModelProto:
    return blocks(TensorProto.INT4, 16, 64)


@case("O7", **WIDENED)
def uint4_in_blocks() -> onnx.ModelProto:
    return blocks(TensorProto.UINT4, 16, 32)


@case("O7", **WIDENED)
def int8_in_blocks() -> onnx.ModelProto:
    return blocks(TensorProto.INT8, 16, 32)


@case("O7", **WIDENED)
def int4_in_blocks_of_columns() -> onnx.ModelProto:
    return blocks(TensorProto.INT4, 16, 8, 1)


# O8: GroupNorm as exporters write it.


def group_norm(channels: int, groups: int, side: int) -> onnx.ModelProto:
    shape = f"1,{channels},{side},{side}"
    return text(
        f"g (float[{shape}] x) => (float[{shape}] y) {{ r = Reshape(x, f) i = InstanceNormalization(r, one, zero) "
        "k = Reshape(i, l) m = Mul(k, w) y = Add(m, b) }",
        f=np.array([0, groups, -1]), l=np.array([1, channels, side, side]), one=np.ones(groups, np.float32),
        zero=np.zeros(groups, np.float32), w=random(channels, 1, 1), b=random(channels, 1, 1) * 0.1,
    )  # fmt: skip


@case("O8", within=0.01)
def group_norm_32_of_128() -> onnx.ModelProto:
    return group_norm(64, 32, 128)


@case("O8", within=0.01)
def group_norm_8_of_64() -> onnx.ModelProto:
    return group_norm(64, 8, 64)


@case("O8", within=0.01)
def group_norm_32_of_32() -> onnx.ModelProto:
    return group_norm(320, 32, 32)


@case("O8", within=0.01)
def group_norm_of_one_group() -> onnx.ModelProto:
    return group_norm(16, 1, 32)


@case("O8", within=0.01)
def group_norm_of_as_many() -> onnx.ModelProto:
    return group_norm(16, 16, 32)


@case("O8", within=0.01)
def group_norm_of_odd_sides() -> onnx.ModelProto:
    return group_norm(48, 12, 31)


# O9: numbers that fp16 or int32 do not hold.


@case("O9", said="1e-06 is 1.01e-06 in fp16", results=False)
def epsilon_of_1e_6() -> onnx.ModelProto:
    return text("g (float[2,8] x) => (float[2,8] y) { a = Relu(x) b = Add(a, e) c = Sqrt(b) y = Div(one, c) }",
                e=np.float32(1e-6), one=np.float32(1))  # fmt: skip


@case("O9", said="fp16", results=False)
def epsilon_that_vanishes() -> onnx.ModelProto:
    return text("g (float[2,8] x) => (float[2,8] y) { a = Relu(x) b = Add(a, e) y = Div(one, b) }",
                e=np.float32(1e-9), one=np.float32(1))  # fmt: skip


@case("O9", said="infinite in fp16", results=False)
def factor_of_100000() -> onnx.ModelProto:
    return text("g (float[2,8] x) => (float[2,8] y) { a = Mul(x, k) y = Add(a, x) }", k=np.float32(1e5))


@case("O9", said="infinite in fp16", results=False)
def weight_of_70000() -> onnx.ModelProto:
    return text(
        "g (float[2,8] x) => (float[2,8] y) { y = Mul(x, w) }", w=np.array([1] * 7 + [70000], np.float32)
    )


@case("O9", said="2**31", results=False)
def shift_of_int64() -> onnx.ModelProto:
    return text("g (int64[2,8] x) => (int64[2,8] y) { a = Mul(x, k) y = Div(a, k) }", k=np.int64(2**20))


@case("O9", said="overflow fp16", results=False)
def sum_of_squares() -> onnx.ModelProto:
    return text("g (float[2,64] x) => (float[2] y) { y = ReduceSumSquare<axes=[1],keepdims=0>(x) }")


@case("O9")
def rms_norm_in_pieces() -> onnx.ModelProto:
    return text(
        "g (float[1,4,64] x) => (float[1,4,64] y) "
        "{ p = Pow(x, two) m = ReduceMean<axes=[-1]>(p) a = Add(m, e) s = Sqrt(a) d = Div(x, s) y = Mul(d, w) }",
        two=np.float32(2), e=np.float32(1e-5), w=random(64),
    )  # fmt: skip


# O10: constants as outputs, and constants beyond int32.


@case("O10")
def constant_output() -> onnx.ModelProto:
    return text(
        "g (float[2,2] x) => (float[2,2] y, float[2] c) { y = Relu(x) }", c=np.array([1, -2.5], np.float32)
    )


@case("O10")
def constant_by_a_node() -> onnx.ModelProto:
    return text(
        "g (float[2,2] x) => (float[2,2] y, int64[3] c) { y = Relu(x) c = Constant<value_ints=[1,2,3]>() }"
    )


@case("O10")
def shape_as_output() -> onnx.ModelProto:
    return text("g (float[2,3] x) => (float[2,3] y, int64[2] s) { y = Relu(x) s = Shape(x) }")


@case("O10")
def constant_under_two_names() -> onnx.ModelProto:
    return text("g (float[2] x) => (float[2] a, float[2] b, float[2] y) { a = Identity(c) b = Identity(c) y = Neg(x) }",
                c=np.array([3, 4], np.float32))  # fmt: skip


@case("O10")
def scalar_output() -> onnx.ModelProto:
    return text("g (float[2] x) => (float[2] y, float c) { y = Add(x, c) }", c=np.float32(2.5))


@case("O10", exit=1, said="8589934592", results=False)
def constant_of_2_to_33() -> onnx.ModelProto:
    return text("g (int64[2] x) => (int64[2] y) { y = Add(x, k) }", k=np.int64(2**33))


@case("O10", exit=1, said="-4294967296", results=False)
def vector_below_int32() -> onnx.ModelProto:
    return text("g (int64[2] x) => (int64[2] y) { y = Mul(x, k) }", k=np.array([1, -(2**32)]))


# O11: calibration.  The command refuses without --data; the ranges come from the data.


@case("O11", compile_options=("--quantize", "8a8w"), exit=2, said="--data", results=False)
def without_data() -> onnx.ModelProto:
    return text("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=random(4, 3, 3, 3))


INPUTS = ("--quantize", "8a8w", "--data", "{inputs}")


@case("O11", compile_options=INPUTS, within=0.03)
def pixels() -> onnx.ModelProto:
    return text(
        "g (float[1,3,8,8] pixels) => (float[1,4,6,6] y) { y = Conv(pixels, w) }", w=random(4, 3, 3, 3)
    )


@case("O11", compile_options=INPUTS, within=0.03)
def small_numbers() -> onnx.ModelProto:
    return text("g (float[4,8] small) => (float[4,8] y) { a = MatMul(small, w) y = Relu(a) }", w=random(8, 8))


@case("O11", compile_options=INPUTS, within=0.03)
def two_inputs() -> onnx.ModelProto:
    return text("g (float[4,8] pixels, float[4,8] small) => (float[4,8] y) { y = Mul(pixels, small) }")


@case("O11", compile_options=("--quantize", "16a8w", "--data", "{inputs}"), within=0.01)
def pixels_in_16_bits() -> onnx.ModelProto:
    return text(
        "g (float[1,3,8,8] pixels) => (float[1,4,6,6] y) { y = Conv(pixels, w) }", w=random(4, 3, 3, 3)
    )


@case("O11", form=".pte", compile_options=INPUTS, within=0.03)
def pixels_for_executorch() -> onnx.ModelProto:
    return text(
        "g (float[1,3,8,8] pixels) => (float[1,4,6,6] y) { a = Conv(pixels, w) y = Relu(a) }",
        w=random(4, 3, 3, 3),
    )


# O12: names, the order of nodes, forms of old files.


def named(given: Sequence[str], results: Sequence[str]) -> onnx.ModelProto:
    """y = relu(a) + b, z = relu(a)."""
    (a, b), (y, z) = given, results
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in names]
        for names in (given, results)
    ]
    nodes = [node("Relu", [a], [z]), node("Add", [z, b], [y])]
    return helper.make_model(
        helper.make_graph(nodes, "g", *ends), opset_imports=[helper.make_opsetid("", 17)], ir_version=10
    )


@case("O12")
def given_and_reshape() -> onnx.ModelProto:
    return named(("input_ids", "attention_mask"), ("last_hidden_state", "pooler_output"))


@case("O12")
def colons_and_slashes() -> onnx.ModelProto:
    return named(("serving_default_x:0", "/model/b"), ("StatefulPartitionedCall:0", "/model/z.1"))


@case("O12")
def words_of_python() -> onnx.ModelProto:
    return named(("self", "class"), ("return", "lambda"))


@case("O12")
def numbers_as_names() -> onnx.ModelProto:
    return named(("0", "1"), ("495", "496"))


@case("O12")
def names_of_nodes() -> onnx.ModelProto:
    return named(("add", "relu"), ("relu_1", "add_1"))


@case("O12")
def nodes_out_of_order() -> onnx.ModelProto:
    model = named(("x", "b"), ("y", "z"))
    model.graph.node.insert(0, model.graph.node.pop())
    return model


@case("O12")
def half_pixel_for_nn() -> onnx.ModelProto:
    return text(
        'g (float[1,2,4,4] x) => (float[1,2,8,8] y) { y = '
        'Resize<mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn">(x, r, s) }',
        11, r=np.zeros(0, np.float32), s=np.array([1, 1, 2, 2], np.float32),
    )  # fmt: skip


@case("O12", exit=1, said="HTP-0047: IsNan of f32 takes an infinity", results=False)
def is_nan() -> onnx.ModelProto:
    return text("g (float[2,4] x) => (bool[2,4] y) { y = IsNaN(x) }")


@case("O12", options=(*DEVICE, "--ignore-erratum", "HTP-0047"))
def is_nan_of_numbers() -> onnx.ModelProto:
    return text("g (float[2,4] x) => (bool[2,4] y) { y = IsNaN(x) }")
