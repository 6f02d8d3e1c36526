"""Quantized ONNX files, produced by ONNX Runtime's quantizers of all kinds from the graphs of ``_qdq_graphs``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _qdq_graphs import GRAPHS, NETWORKS, WEIGHTED, in_floats
from _qdq_tools import FORMS as TOOLS
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

U8, S8, U16, S16, S4, U4 = (
    QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt16, QuantType.QInt4, QuantType.QUInt4,
)  # fmt: skip
#: Form -> activations, weights, a scale for each channel, how it is written.
STATIC = {
    "QDQ u8s8": (U8, S8, True, QuantFormat.QDQ),
    "QDQ s8s8": (S8, S8, False, QuantFormat.QDQ),
    "QDQ u16s8": (U16, S8, True, QuantFormat.QDQ),
    "QOperator u8s8": (U8, S8, False, QuantFormat.QOperator),
}
OF_WEIGHTS = {
    "QDQ u8u8": (U8, U8, False, QuantFormat.QDQ),
    "QDQ s16s8": (S16, S8, False, QuantFormat.QDQ),
    "QDQ u16s4": (U16, S4, True, QuantFormat.QDQ),
    "QDQ u8s4": (U8, S4, True, QuantFormat.QDQ),
    "QDQ u16u4": (U16, U4, False, QuantFormat.QDQ),
    "QOperator u8s8 by channel": (U8, S8, True, QuantFormat.QOperator),
    "QOperator u8u8": (U8, U8, False, QuantFormat.QOperator),
}
MATRICES = ("gemm", "matmul weight", "bert block", "decoder block")


class Random(CalibrationDataReader):  # type: ignore[misc]  # untyped base
    def __init__(self, path: Path) -> None:
        self.left = [inputs(path, seed) for seed in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def inputs(path: Path, seed: int = 0) -> dict[str, Any]:
    """Normally distributed inputs for a file."""
    random = np.random.default_rng(seed)
    graph = onnx.load(str(path), load_external_data=False).graph
    held = {w.name for w in graph.initializer}
    return {
        i.name: random.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in graph.input
        if i.name not in held
    }


def _static(form: str) -> Callable[[Path, Path], None]:
    activations, weights, by_channel, written = {**STATIC, **OF_WEIGHTS}[form]

    def make(source: Path, path: Path) -> None:
        quantize_static(
            str(source), str(path), Random(source), quant_format=written, per_channel=by_channel,
            activation_type=activations, weight_type=weights,
            extra_options={"ForceQuantizeNoInputCheck": True},
        )  # fmt: skip

    return make


def _dynamic(weights: QuantType) -> Callable[[Path, Path], None]:
    return lambda source, path: quantize_dynamic(str(source), str(path), weight_type=weights)


def _n_bits(symmetric: bool, written: QuantFormat, block: int = 32) -> Callable[[Path, Path], None]:
    def make(source: Path, path: Path) -> None:
        model = onnx.load(str(source))
        _as_matmul(model)
        quantizer = MatMulNBitsQuantizer(
            model, bits=4, block_size=block, is_symmetric=symmetric, quant_format=written
        )
        quantizer.process()
        onnx.save(quantizer.model.model, str(path))

    return make


def _as_matmul(model: onnx.ModelProto) -> None:
    """Replaces Gemm with MatMul and Add: ONNX Runtime's quantizer only takes MatMul."""
    from onnx import helper, numpy_helper

    graph, nodes = model.graph, []
    weights = {w.name: w for w in graph.initializer}
    for node in graph.node:
        if node.op_type != "Gemm":
            nodes.append(node)
            continue
        turned = numpy_helper.to_array(weights[node.input[1]]).T.copy()
        graph.initializer.append(numpy_helper.from_array(turned, node.input[1] + "_t"))
        out = node.output[0] + ("_product" if len(node.input) > 2 else "")
        nodes.append(
            helper.make_node("MatMul", [node.input[0], node.input[1] + "_t"], [out], node.name + "_matmul")
        )
        if len(node.input) > 2:
            nodes.append(helper.make_node("Add", [out, node.input[2]], list(node.output), node.name + "_add"))
    del graph.node[:]
    graph.node.extend(nodes)


#: Form -> its writer and the graphs to write.
FORMS: dict[str, tuple[Callable[[Path, Path], None], tuple[str, ...]]] = {
    **{form: (_static(form), (*GRAPHS, *NETWORKS)) for form in STATIC},
    **{form: (_static(form), WEIGHTED) for form in OF_WEIGHTS},
    "dynamic u8": (_dynamic(U8), WEIGHTED),
    "dynamic s8": (_dynamic(S8), ("conv", "gemm", "matmul weight", "bert block")),
    "MatMulNBits": (_n_bits(True, QuantFormat.QOperator), MATRICES),
    "MatMulNBits with zero points": (_n_bits(False, QuantFormat.QOperator), MATRICES),
    "MatMulNBits, 16 in a block": (_n_bits(True, QuantFormat.QOperator, 16), MATRICES),
    "QDQ int4 by block": (_n_bits(True, QuantFormat.QDQ, 16), MATRICES),
    "QDQ uint4 by block": (_n_bits(False, QuantFormat.QDQ, 16), MATRICES),
}


def files(folder: Path, forms: list[str], graphs: list[str]) -> Iterator[tuple[str, str, Path | str]]:
    """Form, graph, and its file or the reason the quantizer wrote none; includes files of other tools that _qdq_tools has written."""
    logging.disable(logging.WARNING)
    for form, (make, of) in FORMS.items():
        for graph in of:
            if (forms and form not in forms) or (graphs and graph not in graphs):
                continue
            path = folder / f"{form}-{graph}.onnx".replace(" ", "-").replace(",", "")
            try:
                if not path.is_file():
                    make(in_floats(graph, folder / "floats"), path)
                yield form, graph, path
            except Exception as error:  # the quantizers raise anything
                yield form, graph, f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    for form, (_, of) in TOOLS.items():
        for graph in of:
            path = folder / f"{form}-{graph}.onnx".replace(" ", "-")
            if (forms and form not in forms) or (graphs and graph not in graphs):
                continue
            if path.is_file():
                yield form, graph, path
            elif path.with_suffix(".txt").is_file():
                yield form, graph, path.with_suffix(".txt").read_text()
