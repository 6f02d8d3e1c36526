"""The options of compile, and the checks of their combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.encodings_export import Export, ExportOptions
from opdb.cli.graphs import holds_op_configs
from opdb.cli.option_groups import ModelFileOptions, OptimizerOptions, TargetOptions
from opdb.cli.options import GraphName, Json, More, Timeout, check_timeout, is_program
from opdb.cli.quantization import Calibration, QuantizationOptions, asked_recipe
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable
from opdb.generated.constants.backends import BACKENDS, DEFAULT

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.execute.compile.lowering import Lowering

#: The backends for which contexts can be compiled.
CONTEXTS = tuple(b.name for b in BACKENDS.values() if "context" in b.programs)


@dataclass(frozen=True)
class ContextTargetOptions(TargetOptions):
    """The target of a context."""

    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="BACKEND",
            help=f"{' or '.join(CONTEXTS)}.",
            autocompletion=completion.backends,
        ),
    ] = DEFAULT

    def target(self) -> Target:
        """The target, checked before a model is loaded."""
        from opdb.runtime.qnn.device import soc_model_of

        target = super().target()
        target.context()  # raises for an unknown backend or SoC
        if target.backend not in CONTEXTS:
            raise OpdbError(f"--backend {self.backend}: graphs are compiled for {' and '.join(CONTEXTS)}")
        soc_model_of(str(target.backend), target.soc, None)
        return target


@dataclass(frozen=True)
class CompileOptions:
    """All options, in the order of the help."""

    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The context file, or the .pte, to write."),
    ] = None
    target: ContextTargetOptions = ContextTargetOptions()
    others: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MODEL",
            help="Another model for the same context, e.g. prefill beside decode; on a device equal weights are there once. Repeatable.",
        ),
    ] = None
    graph: GraphName = None
    model: ModelFileOptions = ModelFileOptions()
    precision: Annotated[
        str | None,
        typer.Option(
            "--precision",
            metavar="WORD",
            help="How HTP computes float32: fp16, or default for the library's choice. [fp16]",
        ),
    ] = None
    optimization: Annotated[
        int | None,
        typer.Option("--optimization", metavar="1..3", help="Optimization level of HTP's finalization."),
    ] = None
    saver: Annotated[
        Path | None,
        typer.Option(
            "--saver", metavar="DIR", help="Write the calls of this compilation as C into a folder."
        ),
    ] = None
    quantization: QuantizationOptions = QuantizationOptions()
    export: ExportOptions = ExportOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    timeout: Timeout = 600.0
    verbose: More = False
    json: Json = False

    @property
    def program(self) -> Path | None:
        """The file to write if a plug-in compiles it, else None."""
        return self.output if self.output is not None and is_program(self.output) else None


@dataclass(frozen=True)
class Plan:
    """The parsed options.  ``dims``: sizes that an ONNX file leaves open; ``rounds``: True if AdaRound rounds weights."""

    target: Target
    how: Lowering
    dims: Mapping[str, int]
    calibration: Calibration | None
    rounds: bool
    export: Export | None


def plan(model: str, options: CompileOptions) -> Plan:
    """Parses the options.  Raises OpdbError for invalid combinations, before the model is read."""
    from opdb.execute.compile.lowering import Lowering
    from opdb.execute.compile.rounding import check as to_round

    _check_output(options.output, options.saver)
    check_writable(options.quantization.ranges, option="--ranges")
    target = options.target.target()
    options.model.check()
    dims = options.model.dims()
    options.optimizer.check()
    check_timeout(options.timeout)
    recipe, dtype = asked_recipe(options.quantization.quantize, options.model.dtype)
    calibration = options.quantization.calibration(recipe)
    quantizes, io_layout = recipe is not None, options.optimizer.io_layout
    rounds = recipe is not None and to_round(recipe, model, io_layout)
    _check_others(model, options)
    export = options.export.export(
        model, dims, quantizes=quantizes, rounds=rounds, pte=options.program is not None
    )
    if options.model.encodings is not None and options.quantization.quantize is not None:
        raise OpdbError(
            "--encodings and --quantize: give one of them; the encodings say how the model is quantized"
        )
    _check_program(options)
    how = Lowering(
        options.graph,
        dtype,
        options.model.decompose,
        options.optimizer.without,
        io_layout,
        quantizes,
        options.model.encodings,
    )
    return Plan(target, how, dims, calibration, rounds, export)


def check_op_configs(file: str, options: CompileOptions, dims: Mapping[str, int]) -> None:
    """Raises OpdbError for options that only apply to models."""
    if options.optimizer.given or options.quantization.quantize or dims or options.model.encodings:
        raise OpdbError(
            f"{file}: --no-pass, --io-layout, --quantize, --encodings and --dim are for models; op configs stay as they are"
        )


def _check_output(output: Path | None, saver: Path | None) -> None:
    if output is None and saver is None:
        raise OpdbError("nothing to write: give -o FILE, or --saver DIR, or both")
    check_writable(output)
    check_writable(saver and saver / "saver_output.c", option="--saver")


def _check_others(model: str, options: CompileOptions) -> None:
    """Raises OpdbError for options that do not go with --with."""
    if not options.others:
        return
    if holds_op_configs(model) or options.output is None or options.program is not None:
        raise OpdbError("--with: for models that become one context file; give -o FILE.bin")
    if options.graph is not None or options.quantization.quantize is not None:
        refused = "--graph" if options.graph is not None else "--quantize"
        raise OpdbError(f"--with: without {refused}; each graph is called as its model")


def _check_program(options: CompileOptions) -> None:
    """Raises OpdbError for options that do not apply to a .pte."""
    if options.program is None:
        return
    given = (
        options.saver,
        options.graph,
        options.optimization,
        options.optimizer.no_pass,
        options.model.encodings,
    )
    read = options.model.dtype != "f32" or options.model.decompose
    if any(g is not None for g in given) or read or options.optimizer.io_layout != "keep":
        raise OpdbError(
            f"{options.output}: --saver, --graph, --optimization, --dtype, --decompose, --no-pass, --encodings and --io-layout "
            "are not for a .pte"
        )
