"""check."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.help import CHECK, App
from opdb.cli.judge import Judge
from opdb.cli.option_groups import ModelFileOptions, with_option_groups
from opdb.cli.options import Json, Lenient, Strict, check_strictness
from opdb.cli.quantization import asked_recipe
from opdb.cli.targets import SeveralTargetsOptions
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.checks.gates import Gate


def add_to(app: App) -> None:
    app.command(example="opdb check model.onnx --soc SM8650", group=CHECK)(check)


@dataclass(frozen=True)
class CheckOptions:
    """All options, in the order of the help."""

    targets: SeveralTargetsOptions = SeveralTargetsOptions()
    model: ModelFileOptions = ModelFileOptions()
    executorch: Annotated[
        bool,
        typer.Option("--executorch", help="Judge the graph that ExecuTorch's Qualcomm partitioner sees."),
    ] = False
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table, json, md, html, sarif or junit.")
    ] = "table"
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SPEC",
            help="Real inputs, which show the values that fp16 cannot hold: FILE.npz, a folder of .npz files, module:callable, "
            "or example (the model's own inputs).",
        ),
    ] = None
    save_node: Annotated[
        str | None,
        typer.Option(
            "--save-node", metavar="NODE", help="Write a model of this node alone to -o FILE.py or FILE.pt2."
        ),
    ] = None
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="Exit 1 only under this condition, e.g. 'cpu>0', 'cpu-flops>5%', 'graphs>1'; repeatable.",
        ),
    ] = None
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="RECIPE",
            help="Judge the model as `opdb compile --quantize` makes it: 8a8w, 16a8w, another recipe or a .yaml file; ranges are "
            "assumed. [8a8w for a float model on a chip without floating point]",
        ),
    ] = None
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", "--all", help="List all nodes, and show each broken rule in full."),
    ] = False
    pager: Annotated[
        bool, typer.Option("--pager", help="On a terminal: show the table with $PAGER, or less.")
    ] = False
    strict: Strict = False
    lenient: Lenient = False
    json: Json = False

    def gates(self) -> list[Gate]:
        """The conditions of --fail-on, which replace the usual rules for the exit code."""
        from opdb.checks.gates import gate

        check_strictness(self.strict, self.lenient)
        written = self.fail_on or []
        if written and (self.strict or self.lenient):
            raise OpdbError("--fail-on alone decides when to fail; leave out --strict and --lenient")
        return [gate(text) for text in written]

    def format(self) -> str:
        """The format of the report.  Raises OpdbError for an unknown --format."""
        from opdb.checks.report import FORMATS

        name = "json" if self.json else self.format_
        if name not in FORMATS:
            raise OpdbError(f"--format {name}: one of {', '.join(FORMATS)}")
        return name

    def check_executorch(self) -> None:
        """Raises OpdbError for options that do not apply to ExecuTorch's graph."""
        given = {
            "dtype": self.model.dtype != "f32",
            "decompose": self.model.decompose,
            "save-node": self.save_node is not None,
            "data": self.data is not None,
            "encodings": self.model.encodings is not None,
            "quantize": self.quantize is not None,
        }
        for option, is_given in given.items():
            if is_given:
                raise OpdbError(
                    f"--{option} applies to the exported program, and --executorch judges another graph; leave out one of "
                    f"--{option}, --executorch"
                )


@with_option_groups
def check(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A .pt2, .onnx or .tflite file, or module:callable (FILE.py:callable) that returns (module, inputs).",
        ),
    ],
    options: CheckOptions,
) -> None:
    """Check which nodes of a model run on the NPU, and why not.

    Exit 1 if some fall back to the CPU.
    """
    from opdb.cli.progress import Stages

    gates = options.gates()
    dims = options.model.dims()
    form = options.format()
    options.model.check()
    check_writable(options.output)
    if options.data is not None:
        from opdb.execute.compile.calibration import check_source

        check_source(options.data)
    recipe, floats = asked_recipe(options.quantize, options.model.dtype)
    targets = options.targets.targets()
    sys.path.insert(0, "")
    with Stages(("export", "check")) as stages:
        judge = Judge(
            model,
            dims,
            options.model,
            options.quantize,
            recipe,
            floats,
            stages,
            options.data,
            options.save_node,
        )
        if options.save_node is not None and not options.executorch:
            _save_node(judge.program, options.save_node, options.output, options.model.decompose)
            return
        coverages = _judged(judge, targets, options)
    if len(coverages) > 1:
        from opdb.cli.check_several import report

        report(coverages, form, model, options.output, options.verbose)
    else:
        from opdb.cli.check_report import report as report_one

        report_one(coverages[0], form, model, options.output, options.verbose, options.pager)
    if _fails(coverages, gates, options):
        raise typer.Exit(1)


def _judged(judge: Judge, targets: Sequence[Target], options: CheckOptions) -> list[Coverage]:
    """The verdicts of each target."""
    chips = [""] if len(targets) == 1 else [f"for {target.soc}" for target in targets]
    if not options.executorch:
        return [judge.coverage(t, chip) for t, chip in zip(targets, chips, strict=True)]
    options.check_executorch()
    found = []
    for target, chip in zip(targets, chips, strict=True):
        judge.stages("ExecuTorch's export and edge passes, check", chip)
        coverage = plugins.load("CHECKS", "executorch")(judge.model, target, judge.dims)
        found.append(judge.named(coverage))
    return found


def _fails(coverages: Sequence[Coverage], gates: list[Gate], options: CheckOptions) -> bool:
    """True if the exit code is 1; prints the conditions of --fail-on that hold, with the chip if there are several."""
    from opdb.checks.side_by_side import labels

    heads = [f"{label}: " for label in labels(coverages)] if len(coverages) > 1 else [""]
    failed = False
    for head, coverage in zip(heads, coverages, strict=True):
        for why in filter(None, (gate.hit(coverage) for gate in gates)):
            print(f"{head}{why}", file=sys.stderr)
            failed = True
        failed = failed or (not gates and _left(coverage, options))
    return failed


def _left(coverage: Coverage, options: CheckOptions) -> bool:
    """True if nodes are left to the CPU or, with --strict, warned of."""
    left = not coverage.complete and not (options.lenient and coverage.refused_by_errata)
    return left or (options.strict and bool(coverage.warnings))


def _save_node(program: Any, node: str, output: Path | None, decompose: bool) -> None:
    """Writes a model of one node to a file that ``opdb check`` reads."""
    from opdb.checks import reproduce
    from opdb.checks.verdicts import read_program
    from opdb.core.files import write_atomically, written_atomically
    from opdb.programs.torch.export import export

    if output is None or output.suffix not in (".py", ".pt2"):
        raise OpdbError("--save-node writes a model; name the file with -o FILE.py or -o FILE.pt2")
    read = read_program(program, decompose=decompose)
    if output.suffix == ".py":
        write_atomically(output, reproduce.source(read, node))
        print(f"{output}:make")
        return
    import torch

    made = export(*reproduce.module_and_inputs(read, node), name=node)
    with written_atomically(output) as name, open(name, "wb") as file:
        torch.export.save(made, file)
    print(output)
