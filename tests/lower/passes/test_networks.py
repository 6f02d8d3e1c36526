"""Small networks of plain PyTorch: the number of remaining Transposes, and results equal to PyTorch's."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.execute.compile.model import lowered
from opdb.lower.passes import optimize
from opdb.programs.torch.export import export
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.backend import Backend

pytestmark = pytest.mark.torch
HTP, CPU = Target("HTP", "SA8255"), Target("CPU", execution="emulator")


def conv(a: int, b: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU6()
    )


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, a: int, b: int, stride: int = 1) -> None:
        super().__init__()
        self.wide, self.deep = conv(a, 4 * a, 1), conv(4 * a, 4 * a, 3, stride, 4 * a)
        self.narrow = nn.Sequential(nn.Conv2d(4 * a, b, 1, bias=False), nn.BatchNorm2d(b))
        self.adds = a == b and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.narrow(self.deep(self.wide(x)))
        return x + y if self.adds else y


class Excited(nn.Module):
    """A squeeze-excite block with hard-swish, as in MobileNetV3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.before, self.behind = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, 6, 1)
        self.less, self.more = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.hardswish(self.before(x))
        gate = self.more(torch.relu(self.less(y.mean((2, 3), keepdim=True))))
        return self.behind(y * nn.functional.hardsigmoid(gate))


class Dense(nn.Module):
    """Concats of the results of all layers, with a Batchnorm that cannot be folded."""

    def __init__(self, channels: int, layers: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(channels + 4 * i), nn.ReLU(), nn.Conv2d(channels + 4 * i, 4, 3, padding=1)
            )
            for i in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [x]
        for part in self.parts:
            made.append(part(torch.cat(made, 1)))
        return torch.cat(made, 1)


class Next(nn.Module):
    """ConvNeXt's block: layer norm and linear layers over the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm, self.wide = nn.LayerNorm(channels), nn.Linear(channels, 2 * channels)
        self.narrow = nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, channels).reshape(channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


class Shuffled(nn.Module):
    """ShuffleNet's halves and its shuffle of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = conv(channels // 2, channels // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.one(b)], 1)
        n, c, h, w = y.shape
        return y.reshape(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Gated(nn.Module):
    """x * sigmoid(x), a division, a mean without its dimensions, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.end = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3), nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a((x - 0.5) / 0.25)
        y = self.b(y * torch.sigmoid(y))
        return self.end(nn.functional.pad(y, (1, 2, 0, 1)).mean((2, 3)))


def ended(*parts: nn.Module, channels: int) -> nn.Sequential:
    """The parts followed by the head of a classifier."""
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5))


#: (network, Transposes that are left, the same with images in NHWC)
NETWORKS: dict[str, tuple[nn.Module, int, int]] = {
    "inverted": (ended(conv(3, 8, 3, 2), Inverted(8, 8), Inverted(8, 12, 2), Inverted(12, 12), channels=12), 1, 0),
    "excited": (nn.Sequential(conv(3, 8), Excited(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 1, 0),
    "dense": (ended(conv(3, 4), Dense(4, 3), channels=16), 1, 0),
    "next": (nn.Sequential(nn.Conv2d(3, 8, 4, 4), Next(8), Next(8)), 2, 0),
    "flat": (nn.Sequential(conv(3, 4, 3, 2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 16, 5)), 1, 0),
    "gated": (Gated(), 1, 0),
    "image": (
        nn.Sequential(conv(3, 8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3, padding=1), nn.Sigmoid()), 2, 0,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    for network, _, _ in NETWORKS.values():
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean = torch.randn(part.num_features) * 0.1
                part.running_var = torch.rand(part.num_features) + 0.5
        network.eval()


@cache
def program(name: str) -> torch.export.ExportedProgram:
    return export(NETWORKS[name][0], (torch.rand(1, 3, 16, 16),))


def made(name: str, target: Target = HTP, io_layout: str = "keep", without: tuple[str, ...] = ()) -> QnnGraph:
    _, graph = lowered(program(name), target, name, io_layout=io_layout, without=without)
    assert graph is not None
    return graph


def transposes(graph: QnnGraph) -> int:
    return sum(op.op == "Transpose" for op in graph.ops)


@pytest.fixture(scope="module")
def library(libraries: object) -> Iterator[Backend]:
    with Backend.open("CPU") as backend:
        yield backend


@pytest.mark.parametrize("name", NETWORKS)
def test_few_transposes_remain_and_results_match_pytorch(name: str) -> None:
    network, left, none = NETWORKS[name]
    x = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = network(x).numpy()
    bound = 2e-5 * max(1.0, float(np.abs(wanted).max()))
    graph = made(name)
    assert transposes(graph) == left and transposes(made(name, without=("sink-transposes",))) > left
    assert [t.shape for t in graph.inputs] == [(1, 3, 16, 16)]
    (got,) = run_graph(graph, {graph.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(got, wanted, atol=bound)
    last = made(name, io_layout="nhwc")
    assert transposes(last) == none and [t.shape for t in last.inputs] == [(1, 16, 16, 3)]
    (got,) = run_graph(last, {last.inputs[0].name: x.permute(0, 2, 3, 1).contiguous().numpy()}).values()
    wanted = wanted.transpose(0, 2, 3, 1) if wanted.ndim == 4 else wanted
    np.testing.assert_allclose(got, wanted, atol=bound)
    assert [t.name for t in graph.outputs] == [t.name for t in last.outputs]


@pytest.mark.vendor
@pytest.mark.parametrize("name", NETWORKS)
def test_results_on_the_library_match_pytorch(name: str, library: Backend) -> None:
    x = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = NETWORKS[name][0](x).numpy()
    for io_layout, given in (("keep", x), ("nhwc", x.permute(0, 2, 3, 1).contiguous())):
        graph = made(name, CPU, io_layout)
        prepared = library.prepare(graph)
        (got,) = prepared.execute({graph.inputs[0].name: given.numpy()}).values()
        prepared.close()
        if got.ndim == 4 and io_layout == "nhwc":
            got = got.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(got.reshape(wanted.shape), wanted, atol=1e-4 * max(1.0, abs(wanted).max()))


def test_a_channel_shuffle_moves_no_more_data() -> None:
    network = nn.Sequential(conv(4, 8), Shuffled(8), Shuffled(8), nn.Conv2d(8, 4, 1)).eval()
    x = torch.rand(1, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    _, graph = lowered(export(network, (x,)), HTP, "shuffled")
    assert graph is not None and transposes(graph) <= 4  # two of the ends, one of each shuffle
    with torch.no_grad():
        wanted = network(x).numpy()
    np.testing.assert_allclose(
        next(iter(run_graph(graph, {graph.inputs[0].name: x.numpy()}).values())), wanted, atol=1e-5
    )


def test_unknown_passes_and_layouts_are_refused() -> None:
    small = export(nn.ReLU(), (torch.rand(2, 3),))
    with pytest.raises(OpdbError, match="no pass 'sink-transpose'; did you mean 'sink-transposes'"):
        lowered(small, HTP, "x", without=["sink-transpose"])
    with pytest.raises(OpdbError, match="io layout 'nchw': one of keep, nhwc"):
        lowered(small, HTP, "x", io_layout="nchw")


def stack(blocks: int) -> QnnGraph:
    """A chain of MobileNetV2's blocks as lowered: a Transpose on each side of each convolution."""
    graph = QnnGraph("stack")
    rng = np.random.default_rng(0)
    filters = {
        "Conv2d": rng.random((1, 1, 8, 8), np.float32),
        "DepthWiseConv2d": rng.random((3, 3, 1, 8), np.float32),
    }
    nchw, nhwc = (1, 8, 6, 6), (1, 6, 6, 8)

    def tensor(shape: tuple[int, ...], kind: str = "NATIVE", data: object = None) -> str:
        name = f"t{len(graph.tensors)}"
        graph.tensors[name] = GraphTensor(name, "f32", shape, kind, data)
        return name

    def op(kind: str, inputs: tuple[str, ...], shape: tuple[int, ...], *params: ParamConfig) -> str:
        made = tensor(shape)
        graph.ops.append(GraphOp(f"op{len(graph.ops)}", kind, inputs, params, (made,)))
        return made

    def turned(x: str, shape: tuple[int, ...], *perm: int) -> str:
        return op("Transpose", (x,), shape, ParamConfig("perm", "u32", perm, (4,)))

    x = first = tensor(nchw, "APP_WRITE")
    for _ in range(blocks):
        y = x
        for kind in ("Conv2d", "DepthWiseConv2d", "Conv2d"):
            padding = (1, 1, 1, 1) if kind == "DepthWiseConv2d" else (0, 0, 0, 0)
            params = (
                ParamConfig("stride", "u32", (1, 1), (2,)),
                ParamConfig("pad_amount", "u32", padding, (2, 2)),
            )
            weight = tensor(filters[kind].shape, "STATIC", filters[kind])
            y = op(kind, (turned(y, nhwc, 0, 2, 3, 1), weight), nhwc, *params)
            y = op("Relu", (turned(y, nchw, 0, 3, 1, 2),), nchw)
        x = op("ElementWiseAdd", (x, y), nchw)
    assert x != first
    graph.tensors[x] = GraphTensor(x, "f32", nchw, "APP_READ")
    return graph


def test_the_work_is_linear_in_the_number_of_nodes() -> None:
    """Counts calls, which other processes cannot affect; 1,500 nodes take 1 s on an idle core."""
    calls = []
    for blocks in (30, 120):
        graph = stack(blocks)
        counted = cProfile.Profile(subcalls=False)
        after = counted.runcall(optimize, graph, HTP).graph
        calls.append(pstats.Stats(counted).total_calls)
        assert transposes(after) == 2
    assert len(graph.ops) >= 1500
    assert calls[1] < 5 * calls[0]
