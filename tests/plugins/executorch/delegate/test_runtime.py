"""opdb's backend in ExecuTorch's runtime: numbers, errors, damaged blobs, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.plugins.executorch.delegate.specs import KERNELS, Options

from .runtime_cases import Classifier, Counter, Ends, Made, X, child, made

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

CHIP = "SM8650"
TARGETS = {
    "kernels": Options(KERNELS),
    "kernels, weights inside": Options(KERNELS, weights="blob"),
    "cpu": Options("CPU"),
    "cpu, composed": Options("CPU", payload="graph"),
    "htp": Options("HTP", CHIP),
    "htp, composed": Options("HTP", CHIP, payload="graph"),
}
INDEX, FACTOR = torch.tensor([4, 0, 2]), torch.arange(12.0).reshape(3, 4) - 6
STEPS = [torch.full((2, 4), 0.5), torch.arange(8.0).reshape(2, 4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtime")


#: Ends and buffers are opdb's own code: the same for a composed graph.
MAIN = ("kernels", "cpu", "htp")


@pytest.fixture(scope="module")
def programs(folder: Path) -> dict[str, Made]:
    found = {}
    for name, options in TARGETS.items():
        place = folder / name
        found[f"{name}: classifier"] = made(place / "classifier", Classifier(), [[X], [-X]], options)
        if name in MAIN:
            found[f"{name}: ends"] = made(place / "ends", Ends(), [[INDEX, FACTOR]], options)
            found[f"{name}: counter"] = made(place / "counter", Counter(), [[s] for s in STEPS], options)
    return found


@pytest.fixture(scope="module")
def results(folder: Path, programs: dict[str, Made]) -> dict[str, Any]:
    found, _ = child(folder, [p.case() for p in programs.values()])
    return dict(zip(programs, found, strict=True))


def outputs(results: dict[str, Any], name: str) -> list[list[torch.Tensor]]:
    assert "error" not in results[name], results[name]
    loaded: list[list[torch.Tensor]] = torch.load(results[name]["outputs"])
    return loaded


@pytest.mark.parametrize("target", TARGETS)
def test_a_network_matches_pytorch(target: str, results: dict[str, Any]) -> None:
    near = 2e-3 if target.startswith("htp") else 1e-4
    model = Classifier().eval()
    for x, (y,) in zip((X, -X), outputs(results, f"{target}: classifier"), strict=True):
        torch.testing.assert_close(y, model(x), atol=near, rtol=near)


@pytest.mark.parametrize("target", MAIN)
def test_64_bit_indices_and_a_repeated_output_are_supported(target: str, results: dict[str, Any]) -> None:
    ((twice, first, second),) = outputs(results, f"{target}: ends")
    expected = Ends()(INDEX, FACTOR)[1]
    assert twice.dtype == torch.int64 and twice.tolist() == [8, 0, 4]
    torch.testing.assert_close(first, expected, atol=0.1, rtol=1e-3)
    assert torch.equal(first, second)


@pytest.mark.parametrize("target", MAIN)
def test_a_buffer_is_kept_from_run_to_run(target: str, results: dict[str, Any]) -> None:
    model, found = Counter(), outputs(results, f"{target}: counter")
    for step, (y,) in zip(STEPS, found, strict=True):
        torch.testing.assert_close(y, model(step), atol=1e-2, rtol=1e-3)
