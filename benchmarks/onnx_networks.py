"""Networks written by PyTorch's ONNX exporters and read by opdb.programs.onnx: comparison with PyTorch, nodes, seconds.

timm, transformers (small, random weights), LSTM, GRU and an encoder layer; opsets 14, 18 and 20, and with --dynamo 18 and 23 from
the exporter that needs onnxscript (pip install onnxscript).

    python benchmarks/onnx_networks.py [--dynamo] [--only NAME]...
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import onnx
import torch
from _check_models import declare_torchvision
from torch.utils import _pytree as pytree

from opdb.programs.onnx.graph import to_module
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

IMAGES = (
    "resnet18", "mobilenetv3_small_100", "efficientnet_b0", "vit_tiny_patch16_224", "convnext_atto", "regnetx_002",
    "densenet121", "inception_v3", "swin_tiny_patch4_window7_224", "mixer_s32_224", "levit_128s", "ghostnet_100",
)  # fmt: skip
Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


def image_model(name: str) -> Made:
    import timm

    size = 299 if name == "inception_v3" else 224
    return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),)


def language_model(name: str) -> Made:
    import transformers

    small = {"vocab_size": 500, "return_dict": False, "attn_implementation": "eager"}
    layers = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = {
        "Bert": layers,
        "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "use_cache": False},
        "Llama": layers | {"num_key_value_heads": 2, "use_cache": False},
    }[name]
    made = getattr(transformers, f"{name}Config")(**config, **small)
    return getattr(transformers, f"{name}Model")(made), (torch.randint(0, 500, (1, 16)),)


MODELS: dict[str, Callable[[], Made]] = {
    **{name: partial(image_model, name) for name in IMAGES},
    **{name: partial(language_model, name) for name in ("Bert", "GPT2", "Llama")},
    "lstm": lambda: (torch.nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True), (torch.randn(2, 7, 8),)),
    "gru": lambda: (torch.nn.GRU(8, 16, 2), (torch.randn(7, 2, 8),)),
    "encoder": lambda: (
        torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
        (torch.randn(2, 7, 32),),
    ),
}


def row(name: str, opset: int, dynamo: bool) -> str:
    module, inputs = MODELS[name]()
    module.eval()
    file = io.BytesIO()
    with torch.no_grad():
        wanted = module(*inputs)
        torch.onnx.export(module, inputs, file, opset_version=opset, dynamo=dynamo)
    model = onnx.load_from_string(file.getvalue())
    start = time.perf_counter()
    read = to_module(model, dict(zip((i.name for i in model.graph.input), inputs, strict=True))).eval()
    seconds = time.perf_counter() - start
    off = max(
        float((g.float() - w.float()).abs().max() / w.float().abs().max().clamp(min=1e-6))
        for g, w in zip(tensors(read(*inputs)), tensors(wanted), strict=True)
    )
    nodes = len(Program(export(read, inputs)).nodes)
    return (
        f"{len(model.graph.node):6} nodes of ONNX, {nodes:4} of ATen, {off:.0e} off, read in {seconds:.1f} s"
    )


def tensors(made: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dynamo", action="store_true")
    parser.add_argument("--only", action="append", choices=MODELS, default=[])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    declare_torchvision()
    for name in given.only or MODELS:
        for opset in (18, 23) if given.dynamo else (14, 18, 20):
            try:
                text = row(name, opset, given.dynamo)
            except Exception as error:  # the exporters raise whatever they meet
                text = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
            print(f"{name:30}{opset:4} {text}", flush=True)


if __name__ == "__main__":
    main()
