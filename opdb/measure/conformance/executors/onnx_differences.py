"""Cases in which ONNX's reference evaluator and PyTorch disagree, and ONNX's own definition agrees with PyTorch."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: patterns of case ids -> what is wrong.  Each was seen in onnx 1.23.2; the list is strict.
DIFFERENCES = {
    "Lrn-*": "LRN goes over as many channels as there are batches",
    "TransposeConv?d-sample1-*": "ConvTranspose with groups takes filters by the number of results, not of inputs",
}


def difference(case: str) -> str:
    """The known error in ONNX's answer to a case; "" if there is none."""
    return next((what for pattern, what in DIFFERENCES.items() if fnmatchcase(case, pattern)), "")
