"""OpInfo samples whose numbers differ from PyTorch's, by (OpInfo, data type, backend): every one of them fails."""

from __future__ import annotations

from dataclasses import dataclass

INFINITE = "NaN or infinities among the inputs, which the library's extremes, places and sums do not carry as PyTorch"
POWER = "HTP's power of a negative number and a fraction is not NaN"
TIES = (
    "many values are equal (8,000 of them after rounding to half precision); the order of equal ones is open"
)
LARGE = "QNN CPU's remainder of a whole number beyond 2**24 is wrong"
GELU = "PyTorch's approximation by tanh is taken for QNN's GELU, which is at most 5e-4 apart"
SQUARES = "the squares are beyond half precision's largest number"
ENDS = (
    "the largest INT_32 is filled in, and the difference from it, by which HTP selects, does not fit INT_32"
)
CANCELLED = "parts of 15 cancel to 2, which is off by two of the parts' units in half precision"


@dataclass(frozen=True)
class Known:
    """``listed``: the indices of the samples; e.g. "3 5-7"."""

    why: str
    listed: str

    @property
    def numbers(self) -> frozenset[int]:
        ends = [part.split("-") for part in self.listed.split()]
        return frozenset(i for e in ends for i in range(int(e[0]), int(e[-1]) + 1))


KNOWN = {
    ("__rpow__", "float32", "HTP"): Known(POWER, "0 2 4-7"),
    ("argsort", "float32", "HTP"): Known(TIES, "0"),
    ("masked.amax", "float32", "CPU"): Known(INFINITE, "20-22 25-27 30-32 35-37 40 52-53 56-58 63-67 85-86"),
    ("masked.amax", "float32", "HTP"): Known(INFINITE, "20-22 25-27 30-32 35-37 40"),
    ("masked.amin", "float32", "CPU"): Known(INFINITE, "20-22 25-27 30-32 35-37 40 52-53 56-58 63-67 85-86"),
    ("masked.amin", "float32", "HTP"): Known(INFINITE, "20-22 25-27 30-32 35-37 40"),
    ("masked.amin", "int32", "HTP"): Known(ENDS, "37-38 41-43"),
    ("masked.argmax", "float32", "CPU"): Known(INFINITE, "17 22"),
    ("masked.argmax", "float32", "HTP"): Known(INFINITE, "14 16-19 21-22 25"),
    ("masked.argmin", "float32", "CPU"): Known(INFINITE, "17 22"),
    ("masked.argmin", "float32", "HTP"): Known(INFINITE, "15-18 20-22 24"),
    ("masked.log_softmax", "float32", "HTP"): Known(INFINITE, "5 7 9-13"),
    ("masked.logsumexp", "float32", "CPU"): Known(INFINITE, "18 23 28 33 38 52-53 56-58 63-67 85-86"),
    ("masked.logsumexp", "float32", "HTP"): Known(INFINITE, "20-22 25-27 30-32 35-37 40"),
    ("masked.norm", "float32", "CPU"): Known(
        INFINITE, "18-19 23-24 28-29 33-34 38-39 200-202 205-207 210-212 215-217 220"
    ),
    ("masked.norm", "float32", "HTP"): Known(
        INFINITE,
        "20-22 25-27 30-32 35-37 40 110-112 115-117 120-122 125-127 130 200-202 205-207 210-212 215-217 220",
    ),
    ("masked.softmax", "float32", "HTP"): Known(INFINITE, "5 7 9-13"),
    ("masked.softmin", "float32", "HTP"): Known(INFINITE, "5 7 9-13"),
    ("masked.sum", "float32", "HTP"): Known(INFINITE, "20-22 25-27 30-32 35-37 40"),
    ("nn.functional.gelu", "float32", "KERNELS"): Known(GELU, "1 3 5 7"),
    ("nn.functional.poisson_nll_loss", "float32", "HTP"): Known(CANCELLED, "4 52"),
    ("nn.functional.rms_norm", "float32", "HTP"): Known(SQUARES, "0-1"),
    ("sort", "float32", "HTP"): Known(TIES, "0"),
    ("topk", "int32", "CPU"): Known(TIES, "0-6"),
    ("topk", "int32", "HTP"): Known(TIES, "0-6"),
    ("topk", "int32", "KERNELS"): Known(TIES, "0-6"),
    ("topk", "int64", "CPU"): Known(TIES, "0-6"),
    ("topk", "int64", "HTP"): Known(TIES, "0-6"),
    ("topk", "int64", "KERNELS"): Known(TIES, "0-6"),
    ("unravel_index", "int32", "CPU"): Known(LARGE, "4"),
}
