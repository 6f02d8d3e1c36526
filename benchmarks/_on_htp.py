"""HTP's verdict on a small module, compared with PyTorch; for the benchmarks of random modules."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "corpus" / "operators"))

from opinfo_run import run

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_part
from opdb.checks.verdicts import check_nodes
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program


def verdict(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    worker: VendorWorker,
    soc: str,
    ignored: frozenset[str] = frozenset(),
) -> str:
    """Returns "right", "refused" by opdb's rules, or the error; ``ignored``: ids of errata that are not avoided."""
    program = Program(export(module, inputs))
    coverage = check_nodes(program, Target("HTP", soc, execution="emulator", ignored=ignored))
    if not coverage.complete:
        return "refused"
    part = build_part(program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs)
    return run(part, program, module, inputs, "HTP", worker) or "right"


def kind_of(said: str) -> str:
    if said in ("right", "refused"):
        return said
    return "not finalized" if "finalize" in said else "wrong"
