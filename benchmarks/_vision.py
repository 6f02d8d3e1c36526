"""Image networks as torchvision and timm define them, with random weights: name -> (module, inputs)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from _check_models import Made, declare_torchvision
from torch import nn

#: torchvision: the size of the image.
TORCHVISION = {
    "convnext_base": 224,
    "convnext_tiny": 224,
    "densenet121": 224,
    "efficientnet_b0": 224,
    "efficientnet_b4": 380,
    "efficientnet_v2_s": 384,
    "googlenet": 224,
    "inception_v3": 299,
    "mnasnet0_5": 224,
    "mobilenet_v2": 224,
    "mobilenet_v3_large": 224,
    "mobilenet_v3_small": 224,
    "regnet_x_3_2gf": 224,
    "regnet_y_800mf": 224,
    "resnet101": 224,
    "resnet18": 224,
    "resnet50": 224,
    "resnext101_32x8d": 224,
    "resnext50_32x4d": 224,
    "shufflenet_v2_x0_5": 224,
    "squeezenet1_1": 224,
    "vit_b_16": 224,
    "wide_resnet50_2": 224,
}
#: timm: the size of the image.
TIMM = {"efficientnet_lite4": 300}
AUXILIARY = ("googlenet", "inception_v3")
#: Networks that take pixels from -1 to 1; the others take ImageNet's mean and deviation.
SYMMETRIC = AUXILIARY


class Normalized(nn.Module):
    """A network whose inputs are pixels from 0 to 1, as AI Hub Models compiles them."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, network: nn.Module, symmetric: bool) -> None:
        super().__init__()
        self.network = network
        self.symmetric = symmetric
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1))

    def forward(self, x: torch.Tensor) -> Any:
        return self.network(x * 2 - 1 if self.symmetric else (x - self.mean) / self.std)


def network(name: str) -> Made:
    """A network in inference mode; it takes images that are already normalized."""
    declare_torchvision()
    torch.manual_seed(0)
    if name in TIMM:
        import timm

        size, made = TIMM[name], timm.create_model(name, pretrained=False, exportable=True)
    else:
        from torchvision import models

        size = TORCHVISION[name]
        more = {"init_weights": False, "aux_logits": False} if name in AUXILIARY else {}
        made = getattr(models, name)(weights=None, **more)
    return made.eval(), (torch.rand(1, 3, size, size),)


def normalized(name: str) -> Made:
    """``network`` including the normalization of its images; timm's networks take images that are already normalized."""
    module, inputs = network(name)
    return (module if name in TIMM else Normalized(module, name in SYMMETRIC).eval()), inputs


NETWORKS: Mapping[str, Callable[[], Made]] = {
    name: (lambda name=name: network(name)) for name in (*TORCHVISION, *TIMM)
}
