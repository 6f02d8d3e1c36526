"""validate and check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.options import (
    Backend,
    Decompose,
    Dim,
    Dtype,
    Encodings,
    Errata,
    Execution,
    IgnoreErratum,
    Json,
    Lenient,
    Sdk,
    Soc,
    Strict,
    Verbose,
    target_of,
)
from opdb.cli.output import print_json_line
from opdb.cli.recipes import asked_recipe
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import ASKED, DEFAULT

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.checks.gates import Gate
    from opdb.checks.verdicts import Coverage
    from opdb.judge.nearest import Variant
    from opdb.judge.validate import Verdict
    from opdb.lower.quantize import Recipe


def add_to(app: typer.Typer) -> None:
    app.command()(validate)
    app.command()(check)


def validate(
    file: Annotated[str, typer.Argument(help="Op configs: JSON, JSON lines, or - for standard input.")],
    backend: Backend = None,
    soc: Soc = None,
    sdk: Sdk = None,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    against: Annotated[
        str | None, typer.Option("--against", help="'vendor': ask the real library too.")
    ] = None,
    no_nearest: Annotated[
        bool,
        typer.Option(
            "--no-nearest",
            help="Do not search for what would be accepted, which takes most of the time of refused op configs.",
        ),
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="A line that is no op config is one bad row, not the end."),
    ] = False,
    verbose: Verbose = False,
    strict: Strict = False,
    lenient: Lenient = False,
    json: Json = False,
) -> None:
    """Validate op configs: every broken rule with its values, and what to change.

    Exit 1 if one is not accepted, or is accepted and has an erratum of the library that is to be avoided.
    """
    _one_of(strict, lenient)
    from dataclasses import replace

    from opdb.cli.configs import configs, rows
    from opdb.judge.errata.policy import AVOID, IGNORE, policy
    from opdb.judge.nearest import nearest
    from opdb.judge.validate import check as judge

    target = target_of(backend, soc, sdk, execution, errata, ignore_erratum)
    if against not in (None, "vendor"):
        raise OpdbError(f"--against {against}: only 'vendor' is known")
    if against and backend is None:
        raise OpdbError(f"--against vendor needs {', or '.join(_askable())}")
    rejected = False
    worker = _vendor(target.backend, target.soc) if against else None
    try:
        for place, ident, config in rows(file) if keep_going else ((p, c.id, c) for p, c in configs(file)):
            try:
                if isinstance(config, OpdbError):
                    raise config
                verdict = judge(config, target)
            except OpdbError as error:
                if not keep_going:
                    raise OpdbError(f"{place}: {error}") from None
                rejected = True
                _print_invalid(place, ident, error, json)
                continue
            answer = None if worker is None else worker.validate(config)
            search = verdict.verdict != "accept" and not no_nearest
            variant = nearest(config, target) if search else None
            met = {v.rule: policy(v.erratum, target) for v in verdict.violations if v.erratum}
            rejected |= verdict.verdict != "accept" or (AVOID in met.values() and not lenient)
            rejected |= strict and any(met.get(v.rule) != IGNORE for v in verdict.violations)
            if json:
                near = {"nearest": None if variant is None else variant.json()}
                vendor = {} if answer is None else {"vendor": _vendor_json(answer)}
                document = verdict.json() | near | vendor
                for violation in document["violations"]:
                    violation["policy"] = met.get(violation["rule"])
                print_json_line(document)
            else:
                shown = tuple(v for v in verdict.violations if met.get(v.rule) != IGNORE)
                _print_verdict(place, replace(verdict, violations=shown), variant, answer, verbose)
    finally:
        if worker is not None:
            worker.close()
    if rejected:
        raise typer.Exit(1)


def _print_invalid(place: str, ident: str | None, error: OpdbError, json: bool) -> None:
    """The row of what is no op config."""
    if json:
        print_json_line({"place": place, "id": ident, "verdict": "invalid", "error": str(error)})
    else:
        print(f"{place}:{f' {ident}' if ident else ''} invalid: {error}")


def _askable() -> list[str]:
    """The options that name a library to ask."""
    return [f"--backend {b.name}{' and --soc' if b.per_soc else ''}" for b in ASKED]


def _vendor(backend: str | None, soc: str | None) -> Any:
    from opdb.execute.libraries.client import VendorWorker

    assert backend is not None
    return VendorWorker(backend, soc)


def _vendor_json(answer: Any) -> dict[str, Any]:
    return {
        "verdict": answer.verdict,
        "code": answer.code,
        "code_name": answer.code_name,
        "log": list(answer.log),
    }


def _print_verdict(
    place: str, verdict: Verdict, variant: Variant | None, answer: Any, verbose: bool = False
) -> None:
    ident = f" {verdict.config.id}" if verdict.config.id else ""
    print(f"{place}:{ident} {verdict.config.op} on {verdict.target}: {verdict.verdict}")
    for v in sorted(verdict.violations, key=lambda v: v.warning):
        print(f"  {'warning: ' if v.warning else ''}{v.message if verbose else v.brief} ({v.rule})")
    if variant is not None:
        print(f"  nearest accepted: {variant.text}")
    if answer is not None:
        code = "" if answer.verdict == "accept" else f" {answer.code} {answer.code_name}"
        print(f"  vendor: {answer.verdict}{code}")
        for line in answer.log:
            if line.startswith(("error", "warning")):  # --json has the whole log
                print(f"    {line}")


def check(
    model: Annotated[
        str,
        typer.Argument(
            help="A .pt2, .onnx or .tflite file, or module:callable (FILE.py:callable) that returns (module, inputs)."
        ),
    ],
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="QNN backend.")] = DEFAULT,
    soc: Soc = None,
    sdk: Sdk = None,
    execution: Execution = None,
    errata: Errata = None,
    ignore_erratum: IgnoreErratum = None,
    dtype: Dtype = "f32",
    decompose: Decompose = False,
    dim: Dim = None,
    encodings: Encodings = None,
    executorch: Annotated[
        bool,
        typer.Option("--executorch", help="Judge the graph that ExecuTorch's Qualcomm partitioner sees."),
    ] = False,
    format_: Annotated[
        str, typer.Option("--format", help="table, json, md, html, sarif or junit.")
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SPEC",
            help="Real inputs, which show the values that fp16 cannot hold: FILE.npz, a folder of .npz files, module:callable, "
            "or example (the model's own inputs).",
        ),
    ] = None,
    save_node: Annotated[
        str | None,
        typer.Option(
            "--save-node", metavar="NODE", help="Write a model of this node alone to -o FILE.py or FILE.pt2."
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="CONDITION",
            help="Exit 1 only under this condition, e.g. 'cpu>0', 'cpu-flops>5%', 'graphs>1'; repeatable.",
        ),
    ] = None,
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="RECIPE",
            help="Judge the model as `opdb compile --quantize` makes it: 8a8w, 16a8w, another recipe or a .yaml file; ranges are "
            "assumed. [8a8w for a float model on a chip without floating point]",
        ),
    ] = None,
    verbose: Verbose = False,
    strict: Strict = False,
    lenient: Lenient = False,
    json: Json = False,
) -> None:
    """Check which nodes of a model a target takes, and why not the others; exit 1 if some fall back to the CPU."""
    _one_of(strict, lenient)
    gates = _gates(fail_on or [], strict, lenient)
    from opdb.checks.verdicts import check_program
    from opdb.cli.progress import Stages
    from opdb.programs.load import has_names, load_program
    from opdb.programs.onnx.inputs import parsed

    dims = parsed(dim or ())
    form = _format("json" if json else format_)
    if dtype not in ("f32", "f16"):
        raise OpdbError(f"--dtype {dtype}: one of f32, f16")
    recipe, floats = asked_recipe(quantize, dtype)
    target = target_of(backend, soc, sdk, execution, errata, ignore_erratum)
    target.context()  # an unknown backend or SoC is said before the model is loaded
    sys.path.insert(0, "")

    def named(coverage: Coverage) -> Coverage:
        """With the names of the model's file."""
        if not has_names(model):
            return coverage
        from opdb.checks.file_names import with_names

        return with_names(coverage, model, encodings)

    with Stages(quiet=True) as stages:
        if executorch:
            _no_other(
                dtype=dtype != "f32",
                decompose=decompose,
                save_node=save_node is not None,
                data=data is not None,
                encodings=encodings is not None,
                quantize=quantize is not None,
            )

            stages("ExecuTorch's export and edge passes, check")
            coverage = plugins.load("CHECKS", "executorch")(model, target, dims)
        else:
            stages("export")
            quick = save_node is None and data is None and not decompose  # these run PyTorch's passes on it
            program = load_program(model, dims, encodings, quick=quick)
            if save_node is not None:
                _save_node(program, save_node, output, decompose)
                return
            samples = _samples(data, program, model)
            stages("check")
            if quantize is None or recipe is not None:
                recipe = _recipe(recipe, program, target, data, encodings)
            if recipe is not None:
                from opdb.execute.compile.quantized_check import quantized_coverage

                coverage = quantized_coverage(program, target, recipe, dtype, decompose, named)
            else:
                coverage = check_program(
                    program,
                    target,
                    float_dtype=floats,
                    decompose=decompose,
                    progress=stages.count,
                    samples=samples,
                )
    if recipe is None:
        coverage = named(coverage)
    _report(coverage, form, model, output, verbose, few=recipe is not None and quantize is None)
    if gates:
        hits = [why for g in gates if (why := g.hit(coverage))]
        for why in hits:
            print(why, file=sys.stderr)
        raise typer.Exit(1 if hits else 0)
    left = not coverage.complete and not (lenient and coverage.refused_by_errata)
    if left or (strict and coverage.warnings):
        raise typer.Exit(1)


def _recipe(
    recipe: Recipe | None, program: Any, target: Target, data: str | None, encodings: str | None
) -> Recipe | None:
    """How the model is to be quantized before it is judged; None for as it is."""
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


def _one_of(strict: bool, lenient: bool) -> None:
    if strict and lenient:
        raise OpdbError("--strict and --lenient contradict each other; leave out one")


def _gates(written: list[str], strict: bool, lenient: bool) -> list[Gate]:
    """The conditions of --fail-on, which take the place of what else decides the exit code."""
    from opdb.checks.gates import gate

    if written and (strict or lenient):
        raise OpdbError("--fail-on alone decides when to fail; leave out --strict and --lenient")
    return [gate(text) for text in written]


def _samples(data: str | None, program: Any, model: str) -> list[tuple[Any, ...]]:
    """The inputs that --data names, in the order of the program's; none without."""
    if data is None:
        return []
    from opdb.cli.calibration import named_samples
    from opdb.execute.compile.calibration import program_inputs
    from opdb.programs.load import has_names

    names = None
    if has_names(model):
        from opdb.programs.onnx.files import ends

        names = ends(model)[0]
    found = named_samples(data, program_inputs(program, names), program)
    return [tuple(sample.values()) for sample in found]


def _no_other(**given: bool) -> None:
    """Refuses options that say nothing about ExecuTorch's graph."""
    for name, is_given in given.items():
        if is_given:
            option = name.replace("_", "-")
            raise OpdbError(
                f"--{option} applies to the exported program, and --executorch judges another graph; leave out one of "
                f"--{option}, --executorch"
            )


def _save_node(program: Any, node: str, output: Path | None, decompose: bool) -> None:
    """A file that ``opdb check`` takes."""
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


def _format(name: str) -> str:
    from opdb.checks.report import FORMATS

    if name not in FORMATS:
        raise OpdbError(f"--format {name}: one of {', '.join(FORMATS)}")
    return name


def _report(
    coverage: Coverage, format_: str, title: str, output: Path | None, verbose: bool, few: bool = False
) -> None:
    """To standard output, or to a file as a whole; then the summary goes to standard error.

    ``few``: a table of reasons instead of nodes.
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
    """One line for each node, and below a rejected one its reasons."""
    from opdb.checks.report import table

    for line in table(coverage):
        print(line)
