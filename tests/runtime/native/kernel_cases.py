"""All cases of all kernels.

Importing this needs no PyTorch, so the program under AddressSanitizer can run every case, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from case import Case
from cases_elementwise import binary, dequantize_add, neuron, relu
from cases_matrix import conv2d, fully_connected, mat_mul
from cases_move import concat, reshape, split, transpose
from cases_reduce import layer_norm, reduce_mean, softmax


def all_cases() -> Iterator[Case]:
    for family in (
        relu, neuron, binary, layer_norm, softmax, reduce_mean, fully_connected, mat_mul, conv2d, concat,
        split, reshape, transpose, dequantize_add,
    ):  # fmt: skip
        yield from family()
