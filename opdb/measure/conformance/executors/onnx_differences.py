"""Where ONNX's reference evaluator and PyTorch do not agree, and ONNX's own definition is with PyTorch."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: ids of cases -> what is wrong.  Each was seen in onnx 1.23.2; the list is strict.
DIFFERENCES = {
    "Lrn-*": "LRN goes over as many channels as there are batches",
    "TransposeConv?d-sample1-*": "ConvTranspose with groups takes filters by the number of results, not of inputs",
}


def difference(case: str) -> str:
    """What is known to be wrong with ONNX's answer to a case; "" if nothing is."""
    return next((what for pattern, what in DIFFERENCES.items() if fnmatchcase(case, pattern)), "")
