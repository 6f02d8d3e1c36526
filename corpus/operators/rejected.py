"""Calls that QNN CPU has no op for: function, inputs, the rule that refuses the node, and a part of its message."""

from __future__ import annotations

import torch
from torch import nn

aten, r = torch.ops.aten, torch.randn
REJECTED = {
    "add_alpha": (
        lambda a, b: torch.add(a, b, alpha=2),
        (r(3).double(), r(3).double()),
        "ElementWiseMultiply.TYPES_CPU",
        "got a = f64",
    ),
    "sub_alpha": (
        lambda a, b: torch.sub(a, b, alpha=2),
        (r(3).double(), r(3).double()),
        "ElementWiseMultiply.TYPES_CPU",
        "got a = f64",
    ),
    "gelu_tanh": (
        lambda x: nn.functional.gelu(x, approximate="tanh"),
        (r(3).double(),),
        "ElementWiseNeuron.TYPES_CPU",
        "got x = f64",
    ),
    "elu_scale": (
        lambda x: aten.elu.default(x, 1.0, 1.05),
        (r(3).double(),),
        "Relu.TYPES_CPU",
        "got x = f64",
    ),
    "mean_dtype": (
        lambda x: x.mean(1, dtype=torch.float64),
        (r(3, 3),),
        "ReduceMean.M_aten.mean.dim",
        "conversion",
    ),
    "softmax_dtype": (
        lambda x: x.softmax(1, dtype=torch.float64),
        (r(3, 3),),
        "Softmax.M_aten.softmax.int",
        "conversion",
    ),
    "conv_transposed": (
        lambda x, w: aten.convolution.default(x, w, None, [1, 1], [0, 0], [2, 2], True, [0, 0], 1),
        (r(1, 3, 8, 8).double(), r(3, 4, 3, 3).double()),
        "Pad.TYPES_CPU",
        "got x = f64",
    ),
    "convolution_1d_transposed": (
        lambda x, w: aten.convolution.default(x, w, None, [1], [0], [1], True, [0], 1),
        (r(1, 3, 8).double(), r(3, 4, 3).double()),
        "TransposeConv2d.TYPES_CPU",
        "got x = f64",
    ),
    "norm_statistics": (
        lambda x: aten.native_layer_norm.default(x, [4], None, None, 1e-3)[1],
        (r(3, 4),),
        "LayerNorm.M_aten.native_layer_norm.default",
        "result 1 is used",
    ),
    "norm_epsilon": (
        nn.LayerNorm(4, eps=1e300),
        (r(3, 4),),
        "LayerNorm.M_aten.layer_norm.default",
        "does not fit FLOAT_32",
    ),
    "vectors": (
        torch.matmul,
        (r(4), r(4)),
        "MatMul.M_aten.matmul.default",
        "got self.rank = 1, other.rank = 1",
    ),
    "addmm_beta": (
        lambda b, x: torch.addmm(b, x, x, beta=2),
        (r(3).double(), r(3, 3).double()),
        "MatMul.TYPES_CPU",
        "got a = f64",
    ),
    "one_part": (
        lambda x: torch.split(x, 7, 1),
        (r(3, 7),),
        "Split.M_aten.split.Tensor",
        "got split_size = 7",
    ),
    "one_limit": (
        lambda x: x.clamp(min=0),
        (r(3).double(),),
        "ElementWiseMaximum.TYPES_CPU",
        "got a = f64",
    ),
    "double": (torch.relu, (r(3).double(),), "Relu.TYPES_CPU", "got x = f64, y = f64"),
    "complex": (
        lambda x, y: torch.add(x, y),
        (r(3, dtype=torch.complex64),) * 2,
        "ElementWiseAdd.M_aten.add.Tensor",
        "QNN has no counterpart of torch.complex64",
    ),
}
