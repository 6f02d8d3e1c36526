"""A row of a coverage: the verdict on one node, with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opdb.judge.errata.report import Extra

#: supported: a form is accepted; rejected: all forms are refused; host: opdb does not map the operator.
VERDICTS = ("supported", "rejected", "host")


@dataclass(frozen=True)
class Row:
    """One node.

    ``bytes``: the size of its inputs and results in PyTorch.  ``flops``: see opdb.checks.flops.  Both are None if a
    shape is symbolic.  ``reads``: the rows whose results it reads.  ``graph``: the number of the QNN graph that holds it, from 1;
    None on the CPU.
    """

    node: str
    target: str
    verdict: str
    form: str = ""  # the chosen op or decomposition
    ops: tuple[str, ...] = ()
    reasons: tuple[
        Mapping[str, str], ...
    ] = ()  # rule, message, brief, form: why it, or each form before, was refused
    warnings: tuple[Mapping[str, str], ...] = ()
    #: For a rejected node: form, op, and the changes after which the target accepts the op.
    nearest: tuple[Mapping[str, Any], ...] = ()
    module: str = ""  # e.g. encoder.layers.0.norm
    line: str = ""  # of the model's source; e.g. model.py:12: return self.norm(x)
    file: str = ""  # the path of that source
    bytes: int | None = None
    flops: int | None = None
    avoided: tuple[str, ...] = ()  # errata of the library that the ops avoid
    warned: tuple[str, ...] = ()  # errata that the ops may show
    extra: Mapping[str, Extra | None] = field(
        default_factory=dict
    )  # what avoiding each costs (opdb.judge.errata.report.Met)
    reads: tuple[str, ...] = ()
    graph: int | None = None
    types: str = ""  # the types it computes in; e.g. uq16, weights of sq8
    said: tuple[str, ...] = ()  # notes on types other than the program's; see opdb.checks.notes
    at_least: bool = False  # ``flops`` is of one run of a loop that runs as often as the data say
