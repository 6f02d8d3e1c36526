"""Networks for networks.py, with random weights: name -> (module, inputs).

CNNs and an image encoder from timm; an encoder, a decoder with a key and value cache and a speech encoder from
transformers; and a keyword spotter on raw audio (M5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from _check_models import Lists, declare_torchvision
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Tensor, ...]]


class Decoder(nn.Module):
    """A llama from transformers that receives its cache and returns the logits with the cache's new entries."""

    def __init__(self, model: nn.Module, layers: int) -> None:
        super().__init__()
        self.model, self.layers = model, layers

    def forward(self, tokens: Tensor, mask: Tensor, position: Tensor, *cached: Tensor) -> tuple[Tensor, ...]:
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(self.layers):
            cache.update(cached[2 * i], cached[2 * i + 1], i)
        logits = self.model(tokens, attention_mask=mask, position_ids=position, past_key_values=cache).logits
        new = (t[:, :, -tokens.shape[1] :] for layer in cache.layers for t in (layer.keys, layer.values))
        return (logits, *new)


class M5(nn.Module):
    """The network for raw waveforms by Dai et al. 2016 ("Very deep convolutional neural networks"), 5 layers."""

    def __init__(self, classes: int = 35, channels: int = 32) -> None:
        super().__init__()
        sizes = ((1, channels, 80, 16), (channels, channels, 3, 1), (channels, 2 * channels, 3, 1),
                 (2 * channels, 2 * channels, 3, 1))  # fmt: skip
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv1d(a, b, k, stride=s), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(4))
                for a, b, k, s in sizes
            )
        )
        self.classes = nn.Linear(2 * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(x)
        return torch.log_softmax(self.classes(x.mean(-1)), -1)


def _timm(name: str) -> Made:
    declare_torchvision()
    import timm

    return timm.create_model(name, pretrained=False), (torch.randn(1, 3, 224, 224),)


def _bert() -> Made:
    declare_torchvision()
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                        vocab_size=2000, attn_implementation="eager")  # fmt: skip
    return Lists(BertModel(config)), (torch.randint(1, 2000, (1, 64)),)


def _whisper() -> Made:
    """The encoder of whisper-tiny, for 4 of its 30 seconds."""
    declare_torchvision()
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536,
                           num_mel_bins=80, max_source_positions=200, attn_implementation="eager")  # fmt: skip
    return Lists(WhisperEncoder(config)), (torch.randn(1, 80, 400),)


def _decoder() -> Made:
    """Two blocks of a llama with grouped queries: one token after 63 cached ones, of which 40 count."""
    declare_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=256, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
                         intermediate_size=688, vocab_size=512, attn_implementation="eager")  # fmt: skip
    places = torch.arange(64)
    mask = torch.where((places < 40) | (places == 63), 0.0, -255.0).reshape(1, 1, 1, 64)
    cached = [torch.randn(1, 4, 63, 32) for _ in range(4)]
    return Decoder(LlamaForCausalLM(config), 2), (torch.tensor([[17]]), mask, torch.tensor([[40]]), *cached)


def _m5() -> Made:
    return M5(), (torch.randn(1, 1, 8000),)


def _settled(make: Callable[[], Made]) -> Callable[[], Made]:
    """Puts the module in inference mode, with the normalization statistics it would have after training on such inputs."""

    def made() -> Made:
        torch.manual_seed(0)
        module, inputs = make()
        norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if norms:
            for norm in norms:
                norm.momentum = None  # the average of all
            module.train()
            with torch.no_grad():
                for _ in range(3):
                    module(*(torch.randn_like(x).expand(2, *x.shape[1:]).contiguous() for x in inputs))
        return module.eval(), inputs

    return made


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet18": _settled(lambda: _timm("resnet18")),
    "mobilenetv3_small_050": _settled(lambda: _timm("mobilenetv3_small_050")),
    "vit_tiny": _settled(lambda: _timm("vit_tiny_patch16_224")),
    "bert": _settled(_bert),
    "llama_decoder": _settled(_decoder),
    "whisper_tiny_encoder": _settled(_whisper),
    "m5": _settled(_m5),
}
