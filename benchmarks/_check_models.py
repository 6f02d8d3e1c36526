"""Models for check_agreement.py: name -> (module, inputs), random weights, small configurations.

Groups: modules of the executorch wheel (its Qualcomm tests and examples), timm, transformers, and one synthetic graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]
r = torch.randn

#: Models of executorch.backends.qualcomm.tests.models: class, its arguments, shapes of its inputs.
QUALCOMM: Mapping[str, tuple[tuple[Any, ...], tuple[tuple[int, ...], ...]]] = {
    "ResidualBlockModule": ((), ((1, 32, 28, 28),)),
    "Conv2dTopK": ((), ((1, 3, 32, 32),)),
    "Conv2dSequential": ((), ((1, 1, 3, 3),)),
    "Conv1dReluLogSoftmax": ((1,), ((1, 2, 28),)),
    "Conv2dAvgPool2d": ((), ((16, 3, 16, 16),)),
    "Conv2dBnHardtanhMean": ((), ((1, 1, 6, 6),)),
    "Conv2dCat": ((), ((1, 3, 5, 5), (1, 3, 5, 5))),
    "Conv2dDownUpSample": ((), ((1, 16, 224, 224),)),
    "Conv2dMaxPool2d": ((), ((1, 2, 14, 14),)),
    "Conv2dSliceCopy": ((), ((2, 1, 5, 5),)),
    "ConvTranspose2dSingle": ((), ((1, 1, 33, 33),)),
    "MultiheadAttention": ((), ((1, 197, 96),)),
    "SimpleModel": ((), ((1, 32, 28, 28), (1, 32, 28, 28))),
    "ChunkAdd": ((), ((1, 2, 4, 2),)),
    "Conv2dArgmin": ((), ((16, 3, 16, 16),)),
    "Conv2dSumReduceDim": ((), ((1, 1, 3, 3),)),
    "Conv2dUnbind": ((), ((1, 3, 5, 5),)),
    "DrawGraphModel": ((), ((1, 32, 28, 28),)),
    "CDistForward": ((), ((1, 125, 256), (1, 2048, 256))),
    "PixelUnshuffleMathEquivalent": ((2,), ((2, 2, 6, 6),)),
}
IMAGE = (1, 3, 64, 64)
#: timm: name, arguments, the shape of the input.
TIMM: Mapping[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "mobilenetv2_050": ({}, IMAGE),
    "mobilenetv3_small_050": ({}, IMAGE),
    "efficientnet_b0": ({}, IMAGE),
    "resnet18": ({}, IMAGE),
    "regnetx_002": ({}, IMAGE),
    "ghostnet_050": ({}, IMAGE),
    "repvgg_a0": ({}, IMAGE),
    "densenet121": ({}, IMAGE),
    "convnext_atto": ({}, IMAGE),
    "mobilevit_xxs": ({}, IMAGE),
    "edgenext_xx_small": ({}, IMAGE),
    "poolformer_s12": ({}, IMAGE),
    "mixer_s32_224": ({"img_size": 64}, IMAGE),
    "vit_tiny_patch16_224": ({"img_size": 64}, IMAGE),
    "deit_tiny_distilled_patch16_224": ({"img_size": 64}, IMAGE),
    "swin_tiny_patch4_window7_224": ({"img_size": 56, "depths": (2, 2)}, (1, 3, 56, 56)),
    "inception_v3": ({}, (1, 3, 128, 128)),
}
SMALL = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64,
    "max_position_embeddings": 32,
}  # fmt: skip
DECODER = {"num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
VISION = {"image_size": 32, "patch_size": 8}
#: transformers: configuration and model class, the configuration's arguments; input ids, or an image.
TRANSFORMERS: Mapping[str, tuple[str, str, dict[str, Any], tuple[int, ...]]] = {
    "bert": ("BertConfig", "BertModel", SMALL, (1, 16)),
    "roberta": ("RobertaConfig", "RobertaModel", SMALL | {"max_position_embeddings": 40}, (1, 16)),
    "electra": ("ElectraConfig", "ElectraModel", SMALL | {"embedding_size": 16}, (1, 16)),
    "albert": ("AlbertConfig", "AlbertModel", SMALL | {"embedding_size": 16}, (1, 16)),
    "mobilebert": (
        "MobileBertConfig", "MobileBertModel",
        SMALL | {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32}, (1, 16),
    ),
    "distilbert": (
        "DistilBertConfig", "DistilBertModel",
        {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 64}, (1, 16),
    ),
    "gpt2": (
        "GPT2Config", "GPT2Model",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": 32, "use_cache": False}, (1, 16),
    ),
    "llama": ("LlamaConfig", "LlamaModel", SMALL | DECODER, (1, 16)),
    "qwen2": ("Qwen2Config", "Qwen2Model", SMALL | DECODER, (1, 16)),
    "gemma": ("GemmaConfig", "GemmaModel", SMALL | DECODER | {"head_dim": 8}, (1, 16)),
    "opt": (
        "OPTConfig", "OPTModel",
        SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32, "use_cache": False}, (1, 16),
    ),
    "t5": (
        "T5Config", "T5EncoderModel",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 64}, (1, 16),
    ),
    "vit": ("ViTConfig", "ViTModel", SMALL | VISION, (1, 3, 32, 32)),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", SMALL | VISION, (1, 3, 32, 32)),
    "whisper_encoder": (
        "WhisperConfig", "WhisperEncoder",
        {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64,
         "num_mel_bins": 16, "max_source_positions": 32}, (1, 16, 64),
    ),
}  # fmt: skip


class Lists(nn.Module):
    """A model whose outputs are the tensors of a transformers model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x, return_dict=False)[0]


class Synthetic(nn.Module):
    """1,500 nodes of the most common operators; no two layers are quite alike."""

    def __init__(self, layers: int = 150) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(16 + i, 17 + i) for i in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(17 + i) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for linear, norm in zip(self.linears, self.norms, strict=True):
            y = norm(linear(x))
            gate = torch.sigmoid(y) * torch.tanh(y)
            x = torch.softmax(torch.relu(gate + y), -1) * y.mean(-1, keepdim=True) - gate
        return x


def _qualcomm(name: str) -> Callable[[], Made]:
    def make() -> Made:
        arguments, shapes = QUALCOMM[name]
        module = getattr(import_module("executorch.backends.qualcomm.tests.models"), name)
        return module(*arguments), tuple(r(s) for s in shapes)

    return make


def declare_torchvision() -> None:
    """Declares torchvision's operators, which are built for one kind of torch; the models here use none of them."""
    for op in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, op):
            torch.library.define(
                f"torchvision::{op}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )


def _timm(name: str) -> Callable[[], Made]:
    def make() -> Made:
        declare_torchvision()
        import timm

        options, shape = TIMM[name]
        return timm.create_model(name, pretrained=False, **options), (r(shape),)

    return make


def _transformers(name: str) -> Callable[[], Made]:
    def make() -> Made:
        declare_torchvision()
        import transformers
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        config, model, options, shape = TRANSFORMERS[name]
        made = getattr(transformers, config)(**options, attn_implementation="eager")
        cls = WhisperEncoder if model == "WhisperEncoder" else getattr(transformers, model)
        inputs = torch.randint(1, 60, shape) if len(shape) == 2 else r(shape)
        return Lists(cls(made)), (inputs,)

    return make


def _example(module: str, name: str) -> Callable[[], Made]:
    def make() -> Made:
        found = getattr(import_module(f"executorch.examples.models.{module}"), name)()
        return found.get_eager_model(), tuple(found.get_example_inputs())

    return make


def _deep_vit() -> Made:
    _timm("vit_tiny_patch16_224")()
    import timm

    return timm.create_model("vit_tiny_patch16_224", pretrained=False, img_size=64, depth=36), (r(IMAGE),)


MODELS: dict[str, Callable[[], Made]] = {
    **{f"executorch.{name}": _qualcomm(name) for name in QUALCOMM},
    **{f"executorch.{name}": _example("toy_model", name)
       for name in ("MulModule", "LinearModule", "AddModule", "AddMulModule", "SoftmaxModule")},
    **{f"timm.{name}": _timm(name) for name in TIMM},
    **{f"transformers.{name}": _transformers(name) for name in TRANSFORMERS},
    "timm.vit_36_blocks": _deep_vit,
    "synthetic.1500_nodes": lambda: (Synthetic(), (r(2, 16),)),
}  # fmt: skip
