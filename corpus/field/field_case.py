"""Small inputs from the field: models that people reported and more of each kind, with the answer `opdb` should give.

A case is a function that makes the model.  In ``field_pytorch`` it returns (torch.nn.Module, inputs), in ``field_onnx`` an
``onnx.ModelProto``.  A kind is named as in docs/results/field-cases.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: The largest error as a part of the largest value: fp16 rounds to 5e-4, and an op or two lose some more.
WITHIN = 5e-3


@dataclass(frozen=True)
class Case:
    """One model and its expected outcome.

    ``said`` is a piece of the output of `check`; with ``exit`` 0 it is a warning or a note, with 1 a row of a node that falls back
    to the CPU, with 2 the only line of an error, or one of `compile` if its own options are wrong.  ``results`` is True if the
    program is run and its results are right.
    """

    kind: str
    make: Callable[[], Any]
    form: str = ".bin"
    options: tuple[str, ...] = ("--soc", "SM8650")
    compile_options: tuple[str, ...] = ()
    execution: str = "emulator"  # of a context; a .pte is for the device
    exit: int = 0
    said: str = ""
    results: bool = True
    within: float = WITHIN
    steps: int = 1

    @property
    def name(self) -> str:
        return self.make.__name__


#: Kind -> its cases; the first one is the report.
CASES: dict[str, list[Case]] = {}


def case(kind: str, **other: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Adds the decorated function to ``CASES``."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        CASES.setdefault(kind, []).append(Case(kind, make, **other))
        return make

    return add
