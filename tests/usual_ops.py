"""The ops that tests for every op ask about where time is short; see the marks ``by_op`` and ``slow_by_op``."""

from __future__ import annotations

#: The ops that `make test` and `make slow` ask about: of each family one or two, and those unlike any other.  `make breadth`
#: asks about the others.
USUAL = frozenset({
    "Argmax", "Batchnorm", "BoxWithNmsLimit", "Cast", "Concat", "Conv2d", "DepthToSpace",
    "Dequantize", "ElementWiseAdd", "ElementWiseBinary", "ElementWiseNeuron",
    "ElementWiseUnary", "FullyConnected", "Gather", "GenerateProposals", "GridSample", "If", "LayerNorm",
    "NonZero", "Pad", "PoolAvg2d", "Quantize", "ReduceSum", "Relu", "Reshape", "RmsNorm",
    "ScatterElements", "Softmax", "SparseToDense", "TopK", "Transpose",
})  # fmt: skip
#: Of these, the ops that `make test` asks about; `make slow` asks about the others.
FEW = frozenset({
    "Argmax", "Concat", "ElementWiseBinary", "FullyConnected", "LayerNorm", "Quantize", "Transpose",
})  # fmt: skip
