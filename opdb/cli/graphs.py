"""Graphs of models and of op configs, for the commands that compile or simulate them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from opdb.cli.output import print_json

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.cli.progress import Stages
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.lowering import Lowering
    from opdb.judge.errata.report import ErratumCount


def holds_op_configs(file: str) -> bool:
    """True if a command's MODEL is a file of op configs, or standard input."""
    return file == "-" or file.endswith((".json", ".jsonl"))


@dataclass(frozen=True)
class GraphMaker:
    """Makes graphs for a target; if a node is refused, prints the reasons and exits 1.

    ``dims``: sizes that an ONNX file leaves open.
    """

    target: Target
    how: Lowering
    dims: Mapping[str, int]
    stages: Stages
    json: bool

    def exported(self, model: str) -> ExportedProgram:
        """The program of a model; see opdb.programs.load.load_program."""
        from opdb.programs.load import load_program

        self.stages("export")
        sys.path.insert(0, "")
        return load_program(model, self.dims, self.how.encodings, quick=not self.how.decompose)

    def lowered(self, program: ExportedProgram, model: str) -> tuple[Coverage, QnnGraph]:
        """The verdict on each node of the program of ``model``, and its graph."""
        from opdb.execute.compile.lowering import lowered_model

        self.stages("lower")
        coverage, graph = lowered_model(program, model, self.target, self.how)
        if graph is None:
            self.stages.end()
            if self.json:
                print_json({"result": {"stage": "lower", "verdict": "no"}, "coverage": coverage.to_json()})
            else:
                from opdb.cli.check_report import print_coverage

                print_coverage(coverage)
            raise typer.Exit(1)
        return coverage, graph

    def of_configs(self, file: str) -> tuple[list[QnnGraph], tuple[ErratumCount, ...]]:
        """A graph for each op config of a file, and the errata to warn about."""
        from opdb.cli.op_configs import configs
        from opdb.execute.compile.model import chosen, config_graphs, judged, warned

        self.stages("read")
        graphs = chosen(config_graphs(configs(file)), self.how.name)
        if refused := judged(graphs, self.target):
            self.stages.end()
            self._print_refused(refused)
            raise typer.Exit(1)
        return graphs, warned(graphs, self.target)

    def _print_refused(self, refused: Mapping[str, list[str]]) -> None:
        if self.json:
            print_json({"result": {"stage": "lower", "verdict": "no"}, "refused": refused})
            return
        for graph, reasons in refused.items():
            print(f"{graph} on {self.target}: reject")
            for reason in reasons:
                print(f"  {reason}")
