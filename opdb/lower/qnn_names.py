"""QNN's op for an operator of PyTorch, ONNX or TensorFlow Lite that opdb does not map, by its name."""

from __future__ import annotations

import re
from functools import cache

from opdb.generated import validators

#: Operators by their plain names whose QNN op is called otherwise.
OTHERWISE = {
    "nms": "NonMaxSuppression",
    "nonmaxsuppressionv4": "NonMaxSuppression",
    "nonmaxsuppressionv5": "NonMaxSuppression",
    "gridsampler": "GridSample",
    "gridsampler2d": "GridSample",
    "gridsampler3d": "GridSample",
    "roipool": "RoiPooling",
    "maxroipool": "RoiPooling",
    "randlike": "RandomUniformLike",
    "randnlike": "RandomNormalLike",
    "lrn": "Lrn",
    "unidirectionalsequencelstm": "Lstm",
    "bidirectionalsequencelstm": "Lstm",
    "loop": "",
    "while": "",
    "scan": "",
}


def qnn_op(operator: str) -> str | None:
    """The QNN op with the meaning of ``operator`` (aten.nonzero.default, onnx.GRU, WHILE), or None if QNN has none."""
    name = operator.removesuffix(".default")
    plain = _plain(name.split(".")[1] if "." in name else name)
    if plain in OTHERWISE:
        return OTHERWISE[plain] or None
    known = _by_plain_name()
    return known.get(plain) or known.get(f"elementwise{plain}")


def has_op(operator: str, what: str) -> str:
    """Whether QNN has an op for ``operator``, in words; ``what``: the operator's form that opdb does not map."""
    op = qnn_op(operator)
    return f"QNN has the op {op}, opdb does not map {what} to it" if op else f"QNN has no op for {operator}"


@cache
def _by_plain_name() -> dict[str, str]:
    return {_plain(op): op for op in validators.MODULES}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
