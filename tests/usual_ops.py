"""The ops used by tests of every op when time is short; see the marks ``by_op`` and ``slow_by_op``."""

from __future__ import annotations

#: The ops tested by `make test` and `make slow`: one or two of each family, and those unlike any other.  `make breadth`
#: tests the others.
USUAL = frozenset({
    "Argmax", "Batchnorm", "BoxWithNmsLimit", "Cast", "Concat", "Conv2d", "DepthToSpace",
    "Dequantize", "ElementWiseAdd", "ElementWiseBinary", "ElementWiseNeuron",
    "ElementWiseUnary", "FullyConnected", "Gather", "GenerateProposals", "GridSample", "If", "LayerNorm",
    "NonZero", "Pad", "PoolAvg2d", "Quantize", "ReduceSum", "Relu", "Reshape", "RmsNorm",
    "ScatterElements", "Softmax", "SparseToDense", "TopK", "Transpose",
})  # fmt: skip
#: The subset of ops that `make test` covers; `make slow` covers the others.
FEW = frozenset({
    "Argmax", "Concat", "ElementWiseBinary", "FullyConnected", "LayerNorm", "Quantize", "Transpose",
})  # fmt: skip
