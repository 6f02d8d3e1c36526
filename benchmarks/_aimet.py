"""AIMET's calibration methods, for benchmarks/calibration.py."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch

from opdb.execute.compile.rounding import CONFIGURATION, _silent

#: The calibration methods; equalization folds the batch norms itself.
WAYS = ("min-max", "equalized", "sequential MSE", "AdaRound")


def exported(module: Any, example: torch.Tensor, path: Path) -> str:
    """Exports the module as an ONNX file with the input x and the output y."""
    with _silent():
        torch.onnx.export(
            module, (example,), path, input_names=["x"], output_names=["y"], dynamo=True, external_data=False
        )
    return str(path)


def calibrated(
    path: str, way: str, bits: tuple[int, int], batches: Sequence[torch.Tensor], iterations: int, folder: Path
) -> tuple[str, str]:
    """Returns the ONNX file and the encodings that AIMET produces for the file at ``path``; ``bits`` of activations and weights."""
    with _silent():
        import aimet_onnx
        import onnx
        from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight
        from aimet_onnx.cross_layer_equalization import equalize_model

        model = onnx.load(path)
        (equalize_model if way == "equalized" else fold_all_batch_norms_to_weight)(model)
        sim = aimet_onnx.QuantizationSimModel(
            model, param_type=f"int{bits[1]}", activation_type=f"int{bits[0]}", config_file=CONFIGURATION
        )
        inputs = [{"x": batch.numpy()} for batch in batches]
        if way == "sequential MSE":
            aimet_onnx.apply_seq_mse(sim, inputs)
        if way == "AdaRound":
            sim.compute_encodings(inputs)
            aimet_onnx.apply_adaround(sim, inputs, iterations)
        sim.compute_encodings(inputs)
        sim.export(str(folder), "aimet", encoding_version="1.0.0")
    return str(folder / "aimet.onnx"), str(folder / "aimet.encodings")


def reestimated(module: Any, bits: tuple[int, int], batches: Sequence[torch.Tensor]) -> Any:
    """``module`` with AIMET's rounded weights and batch norm statistics re-estimated for them.

    Each channel's scale is multiplied by the factor of its folded batch norm, so weights on the grid stay on it after folding.
    """
    with _silent(), _torchvision():
        from aimet_torch.bn_reestimation import reestimate_bn_stats
        from aimet_torch.quantsim import QuantizationSimModel

        sim = QuantizationSimModel(
            module, batches[0], default_param_bw=bits[1], default_output_bw=bits[0], config_file=CONFIGURATION
        )
        sim.compute_encodings(lambda model, _: [model(batch) for batch in batches], None)
        reestimate_bn_stats(sim.model, list(batches), num_batches=len(batches))
        weights = {
            f"{name}.weight": held.param_quantizers["weight"](held.weight).dequantize()
            for name, held in sim.model.named_modules()
            if isinstance(held, torch.nn.Conv2d | torch.nn.Linear)
        }
    found = dict(sim.model.named_buffers())
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if "running" in name:
                buffer.copy_(found[name])
        for name, weight in module.named_parameters():
            weight.copy_(weights.get(name, weight))
    return module


@contextmanager
def _torchvision() -> Iterator[None]:
    """Stubs torchvision, an unused import of aimet-torch, if it is missing: PyPI has no build for CPU-only PyTorch."""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        for name in ("torchvision", "torchvision.datasets", "torchvision.transforms"):
            sys.modules[name] = MagicMock()
    yield
