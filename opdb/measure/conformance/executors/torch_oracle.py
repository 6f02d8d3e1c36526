"""The executor ``torch``: PyTorch in float64, the judge of all numbers.

Each op is written by hand with PyTorch's own functions, following the documents' words, and shares no
formula with the kernels.  If the documents leave the result open, there is no oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opdb.catalog.store.records import ExecutorRecord
from opdb.core.errors import MissingExtra
from opdb.core.op_config import OpConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.executors.base import Answer, Array, Executor, Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.meaning import meaning

try:
    import torch

    from opdb.measure.conformance.executors import oracle_boxes as boxes
    from opdb.measure.conformance.executors import oracle_custom as custom
    from opdb.measure.conformance.executors import oracle_data_movement as moves
    from opdb.measure.conformance.executors import oracle_images as images
    from opdb.measure.conformance.executors import oracle_numbers as numbers
    from opdb.measure.conformance.executors import oracle_products as products
    from opdb.measure.conformance.executors import oracle_sequences as sequences
    from opdb.measure.conformance.executors.oracle_elements import convert, of_elements
except ImportError:
    raise MissingExtra("the package torch that the executor 'torch' needs", "torch") from None


class TorchExecutor(Executor):
    """Computes the real values of a case's outputs: float64, int64 or bool."""

    name, backend, soc, half = "torch", "", "", False

    def record(self) -> ExecutorRecord:
        return ExecutorRecord(self.name, str(torch.__version__))

    def takes(self, case: Case) -> bool:
        return case.runs

    def answer(self, case: Case, inputs: Sequence[Array | None]) -> Answer:
        try:
            return Answer("ok", tuple(compute(case.config, inputs)))
        except NoOracle as reason:
            return Answer("unsupported", text=str(reason), computed=False)


def compute(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
    """The real values of each output of an accepted config.  Raises NoOracle."""
    op = OPS.get(config.op)
    if op is None:
        raise NoOracle(f"no oracle is written for {config.op}")
    config, values, params = meaning(config, inputs)
    outputs = op(config, [None if x is None else torch.from_numpy(x) for x in values], params)
    return [o.contiguous().numpy() for o in outputs]


Oracle = Callable[[OpConfig, Inputs, Params], list[T]]
#: op -> its oracle.
OPS: dict[str, Oracle] = dict.fromkeys((*data.FUNCTIONS, *data.OPERATIONS), of_elements) | {
    "Argmax": numbers.arg(np.argmax),
    "Argmin": numbers.arg(np.argmin),
    "BandEnergy": custom.band_energy,
    "BatchPermutation": moves.batch_permutation,
    "BatchToSpace": moves.batch_to_space,
    "Batchnorm": numbers.batchnorm,
    "Cast": moves.cast,
    "ChannelShuffle": moves.channel_shuffle,
    "Col2Im": moves.col2im,
    "Concat": moves.concat,
    "ConstantOfShape": moves.constant_of_shape,
    "Conv1d": products.conv,
    "Conv2d": products.conv,
    "Conv3d": products.conv,
    "Convert": convert,
    "CumulativeSum": numbers.cumulative_sum,
    "DepthToSpace": moves.depth_to_space,
    "DepthWiseConv1d": products.conv,
    "DepthWiseConv2d": products.conv,
    "Dequantize": convert,
    "DequantizeAdd": custom.dequantize_add,
    "ElementWiseSelect": moves.select,
    "ExpandDims": moves.reshape,
    "ExtractPatches": moves.extract_patches,
    "FullyConnected": products.fully_connected,
    "FakeQuantize": custom.fake_quantize,
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "GatherNd": moves.gather_nd,
    "GroupNorm": numbers.group_norm,
    "Im2Col": moves.im2col,
    "InstanceNorm": numbers.instance_norm,
    "L2Norm": numbers.l2_norm,
    "L2Pool2d": numbers.l2_pool,
    "LayerNorm": numbers.layer_norm,
    "LogSoftmax": numbers.log_softmax,
    "MatMul": products.mat_mul,
    "Moments": numbers.moments,
    "NonZero": moves.non_zero,
    "OneHot": moves.one_hot,
    "Pack": moves.pack,
    "Pad": moves.pad,
    "PoolAvg2d": numbers.pool_avg,
    "PoolAvg3d": numbers.pool_avg,
    "PoolMax2d": numbers.pool_max,
    "PoolMax3d": numbers.pool_max,
    "Quantize": convert,
    "ReduceMax": numbers.reduction(torch.amax),
    "ReduceMean": numbers.of_real(numbers.reduction(torch.mean)),
    "ReduceMin": numbers.reduction(torch.amin),
    "ReduceProd": numbers.reduction(numbers.product),
    "ReduceSum": numbers.reduction(torch.sum),
    "ReduceSumSquare": numbers.reduction(lambda x, axes: torch.sum(torch.square(x), axes)),
    "Reshape": moves.reshape,
    "RmsNorm": numbers.rms_norm,
    "ScatterElements": moves.scatter_elements,
    "ScatterNd": moves.scatter_nd,
    "Shape": moves.shape,
    "Sharpen": custom.sharpen,
    "Softmax": numbers.softmax,
    "SpaceToBatch": moves.space_to_batch,
    "SpaceToDepth": moves.space_to_depth,
    "Split": moves.split,
    "Squeeze": moves.reshape,
    "StridedSlice": moves.strided_slice,
    "Tile": moves.tile,
    "TopK": numbers.top_k,
    "Transpose": moves.transpose,
    "TransposeConv1d": products.transpose_conv,
    "TransposeConv2d": products.transpose_conv,
    "TransposeConv3d": products.transpose_conv,
    "Resize": images.resize,
    "ResizeBilinear": images.resize_bilinear,
    "ResizeNearestNeighbor": images.resize_nearest,
    "GridSample": images.grid_sample,
    "HadamardTransform": sequences.hadamard,
    "Stft": sequences.stft,
    "Logit": sequences.logit,
    "RotaryEmbedding": sequences.rotary_embedding,
    "Lrn": sequences.lrn,
    "Lstm": sequences.lstm,
    "Gru": sequences.gru,
    "GroupQueryAttention": sequences.group_query_attention,
    "ArgbToRgb": moves.argb_to_rgb,
    "Correlation1D": images.correlation,
    "CropAndResize": images.crop_and_resize,
    "ElementWiseMux": moves.mux,
    "AxisAlignedBboxTransform": boxes.axis_aligned_bbox_transform,
    "BoxWithNmsLimit": boxes.box_with_nms_limit,
    "CollectRpnProposals": boxes.collect_rpn_proposals,
    "CombinedNms": boxes.combined_nms,
    "DistributeFpnProposals": boxes.distribute_fpn_proposals,
    "MultiClassNms": boxes.multi_class_nms,
    "NonMaxSuppression": boxes.non_max_suppression,
    "Nv12ToRgb": boxes.nv_to_rgb("u"),
    "Nv21ToRgb": boxes.nv_to_rgb("v"),
    "RoiAlign": boxes.roi_align,
    "RoiPooling": boxes.roi_pooling,
    "UnPack": moves.unpack,
}
