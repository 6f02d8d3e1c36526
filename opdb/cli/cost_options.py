"""The options of cost, and the checks of their combinations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.option_groups import ErrataOptions, ModelOptions, OptimizerOptions
from opdb.cli.options import GraphName, Json, More, Timeout, check_timeout, prepared_for, renamed
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.cli.cost_models import CostModel, CostModels, Estimator
    from opdb.cli.progress import Stages
    from opdb.lower.quantize import Recipe
    from opdb.measure.cost import Simulator

#: The value of --by that is not a group of nodes.
ERRATUM = "erratum"


class CostFormat(StrEnum):
    table = "table"
    json = "json"
    html = "html"


@dataclass(frozen=True)
class CostOptions:
    """All options, in the order of the help."""

    soc: Annotated[
        str,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="A chip that the library simulates, e.g. SA8255.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ]
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn",
            metavar="VERSION",
            help="QNN's libraries: a version or a folder. [2.51]",
            autocompletion=completion.sdks,
        ),
    ] = None
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="RECIPE",
            help="8a8w, 16a8w, another recipe or a .yaml file, with made-up ranges.",
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="Where the time goes: by node, module or op; or what avoiding each erratum costs: erratum.",
        ),
    ] = None
    top: Annotated[int, typer.Option("--top", metavar="N", help="Rows of --by and --against; 0: all.")] = 20
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write a Chrome trace of the simulation.")
    ] = None
    format_: Annotated[
        CostFormat,
        typer.Option("--format", metavar="FORMAT", help="table, json or html: a page with pictures."),
    ] = CostFormat.table
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.")
    ] = None
    html: Annotated[Path | None, typer.Option("--html", hidden=True)] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="OTHER",
            help="Compare with another model, or with what 'opdb cost --json' printed.",
        ),
    ] = None
    rank_only: Annotated[
        bool,
        typer.Option(
            "--rank-only",
            help="For any chip of v73 to v81: SA8255's figures, to say which of two models is faster.",
        ),
    ] = False
    fail_over: Annotated[
        float | None,
        typer.Option(
            "--fail-over", metavar="US", help="Exit 1 if the estimate is above this many microseconds."
        ),
    ] = None
    fail_spill: Annotated[
        float | None,
        typer.Option(
            "--fail-spill", metavar="MB", help="Exit 1 if more than this many MB (10**6 bytes) are spilled."
        ),
    ] = None
    errata: ErrataOptions = ErrataOptions()
    graph: GraphName = None
    model: ModelOptions = ModelOptions()
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="WORD", help="How float32 is computed: fp16 or default. [fp16]"),
    ] = None
    optimization: Annotated[
        int | None,
        typer.Option("--optimization", metavar="2..3", help="Optimization level of HTP's finalization."),
    ] = None
    optimizer: OptimizerOptions = OptimizerOptions()
    timeout: Timeout = 600.0
    verbose: More = False
    json: Json = False

    def check(self) -> None:
        """Raises OpdbError for invalid values."""
        from opdb.measure.cost.report.rows import BY

        self.optimizer.check()
        if self.html is not None:
            renamed(f"--html {self.html}", f"--format html -o {self.html}")
        if self.by is not None and self.by not in (*BY, ERRATUM):
            raise OpdbError(f"--by {self.by}: one of {', '.join((*BY, ERRATUM))}")
        self.model.check()
        check_timeout(self.timeout)
        if self.optimization == 1:
            raise OpdbError(
                "--optimization 1: the library's estimates are meaningless at this level; use 2 or 3"
            )
        check_writable(self.trace, option="--trace")
        check_writable(self.html, option="--html")
        if self.top < 0:
            raise OpdbError(f"--top {self.top}: a number of rows, 0 for all")

    @property
    def format(self) -> CostFormat:
        """The format of the answer."""
        return CostFormat.json if self.json else self.format_

    def simulated_chip(self) -> str:
        """The chip of --soc; with --rank-only, the chip whose simulation ranks models for it.  Raises OpdbError if it does not fit."""
        from opdb.catalog.targets.target import soc_name
        from opdb.lower.prices import RANKED
        from opdb.measure.cost.chips import RANKING, ranks

        if not self.rank_only:
            return self.soc
        if self.fail_over is not None:
            raise OpdbError(
                f"--fail-over {self.fail_over:g}: does not go with --rank-only, whose time is another chip's"
            )
        soc = soc_name(self.soc)
        if not ranks(soc):
            raise OpdbError(
                f"{soc}: --rank-only is for v{RANKED[0]} to v{RANKED[-1]}; the order was not checked on other chips"
            )
        return RANKING

    def models(self, sdk: str, recipe: Recipe | None, dtype: str, stages: Stages) -> CostModels:
        """An object that makes graphs of models with these options; ``dtype``: of floats."""
        from opdb.cli.cost_models import CostModels
        from opdb.cli.graphs import GraphMaker
        from opdb.execute.compile.lowering import Lowering
        from opdb.runtime.qnn import SIMULATING

        target = self.errata.target(SIMULATING, self.soc, sdk)
        how = Lowering(
            self.graph,
            dtype,
            self.model.decompose,
            self.optimizer.without,
            self.optimizer.io_layout,
            recipe is not None,
        )
        return CostModels(GraphMaker(target, how, self.model.dims(), stages, self.json), recipe)

    def estimator(self, simulator: Simulator, against_saved: bool, stages: Stages) -> Estimator:
        """An object that estimates graphs.  ``against_saved``: --against is a printed result, not a model."""
        from opdb.cli.cost_models import Estimator

        grouped = self.by not in (None, ERRATUM)
        traced = bool(grouped or self.trace or self._page or (self.against and not against_saved))
        return Estimator(simulator, self.precision, self.optimization, traced, stages, self.json)

    @property
    def _page(self) -> bool:
        """True if a page is written, which needs the groups of nodes."""
        return self.html is not None or self.format is CostFormat.html

    def check_graphs(self, loaded: CostModel, traced: bool) -> None:
        """Raises OpdbError for a model with several graphs, or op configs, if the options do not support them."""
        if (traced or self.by) and len(loaded.graphs) > 1:
            raise OpdbError(
                f"{loaded.model}: it has {counted(len(loaded.graphs), 'graph')}; choose one with --graph NAME"
            )
        if self.by == ERRATUM and loaded.on is None:
            raise OpdbError(f"--by {ERRATUM}: for models; op configs stay as they are")
