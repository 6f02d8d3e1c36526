"""cost, and cost build-table."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.cost_options import ERRATUM, CostFormat, CostOptions
from opdb.cli.help import CHECK, App, Command, Group
from opdb.cli.option_groups import with_option_groups
from opdb.cli.output import print_json, written_to
from opdb.cli.price_table import build_table
from opdb.cli.quantization import asked_recipe
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.cli.cost_models import CostModel, CostModels, Estimator
    from opdb.cli.cost_output import Found
    from opdb.measure.cost import Difference, Estimate
    from opdb.measure.cost.errata import ErratumPrice

ESTIMATE = "estimate"


class _Costs(Group):
    """A group whose first argument is a model unless it is one of the group's commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = bool(args) and args[0] in self.commands
        parsed: list[str] = super().parse_args(ctx, args if known else [ESTIMATE, *args])
        return parsed

    def get_help(self, ctx: Any) -> str:
        estimate = self.commands[ESTIMATE]
        return estimate.get_help(type(ctx)(estimate, info_name=ctx.info_name, parent=ctx.parent))


class _Estimate(Command):
    """The default command; its help calls it opdb cost, since its name is never written."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return super().make_context(parent.info_name, args, parent=parent.parent, **extra)


def add_to(app: App) -> None:
    group = App(
        "cost",
        cls=_Costs,
        example=EXAMPLE,
        help="Estimate the latency of a model on a chip, without a device.",
    )
    group.command(ESTIMATE, cls=_Estimate, example=EXAMPLE)(cost)
    group.command("build-table", example="opdb cost build-table model.onnx -o prices.json")(build_table)
    app.add(group, CHECK)


EXAMPLE = "opdb cost model.onnx --soc SA8255"


@with_option_groups
def cost(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A .pt2, .onnx or .tflite file, module:callable that returns (module, inputs), or op configs: .json, .jsonl, -.",
        ),
    ],
    options: CostOptions,
) -> None:
    """Estimate the latency of a model on a chip, without a device.

    Qualcomm's own library simulates a graph when it is finalized, in a child process.  Exit 1 if it refuses the graph, or where
    --fail-over or --fail-spill is exceeded.  docs/guides/cost.md says what the figures are worth.  `opdb cost build-table` makes
    the table of prices by which candidates are compared.
    """
    from opdb.cli.cost_output import document, print_found

    options.check()
    found = _found(model, options)
    _write(found.first, found.loaded, options.trace, options.html)
    with written_to(options.output):
        if options.format is CostFormat.json:
            print_json(document(found))
        elif options.format is CostFormat.html:
            print(_page(found.first, found.loaded), end="")
        else:
            print_found(found, options.top)
    if found.failed:
        raise typer.Exit(1)


def _found(model: str, options: CostOptions) -> Found:
    """Simulates the model, and compares it with --against."""
    from opdb.cli.cost_output import Found
    from opdb.cli.library_install import found_or_installed
    from opdb.cli.progress import Stages
    from opdb.measure.cost import Simulator
    from opdb.measure.cost.simulator import QNN

    recipe, dtype = asked_recipe(options.quantize, options.model.dtype)
    chip = options.simulated_chip()
    libraries = found_or_installed(options.qnn or QNN)
    with (
        Stages(("export", "lower", "quantize", "build", "finalize")) as stages,
        Simulator(chip, libraries=libraries, timeout=options.timeout) as simulator,
    ):
        simulator.check_chip()  # before the model is loaded
        models = options.models(simulator.sdk, recipe, dtype, stages)
        saved = None if options.against is None else _saved(options.against)
        estimator = options.estimator(simulator, saved is not None, stages)
        loaded = models.load(model)
        options.check_graphs(loaded, estimator.traced)
        estimates = tuple(estimator.estimate(g) for g in loaded.graphs)
        return Found(
            loaded,
            estimates,
            options.by,
            None if recipe is None else recipe.name,
            str(models.maker.target.soc) if options.rank_only else None,
            _difference(options.against, saved, models, estimator, estimates),
            _errata_prices(loaded, estimator, estimates[0]) if options.by == ERRATUM else (),
            tuple(_exceeded(estimates, options.fail_over, options.fail_spill)),
        )


def _saved(against: str) -> dict[str, Any] | None:
    """The document of --against if it is a file written by `opdb cost --json`, else None."""
    from opdb.measure.cost.report.document import is_saved

    if not against.endswith(".json"):
        return None
    try:
        found = json_module.loads(Path(against).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OpdbError(f"--against {against}: {error}") from None
    return found if is_saved(found) else None


def _difference(
    against: str | None,
    saved: dict[str, Any] | None,
    models: CostModels,
    estimator: Estimator,
    estimates: Sequence[Estimate],
) -> Difference | None:
    """The change from the model to --against, which is another model or a ``saved`` result; None without it."""
    from opdb.measure.cost import compare
    from opdb.measure.cost.report.document import compare_saved

    if against is None:
        return None
    if saved is not None:
        try:
            return compare_saved(estimates, saved, None if models.recipe is None else models.recipe.name)
        except OpdbError as error:
            raise OpdbError(f"--against {against}: {error}") from None
    loaded = models.load(against)
    if len(loaded.graphs) > 1:
        raise OpdbError(
            f"--against {against}: it has {counted(len(loaded.graphs), 'graph')}; choose one with --graph NAME"
        )
    return compare(estimates[0], estimator.estimate(loaded.graphs[0]))


def _errata_prices(loaded: CostModel, estimator: Estimator, own: Estimate) -> tuple[ErratumPrice, ...]:
    from opdb.measure.cost.errata import prices

    assert loaded.on is not None  # only models have it
    return prices(own, loaded.errata, loaded.target, loaded.on, estimator.simulated)


def _write(estimate: Estimate, loaded: CostModel, trace: Path | None, html: Path | None) -> None:
    from opdb.core.files import write_atomically

    if trace is not None:
        write_atomically(trace, json_module.dumps(estimate.trace) + "\n")
    if html is not None:
        write_atomically(html, _page(estimate, loaded))


def _page(estimate: Estimate, loaded: CostModel) -> str:
    from opdb.measure.cost.report.html import page

    return page(estimate, loaded.modules, loaded.model)


def _exceeded(estimates: Sequence[Estimate], over: float | None, spill: float | None) -> Iterator[str]:
    """Messages about exceeded limits."""
    us = sum(e.us for e in estimates)
    spilled = sum(e.spilled_bytes for e in estimates) / 1e6
    if over is not None and us > over:
        yield f"--fail-over {over:g}: the estimate is {us:,.0f} us"
    if spill is not None and spilled > spill:
        yield f"--fail-spill {spill:g}: {spilled:,.2f} MB are spilled"
