"""The executor ``onnx.reference``: ONNX's reference evaluator, for ops with an ONNX operator.

A counterpart is one ONNX node, or a few, on the real values of the inputs, in float64 if ONNX has that
type; layouts are converted to ONNX's and back.  It shares no formula with the kernels, and none with the judge except
for Resize, ResizeBilinear, ResizeNearestNeighbor and NonMaxSuppression, for which PyTorch lacks some modes: it shows
that both references agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opdb.catalog.store.records import ExecutorRecord
from opdb.core.errors import MissingExtra
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer, Array, Executor, NoOracle, Params
from opdb.measure.conformance.executors.meaning import meaning
from opdb.measure.conformance.executors.onnx_elements import of_elements

try:
    import onnx

    from opdb.measure.conformance.executors import onnx_data_movement as moves
    from opdb.measure.conformance.executors import onnx_images as images
    from opdb.measure.conformance.executors import onnx_numbers as numbers
except ImportError:
    raise MissingExtra("the package onnx that the executor 'onnx.reference' needs", "onnx") from None


class OnnxExecutor(Executor):
    """Computes with ONNX's reference; outputs are stored as the op's tensors store them."""

    name, backend, soc, half = "onnx.reference", "", "", False

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, onnx.__version__)

    def takes(self, case: Case) -> bool:
        return case.runs

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        """Reports an exception of the evaluator as an error of the stage "execute", unless the config draws a warning."""
        try:
            outputs = compute(case.config, inputs)
        except NoOracle as reason:
            return Answer("unsupported", text=str(reason), computed=False)
        except Exception as error:  # whatever numpy raises in the evaluator
            text = f"{type(error).__name__}: {error}"
            if case.rules:
                return Answer(
                    "unsupported",
                    text=f"it breaks {', '.join(case.rules)}, and so for ONNX: {text}",
                    computed=False,
                )
            return Answer("error", stage="execute", text=text)
        return Answer("ok", outputs)


def compute(config: OpConfig, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """The outputs of an accepted config, as stored.

    Raises NoOracle if ONNX has no equivalent operator, and whatever ONNX's evaluator raises.
    """
    counterpart = OPS.get(config.op)
    if counterpart is None:
        raise NoOracle(UNCOMPUTED.get(config.op, f"ONNX has no counterpart of {config.op}"))
    arranged, values, params = meaning(config, inputs)
    made = counterpart(arranged, values, params)
    return tuple(data.written(_shaped(y, t), t) for y, t in zip(made, config.outputs, strict=True))


def _shaped(y: Array, tensor: TensorConfig) -> Array:
    """Reshapes a single number of rank 0 to rank 1, as QNN has it."""
    return y.reshape(1) if y.shape == () and tensor.shape == (1,) else y


#: Ops whose ONNX operator is of no use here.
UNCOMPUTED = {
    "RandomNormalLike": "the numbers of ONNX's RandomNormalLike are others each time",
    "RandomUniformLike": "the numbers of ONNX's RandomUniformLike are others each time",
    "RoiPooling": "ONNX's reference does not compute MaxRoiPool",
}
Counterpart = Callable[[OpConfig, Sequence[Any], Params], list[Array]]
#: op -> its counterpart.
OPS: dict[str, Counterpart] = dict.fromkeys((*data.FUNCTIONS, *data.OPERATIONS), of_elements) | {
    "Argmax": numbers.arg("ArgMax"),
    "Argmin": numbers.arg("ArgMin"),
    "BatchPermutation": moves.batch_permutation,
    "Batchnorm": numbers.batchnorm,
    "Cast": moves.cast,
    "Col2Im": moves.col2im,
    "Concat": moves.concat,
    "ConstantOfShape": moves.constant_of_shape,
    "Conv1d": numbers.conv,
    "Conv2d": numbers.conv,
    "Conv3d": numbers.conv,
    "Convert": moves.convert,
    "CropAndResize": images.crop_and_resize,
    "CumulativeSum": numbers.cumulative_sum,
    "DepthToSpace": moves.depth_to_space,
    "DepthWiseConv1d": numbers.conv,
    "DepthWiseConv2d": numbers.conv,
    "Dequantize": moves.convert,
    "ElementWiseSelect": moves.select,
    "ExpandDims": moves.expand_dims,
    "FullyConnected": numbers.fully_connected,
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "GatherNd": moves.gather_nd,
    "GridSample": images.grid_sample,
    "GroupNorm": numbers.group_norm,
    "Gru": images.gru,
    "InstanceNorm": numbers.instance_norm,
    "L2Norm": numbers.l2_norm,
    "L2Pool2d": numbers.l2_pool,
    "LayerNorm": numbers.layer_norm,
    "LogSoftmax": numbers.softmax("LogSoftmax"),
    "Lrn": numbers.lrn,
    "Lstm": images.lstm,
    "MatMul": numbers.mat_mul,
    "Moments": numbers.moments,
    "NonMaxSuppression": images.non_max_suppression,
    "NonZero": moves.non_zero,
    "OneHot": moves.one_hot,
    "Pack": moves.pack,
    "Pad": moves.pad,
    "PoolAvg2d": numbers.pool("AveragePool", count_include_pad=0),
    "PoolAvg3d": numbers.pool("AveragePool", count_include_pad=0),
    "PoolMax2d": numbers.pool("MaxPool"),
    "PoolMax3d": numbers.pool("MaxPool"),
    "Quantize": moves.convert,
    "ReduceMax": numbers.reduction("ReduceMax"),
    "ReduceMean": numbers.reduction("ReduceMean"),
    "ReduceMin": numbers.reduction("ReduceMin"),
    "ReduceProd": numbers.reduction("ReduceProd"),
    "ReduceSum": numbers.reduction("ReduceSum"),
    "ReduceSumSquare": numbers.reduction("ReduceSumSquare"),
    "Reshape": moves.reshape,
    "Resize": images.resize,
    "ResizeBilinear": images.resize_bilinear,
    "ResizeNearestNeighbor": images.resize_nearest,
    "RmsNorm": numbers.rms_norm,
    "RoiAlign": images.roi_align,
    "RotaryEmbedding": images.rotary_embedding,
    "ScatterElements": moves.scatter_elements,
    "ScatterNd": moves.scatter_nd,
    "Shape": moves.shape,
    "Softmax": numbers.softmax("Softmax"),
    "SpaceToDepth": moves.space_to_depth,
    "Split": moves.split,
    "Squeeze": moves.squeeze,
    "Stft": images.stft,
    "StridedSlice": moves.strided_slice,
    "Tile": moves.tile,
    "TopK": numbers.top_k,
    "Transpose": moves.transpose,
    "TransposeConv1d": numbers.transpose_conv,
    "TransposeConv2d": numbers.transpose_conv,
    "TransposeConv3d": numbers.transpose_conv,
    "UnPack": moves.unpack,
}
