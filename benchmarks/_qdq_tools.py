"""Quantized ONNX files that AIMET and Quark write from the graphs of ``_qdq_graphs``.

Run it with an interpreter that has aimet_onnx and quark (amd-quark), which need other versions than opdb's environment:

    python benchmarks/_qdq_tools.py FOLDER      # reads FOLDER/floats, writes FOLDER/TOOL-FORM-GRAPH.onnx
"""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

#: Graphs for the tools: small, with all kinds of weights.
GRAPHS = ("conv", "conv relu", "depthwise", "gemm", "matmul", "softmax", "layer norm", "gelu", "concat", "mobilenet",
          "resnet", "bert block", "decoder block")  # fmt: skip
WEIGHTED = ("conv", "gemm", "mobilenet", "bert block", "decoder block")


def inputs(path: Path, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        i.name: random.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in onnx.load(str(path)).graph.input
    }


def aimet(weights: int, activations: int, block: int = 0) -> Callable[[Path, Path], None]:
    """``block``: LPBQ with 4-bit weights in blocks whose scales are integer multiples of the channel's."""

    def make(source: Path, path: Path) -> None:
        import aimet_onnx
        from aimet_onnx.quantsim import QuantizationSimModel, set_grouped_blockwise_quantization_for_weights

        types = {4: aimet_onnx.int4, 8: aimet_onnx.int8, 16: aimet_onnx.int16}
        sim = QuantizationSimModel(
            onnx.load(str(source)), param_type=types[weights], activation_type=types[activations],
            providers=["CPUExecutionProvider"],
        )  # fmt: skip
        if block:
            set_grouped_blockwise_quantization_for_weights(
                sim, op_types=("Conv", "Gemm", "MatMul"), bitwidth=4, decompressed_bw=8, block_size=block,
                strict=False,
            )  # fmt: skip
        sim.compute_encodings([inputs(source, seed) for seed in range(4)])
        onnx.save(sim.to_onnx_qdq(), str(path))

    return make


class Reader:
    def __init__(self, source: Path) -> None:
        self.left = [inputs(source, seed) for seed in range(4)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def quark(config: str) -> Callable[[Path, Path], None]:
    def make(source: Path, path: Path) -> None:
        from quark.onnx import ModelQuantizer, quantization

        found = copy.deepcopy(getattr(quantization.config.custom_config, config))  # the tool changes it
        ModelQuantizer(found).quantize_model(str(source), str(path), Reader(source))

    return make


FORMS: dict[str, tuple[Callable[[Path, Path], None], tuple[str, ...]]] = {
    "AIMET w8a8": (aimet(8, 8), GRAPHS),
    "AIMET w8a16": (aimet(8, 16), GRAPHS),
    "AIMET w4a16": (aimet(4, 16), WEIGHTED),
    "AIMET LPBQ a16": (aimet(4, 16, 8), WEIGHTED),
    "Quark XINT8": (quark("XINT8_QCONFIG"), GRAPHS),
    "Quark A8W8": (quark("A8W8_QCONFIG"), GRAPHS),
    "Quark A16W8": (quark("A16W8_QCONFIG"), GRAPHS),
}


def main(folder: Path) -> None:
    for form, (make, graphs) in FORMS.items():
        for graph in graphs:
            path = folder / f"{form}-{graph}.onnx".replace(" ", "-")
            if path.is_file():
                continue
            try:
                make(folder / "floats" / f"{graph.replace(' ', '-')}.onnx", path)
            except Exception:
                last = traceback.format_exc().strip().splitlines()[-1]
                path.with_suffix(".txt").write_text(last[:200])
                print(form, graph, last[:200], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
