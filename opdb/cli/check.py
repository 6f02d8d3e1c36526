"""check."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.option_groups import ModelFileOptions, TargetOptions, with_option_groups
from opdb.cli.options import Json, Lenient, Strict, Verbose, check_strictness
from opdb.cli.quantization import asked_recipe
from opdb.core import foreign, plugins
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable
from opdb.generated.constants.backends import DEFAULT

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.checks.gates import Gate
    from opdb.cli.progress import Stages
    from opdb.lower.quantize import Recipe


def add_to(app: typer.Typer) -> None:
    app.command()(check)


@dataclass(frozen=True)
class CheckTargetOptions(TargetOptions):
    """The target of the model."""

    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="QNN backend.")] = DEFAULT


@dataclass(frozen=True)
class CheckOptions:
    """All options, in the order of the help."""

    target: CheckTargetOptions = CheckTargetOptions()
    model: ModelFileOptions = ModelFileOptions()
    executorch: Annotated[
        bool,
        typer.Option("--executorch", help="Judge the graph that ExecuTorch's Qualcomm partitioner sees."),
    ] = False
    format_: Annotated[str, typer.Option("--format", help="table, json, md, html, sarif or junit.")] = "table"
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
    verbose: Verbose = False
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


@dataclass(frozen=True)
class _Plan:
    """The parsed options.  ``recipe``: the one of --quantize; ``floats``: the type for float32 tensors."""

    target: Target
    dims: Mapping[str, int]
    recipe: Recipe | None
    floats: str


@with_option_groups
def check(
    model: Annotated[
        str,
        typer.Argument(
            help="A .pt2, .onnx or .tflite file, or module:callable (FILE.py:callable) that returns (module, inputs)."
        ),
    ],
    options: CheckOptions,
) -> None:
    """Check which nodes of a model a target takes, and why not the others; exit 1 if some fall back to the CPU."""
    from opdb.cli.progress import Stages

    if options.verbose:
        foreign.show()
    gates = options.gates()
    dims = options.model.dims()
    form = options.format()
    options.model.check()
    check_writable(options.output)
    if options.data is not None:
        from opdb.execute.compile.calibration import check_source

        check_source(options.data)
    recipe, floats = asked_recipe(options.quantize, options.model.dtype)
    target = options.target.target()
    target.context()  # raises for an unknown backend or SoC before the model is loaded
    plan = _Plan(target, dims, recipe, floats)
    sys.path.insert(0, "")
    with Stages(quiet=True) as stages:
        if options.executorch:
            options.check_executorch()
            stages("ExecuTorch's export and edge passes, check")
            coverage = _named(plugins.load("CHECKS", "executorch")(model, target, dims), model, options)
            assumed = False
        else:
            program = _program(model, dims, options, stages)
            if options.save_node is not None:
                _save_node(program, options.save_node, options.output, options.model.decompose)
                return
            coverage, assumed = _coverage(program, model, plan, options, stages)
    _report(coverage, form, model, options.output, options.verbose, few=assumed)
    if _fails(coverage, gates, options):
        raise typer.Exit(1)


def _fails(coverage: Coverage, gates: list[Gate], options: CheckOptions) -> bool:
    """True if the exit code is 1; prints the conditions of --fail-on that hold."""
    if gates:
        hits = [why for g in gates if (why := g.hit(coverage))]
        for why in hits:
            print(why, file=sys.stderr)
        return bool(hits)
    left = not coverage.complete and not (options.lenient and coverage.refused_by_errata)
    return left or (options.strict and bool(coverage.warnings))


def _program(model: str, dims: Mapping[str, int], options: CheckOptions, stages: Stages) -> ExportedProgram:
    from opdb.programs.load import load_program

    stages("export")
    # --save-node, --data and --decompose run PyTorch's passes on it
    quick = options.save_node is None and options.data is None and not options.model.decompose
    return load_program(model, dims, options.model.encodings, quick=quick)


def _coverage(
    program: ExportedProgram, model: str, plan: _Plan, options: CheckOptions, stages: Stages
) -> tuple[Coverage, bool]:
    """The verdicts with the names of the model's file, and True if the model was quantized without being asked to."""
    from opdb.checks.verdicts import check_program

    samples = _samples(options.data, program, model)
    stages("check")
    recipe, decompose = plan.recipe, options.model.decompose
    if options.quantize is None or recipe is not None:
        recipe = _recipe(recipe, program, plan.target, options.data, options.model.encodings)
    if recipe is None:
        coverage = check_program(
            program,
            plan.target,
            float_dtype=plan.floats,
            decompose=decompose,
            progress=stages.count,
            samples=samples,
        )
        return _named(coverage, model, options), False
    from opdb.execute.compile.quantized_check import quantized_coverage

    named = partial(_named, model=model, options=options)
    coverage = quantized_coverage(program, plan.target, recipe, options.model.dtype, decompose, named)
    return coverage, options.quantize is None


def _named(coverage: Coverage, model: str, options: CheckOptions) -> Coverage:
    """Replaces names by those of the model's file."""
    from opdb.programs.load import has_names

    if not has_names(model):
        return coverage
    from opdb.checks.file_names import with_names

    return with_names(coverage, model, options.model.encodings)


def _recipe(
    recipe: Recipe | None, program: Any, target: Target, data: str | None, encodings: str | None
) -> Recipe | None:
    """The recipe to quantize the model with before it is judged; None to leave it as it is."""
    from opdb.lower.quantize.recipe import named
    from opdb.programs.torch.encodings import is_dequantize, is_quantize

    already = any(is_quantize(n) or is_dequantize(n) for n in program.graph.nodes)
    if recipe is None:
        return named("8a8w") if target.integers_only and not already and encodings is None else None
    if already or encodings is not None:
        raise OpdbError(f"--quantize {recipe.name}: the model is quantized already; leave --quantize out")
    if data is not None:
        raise OpdbError(
            f"--data {data}: `check --quantize` assumes ranges; `opdb compile --quantize` measures them on data"
        )
    return recipe


def _samples(data: str | None, program: ExportedProgram, model: str) -> list[tuple[Any, ...]]:
    """The inputs named by --data, in the program's order; none without it."""
    if data is None:
        return []
    from opdb.execute.compile.calibration import program_samples
    from opdb.programs.load import has_names

    names = None
    if has_names(model):
        from opdb.programs.onnx.files import ends

        names = ends(model)[0]
    return program_samples(data, program, names)


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


def _report(
    coverage: Coverage, format_: str, title: str, output: Path | None, verbose: bool, few: bool = False
) -> None:
    """Writes to standard output, or to a complete file; then the summary goes to standard error.

    ``few``: show a table of reasons instead of nodes.
    """
    from opdb.checks.report import lines
    from opdb.checks.report.plain import left, summary
    from opdb.core.files import write_atomically

    short = few and format_ == "table" and not verbose
    shown = left(coverage) if short else lines(coverage, format_, title, verbose)
    text = "".join(f"{line}\n" for line in shown)
    if output is None:
        print(text, end="")
        return
    write_atomically(output, text)
    for line in (*summary(coverage), f"written to {output}"):
        print(line, file=sys.stderr)


def print_coverage(coverage: Coverage) -> None:
    """Prints one line for each node, and the reasons below a rejected one."""
    from opdb.checks.report import table

    for line in table(coverage):
        print(line)
