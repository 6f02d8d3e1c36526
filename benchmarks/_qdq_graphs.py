"""Small graphs and small networks with random weights, as float ONNX files: the input of the quantizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

OPSET = 20
IMAGE, ROWS, TOKENS = (1, 8, 12, 12), (4, 32), (1, 6, 32)
Shapes = tuple[tuple[int, ...], ...]


class Of(nn.Module):
    """A module of a function; ``held``: modules with weights that the function gets before the inputs."""

    def __init__(self, function: Callable[..., Tensor], *held: nn.Module) -> None:
        super().__init__()
        self.function, self.held = function, nn.ModuleList(held)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*self.held, *inputs)


class Weighted(nn.Module):
    """A matrix product with its weight in MatMul's layout."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, columns) / rows**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Residual(nn.Module):
    """MobileNetV2's inverted residual."""

    def __init__(self, channels: int, wide: int) -> None:
        super().__init__()
        self.up, self.deep = nn.Conv2d(channels, wide, 1), nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.down = nn.Conv2d(wide, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.hardtanh(self.up(x), 0, 6)
        return x + self.down(functional.hardtanh(self.deep(y), 0, 6))


class Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Residual(16, 48), Residual(16, 48))
        self.head, self.out = nn.Conv2d(16, 32, 1), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(functional.hardtanh(self.stem(x), 0, 6))
        y = functional.adaptive_avg_pool2d(functional.hardtanh(self.head(y), 0, 6), 1)
        return self.out(y.flatten(1))


class Res(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, 16, 3, padding=1)
        self.a, self.b = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.c, self.d = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.skip, self.out = nn.Conv2d(16, 32, 1, stride=2), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(torch.relu(self.stem(x)), 2)
        x = torch.relu(x + self.b(torch.relu(self.a(x))))
        x = torch.relu(self.skip(x) + self.d(torch.relu(self.c(x))))
        return self.out(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            made.reshape(batch, length, self.heads, -1).transpose(1, 2)
            for made in (self.q(x), self.k(x), self.v(x))
        )
        scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5
        scores = scores if mask is None else scores + mask
        return self.o((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width))


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.first, self.second = Attention(), nn.LayerNorm(32), nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x + self.attention(x))
        return self.second(x + self.down(functional.gelu(self.up(x))))


class Decoder(nn.Module):
    """A Llama block without positions: RMS norm, causal attention, gated layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.gate, self.up = Attention(), nn.Linear(32, 64, False), nn.Linear(32, 64, False)
        self.down, self.first, self.second = (
            nn.Linear(64, 32, False),
            *(nn.Parameter(torch.ones(32)) for _ in range(2)),
        )
        self.register_buffer("mask", torch.full((6, 6), -10.0).triu(1))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self._norm(x, self.first), self.mask)
        y = self._norm(x, self.second)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def _of(function: Callable[..., Tensor]) -> Callable[[], nn.Module]:
    return lambda: Of(function)


#: Name -> maker of the module, shapes of its inputs.
GRAPHS: dict[str, tuple[Callable[[], nn.Module], Shapes]] = {
    "conv": (lambda: nn.Conv2d(8, 16, 3, padding=1), (IMAGE,)),
    "conv relu": (lambda: nn.Sequential(nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()), (IMAGE,)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (IMAGE,)),
    "transposed conv": (lambda: nn.ConvTranspose2d(8, 16, 2, stride=2), (IMAGE,)),
    "gemm": (lambda: nn.Linear(32, 16), (ROWS,)),
    "matmul weight": (lambda: Weighted(32, 16), (TOKENS,)),
    "matmul": (_of(torch.matmul), ((2, 6, 16), (2, 16, 8))),
    "add": (_of(torch.add), (IMAGE, IMAGE)),
    "sub": (_of(torch.sub), (IMAGE, IMAGE)),
    "mul": (_of(torch.mul), (IMAGE, IMAGE)),
    "concat": (_of(lambda a, b: torch.cat([a, b * 2], 1)), (IMAGE, IMAGE)),
    "max pool": (_of(lambda x: functional.max_pool2d(x, 2)), (IMAGE,)),
    "average pool": (_of(lambda x: functional.avg_pool2d(x, 3, 2, 1)), (IMAGE,)),
    "global average pool": (_of(lambda x: functional.adaptive_avg_pool2d(x, 1)), (IMAGE,)),
    "resize nearest": (_of(lambda x: functional.interpolate(x, scale_factor=2.0)), (IMAGE,)),
    "resize bilinear": (
        _of(lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)),
        (IMAGE,),
    ),
    "softmax": (_of(lambda x: torch.softmax(x, -1)), (TOKENS,)),
    "layer norm": (lambda: nn.LayerNorm(32), (TOKENS,)),
    "gelu": (_of(functional.gelu), (TOKENS,)),
    "sigmoid": (_of(torch.sigmoid), (TOKENS,)),
    "tanh": (_of(torch.tanh), (TOKENS,)),
    "hard swish": (_of(functional.hardswish), (IMAGE,)),
    "leaky relu": (_of(lambda x: functional.leaky_relu(x, 0.1)), (IMAGE,)),
    "clip": (_of(lambda x: torch.clamp(x, -0.5, 0.8)), (IMAGE,)),
    "slice": (_of(lambda x: x[:, 2:6, 1:9:2] * 2), (IMAGE,)),
    "reshape": (_of(lambda x: (x + 1).reshape(1, 16, -1)), (IMAGE,)),
    "transpose": (_of(lambda x: x.permute(0, 2, 3, 1)), (IMAGE,)),
    "reduce mean": (_of(lambda x: x.mean(-1, keepdim=True)), (TOKENS,)),
    "pad": (_of(lambda x: functional.pad(x, (1, 2, 1, 0))), (IMAGE,)),
    "split": (_of(lambda x: torch.split(x, 4, 1)[0] + torch.split(x, 4, 1)[1]), (IMAGE,)),
    "where": (_of(lambda a, b: torch.where(a > 0, a, b)), (TOKENS, TOKENS)),
    "instance norm": (lambda: nn.InstanceNorm2d(8, affine=True), (IMAGE,)),
}
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Shapes]] = {
    "mobilenet": (Mobile, ((1, 8, 16, 16),)),
    "resnet": (Res, ((1, 8, 16, 16),)),
    "bert block": (Bert, (TOKENS,)),
    "decoder block": (Decoder, (TOKENS,)),
}
#: Graphs that have weights.
WEIGHTED = ("conv", "conv relu", "depthwise", "transposed conv", "gemm", "matmul weight", *NETWORKS)


def in_floats(name: str, folder: Path) -> Path:
    """The float file of a graph, written once; inputs x0, x1, ..."""
    path = folder / f"{name.replace(' ', '-')}.onnx"
    if not path.is_file():
        make, shapes = (GRAPHS | NETWORKS)[name]
        torch.manual_seed(0)
        module = make().eval()
        names = [f"x{i}" for i in range(len(shapes))]
        folder.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(
            module, tuple(torch.randn(s) for s in shapes), str(path), input_names=names, output_names=["y"],
            opset_version=OPSET, dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip
    return path
