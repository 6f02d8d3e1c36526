"""Three small networks, each trained for a minute on handwritten digits that are rotated, shifted and noisy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

BATCH, SIZE = 32, 16
#: Numbers of image batches for calibration and for comparing results.
CALIBRATION, TEST = 8, 16
STEPS = {"mobile": 1500, "residual": 1200, "transformer": 3000}


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images of 8 by 8 pixels and their digits, for training and for testing (scikit-learn's 1,797 digits)."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    x, y, half = x[order], y[order], len(y) - BATCH * TEST
    return x[:half], y[:half], x[half:], y[half:]


def disturbed(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``images`` rotated by up to 40 degrees, scaled and shifted within SIZE by SIZE, with noise."""
    n = len(images)

    def drawn(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(n, generator=generator)

    turn, scale = drawn(-0.7, 0.7), drawn(1.0, 1.7)
    rows = [
        torch.stack([scale * turn.cos(), -scale * turn.sin(), drawn(-0.4, 0.4)], 1),
        torch.stack([scale * turn.sin(), scale * turn.cos(), drawn(-0.4, 0.4)], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), [n, 1, SIZE, SIZE], align_corners=False)
    made = F.grid_sample(images, grid, align_corners=False)
    return made + 0.15 * torch.randn(made.shape, generator=generator)


def batches() -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
    """The calibration batches (of training images), the test batches, and the digits of the test."""
    train, _, test, labels = digits()
    generator = torch.Generator().manual_seed(1)
    seen = disturbed(train[: BATCH * CALIBRATION], generator).split(BATCH)
    return list(seen), list(disturbed(test, generator).split(BATCH)), labels


def trained(name: str, folder: Path) -> nn.Module:
    """The trained network in eval mode; its weights are cached in ``folder``."""
    torch.manual_seed(0)
    module = NETWORKS[name]()
    path = folder / f"{name}.pt"
    if path.exists():
        module.load_state_dict(torch.load(path))
        return module.eval()
    x, y, _, _ = digits()
    generator = torch.Generator().manual_seed(2)
    steps = STEPS[name]
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps)
    module.train()
    for _ in range(steps):
        chosen = torch.randint(len(x), (64,), generator=generator)
        loss = F.cross_entropy(module(disturbed(x[chosen], generator)), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(module.state_dict(), path)
    return module.eval()


def _conv(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: bool = True
) -> nn.Sequential:
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class Inverted(nn.Module):
    """MobileNetV2's block: expand, depthwise, project."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.layers = nn.Sequential(
            _conv(inputs, wide, 1), _conv(wide, wide, 3, stride, wide), _conv(wide, outputs, 1, act=False)
        )
        self.adds = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.layers(x) if self.adds else self.layers(x)


class Residual(nn.Module):
    """ResNet's block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(inputs, outputs, 3, stride), _conv(outputs, outputs, 3, act=False))
        self.short = (
            nn.Identity()
            if inputs == outputs and stride == 1
            else _conv(inputs, outputs, 1, stride, act=False)
        )

    def forward(self, x: torch.Tensor) -> Any:
        return F.relu(self.layers(x) + self.short(x))


class Attention(nn.Module):
    """A transformer layer: attention with 4 heads, then two linear layers; normalized before each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> Any:
        n, tokens, width = x.shape
        y = self.first(x)
        q, k, v = (f(y).reshape(n, tokens, 4, width // 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(width // 4), 3)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(n, tokens, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Four layers on 16 patches of 4 by 4."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, 4, 4)
        self.places = nn.Parameter(0.02 * torch.randn(1, 16, width))
        self.layers = nn.Sequential(*(Attention(width) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> Any:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(tokens)).mean(1))


def _ended(width: int, *layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def _mobile() -> nn.Module:
    blocks = (
        Inverted(16, 16, 1),
        Inverted(16, 24, 2),
        Inverted(24, 24, 1),
        Inverted(24, 32, 2),
        Inverted(32, 32, 1),
    )
    return _ended(96, _conv(1, 16, 3), *blocks, _conv(32, 96, 1))


def _residual() -> nn.Module:
    return _ended(48, _conv(1, 16, 3), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 48, 2))


NETWORKS = {"mobile": _mobile, "residual": _residual, "transformer": Transformer}
