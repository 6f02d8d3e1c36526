"""Derives the range of a tensor's encoding from the observed values.

ONNX Runtime's calibration finds percentiles and the smallest divergence (entropy), PyTorch's histogram observer the least squared
error (MSE).
"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdb.core.errors import MissingExtra
from opdb.lower.quantize.encodings import Range

Array = np.ndarray[Any, Any]
MIN_MAX = "min-max"
#: Histogram bins, and the bins with which ONNX Runtime searches for the smallest divergence: its defaults.
BINS, ENTROPY_BINS, ENTROPY_STEPS = 2048, 128, 128


@dataclass(frozen=True)
class Observation:
    """``observer``: min-max, percentile, mse or entropy.  ``percentile``: used by percentile only, in percent."""

    observer: str = MIN_MAX
    percentile: float = 99.99


#: From the smallest to the largest value.
BY_ENDS = Observation()


@dataclass
class Observer:
    """Sees the values of one tensor of a quantized type (short name), array after array."""

    how: Observation
    dtype: str
    seen: Range = field(default_factory=Range)
    _library: Any = None

    def see(self, values: Array) -> None:
        """Observes finite values of any shape.  Raises MissingExtra if the observer's library is not installed."""
        self.seen = self.seen | Range.of(values)
        if self.how.observer == MIN_MAX or not values.size:
            return
        flat = np.asarray(values, np.float32).reshape(-1)
        if self.how.observer == "mse":
            self._library = self._library or _torch_observer(self.dtype)
            self._library(_tensor(flat))
        else:
            self._library = self._library or _onnx_runtime_collector(self.how)
            with redirect_stdout(None):  # it prints what it does
                self._library.collect({"x": [flat]})

    def range(self) -> Range:
        """Returns the range of the values; it includes zero and is not wider than the values."""
        if self._library is None or self.seen.low == self.seen.high:
            return self.seen
        if self.how.observer == "mse":
            scale, zero = self._library.calculate_qparams()
            ends = self._library.quant_min, self._library.quant_max
            low, high = ((end - float(zero)) * float(scale) for end in ends)
        else:
            with redirect_stdout(None):
                low, high, *_ = map(float, self._library.compute_collection_result()["x"][:2])
        low, high = max(min(low, 0.0), self.seen.low), min(max(high, 0.0), self.seen.high)
        return Range(low, high) if low < high else self.seen


def _tensor(flat: Array) -> Any:
    import torch

    return torch.from_numpy(flat)


def _torch_observer(dtype: str) -> Any:
    try:
        import torch
        from torch.ao.quantization.observer import HistogramObserver
    except ImportError:
        raise MissingExtra("torch", "torch") from None
    kinds = {"uq8": (torch.quint8, 0, 255), "uq16": (torch.uint16, 0, 65535)}
    kind, low, high = kinds.get(dtype, kinds["uq8"])
    return HistogramObserver(
        bins=BINS, dtype=kind, qscheme=torch.per_tensor_affine, quant_min=low, quant_max=high
    )


def _onnx_runtime_collector(how: Observation) -> Any:
    try:
        from onnxruntime.quantization.calibrate import HistogramCollector
    except ImportError:
        raise MissingExtra("onnxruntime.quantization (with onnx)", "onnx,qnn") from None
    entropy = how.observer == "entropy"
    bins = ENTROPY_BINS if entropy else BINS
    return HistogramCollector(how.observer, False, bins, ENTROPY_STEPS, how.percentile, "same")
