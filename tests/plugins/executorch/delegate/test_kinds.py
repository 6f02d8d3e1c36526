"""Programs that opdb rewrites first, or whose ends differ from the graph's: one delegate, PyTorch's numbers."""

from __future__ import annotations

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from opdb.plugins.executorch.delegate.decide import Judge
from opdb.plugins.executorch.delegate.partitioner import BACKEND, OpdbPartitioner
from opdb.plugins.executorch.delegate.run import Runner
from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from .modules import calls, export, lower

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.executorch]
PLACES = (Options(KERNELS), Options("CPU"), Options("HTP", soc="SM8650", execution="emulator"))


class Windows(nn.Module):
    """Views to six dimensions and back."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + 1).view(1, 2, 2, 2, 2, 3).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, 3) * 2


class Mixed(nn.Module):
    """Floats, integers and booleans in one operator."""

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return torch.where(x > 0, x * n, n / 4) + (n > 2) * x


class ShapeAlone(nn.Module):
    """An input of which only the shape is used."""

    def forward(self, like: Tensor, x: Tensor) -> Tensor:
        return torch.zeros_like(like) + x.mean()


class Computed(nn.Module):
    """A computed constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("b", torch.arange(32.0).reshape(4, 8).sin())

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(self.b) + x
        return made


N = torch.arange(4, dtype=torch.int32)
CASES: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "windows": (Windows(), (torch.arange(48.0).reshape(1, 4, 4, 3).sin(),)),
    "mixed": (Mixed(), (torch.arange(12.0).reshape(3, 4) / 4 - 1, N)),
    "shape alone": (ShapeAlone(), (torch.zeros(3, 5), torch.arange(12.0).reshape(3, 4) / 8)),
}


@pytest.mark.parametrize("options", PLACES, ids=lambda o: o.backend)
@pytest.mark.parametrize("name", CASES)
def test_one_delegate_matches_pytorch(name: str, options: Options) -> None:
    module, inputs = CASES[name]
    partitioner = OpdbPartitioner(options)
    made = lower(module, inputs, partitioner)
    assert calls(made) == [BACKEND] and not partitioner.reasons
    with Runner(made) as runner:
        (found,) = runner.execute("forward", *inputs)
    torch.testing.assert_close(found, module(*inputs), rtol=4e-3, atol=4e-3)


def test_a_node_is_refused_with_its_inserted_conversion() -> None:
    """HTP converts no float64."""

    class Double(nn.Module):
        def forward(self, x: Tensor, d: Tensor) -> Tensor:
            return torch.relu(x) * d

    program = export(Double(), (torch.ones(4), torch.ones(4, dtype=torch.float64)))
    refused = Judge(PLACES[-1]).ask(program, ["relu", "mul"]).refused
    assert list(refused) == ["mul"] and any("f64" in why for why in refused["mul"])


@pytest.mark.parametrize("options", PLACES, ids=lambda o: o.backend)
def test_a_computed_constant_is_quantized(options: Options) -> None:
    torch.manual_seed(0)
    module, x = Computed().eval(), torch.arange(32.0).reshape(4, 8).cos()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(module, (x,), strict=True).module(), quantizer)
    prepared(x)
    quantized = convert_pt2e(prepared)
    exported = torch.export.export(quantized, (x,), strict=True)
    made = to_edge_transform_and_lower(exported, partitioner=[OpdbPartitioner(options)])
    with Runner(made) as runner:
        (found,) = runner.execute("forward", x)
    step = float(module(x).abs().max()) / 127
    torch.testing.assert_close(found, quantized(x), rtol=0, atol=1.01 * step)
