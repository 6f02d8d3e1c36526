"""The options of run, and the checks of their combinations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.option_groups import ErrataOptions
from opdb.cli.options import Json, More, Timeout, check_timeout
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target


@dataclass(frozen=True)
class RunOptions:
    """All options, in the order of the help."""

    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--inputs",
            metavar="SPEC",
            help="FILE.npy, NAME=FILE.npy, FILE.npz, NAME=FILE.raw (stored values) or random:SEED; repeatable.",
        ),
    ] = None
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="NAME", help="The graph, where the file has several.")
    ] = None
    outputs: Annotated[
        Path | None,
        typer.Option("--outputs", metavar="PATH", help="FILE.npz, or a folder for one .npy per output."),
    ] = None
    real: Annotated[
        bool,
        typer.Option(
            "--real", help="Quantized inputs and outputs as real numbers; rounded to nearest, ties to even."
        ),
    ] = False
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", help="Number of runs with the same inputs.")
    ] = 1
    steps: Annotated[
        int,
        typer.Option(
            "--steps",
            metavar="N",
            help="N runs in a row; what a model keeps in buffers goes from each to the next.",
        ),
    ] = 1
    from_states: Annotated[
        Path | None,
        typer.Option(
            "--states",
            metavar="FILE.npz",
            help="What the buffers begin with: a file that --save-states wrote.",
        ),
    ] = None
    save_states: Annotated[
        Path | None,
        typer.Option(
            "--save-states",
            metavar="FILE.npz",
            help="Write the buffers after the last run, e.g. for another graph of the file.",
        ),
    ] = None
    profile: Annotated[
        str, typer.Option("--profile", metavar="LEVEL", help="off, basic, detailed or linting (HTP).")
    ] = "off"
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Write the profile as a Chrome trace.")
    ] = None
    timeout: Timeout = 120.0
    errata: ErrataOptions = ErrataOptions()
    verbose: More = False
    json: Json = False

    def check(self) -> None:
        """Raises OpdbError for invalid values and incompatible options."""
        if self.repeat < 1:
            raise OpdbError(f"--repeat {self.repeat}: give 1 or more")
        if self.steps < 1:
            raise OpdbError(f"--steps {self.steps}: give 1 or more")
        if self.steps > 1 and (self.repeat > 1 or self.profile != "off"):
            raise OpdbError("--steps: without --repeat and --profile; each step is a run of its own")
        check_timeout(self.timeout)
        path = self.outputs
        if path is not None and (path.is_file() if path.suffix != ".npz" else path.is_dir()):
            raise OpdbError(f"--outputs {path}: give a file that ends in .npz, or a folder")
        check_writable(path if path is None or path.suffix == ".npz" else path / "x.npy", option="--outputs")
        check_writable(self.save_states, option="--save-states")
        check_writable(self.trace, option="--trace")


#: Suffixes of models, which `opdb compile` reads.
MODELS = (".onnx", ".pt2", ".tflite", ".py", ".pt", ".pth", ".json", ".jsonl")


def check_compiled(file: Path) -> None:
    """Raises OpdbError for a model that is not compiled."""
    if file.suffix in MODELS:
        made = f"{file}:make" if file.suffix == ".py" else str(file)
        raise OpdbError(
            f"{file}: not compiled; compile it first: opdb compile {made} --soc SM8650 -o {file.stem}.bin"
        )


def check_program(file: Path, options: RunOptions) -> None:
    """Raises OpdbError for options that do not apply to a .pte."""
    profiled = options.profile != "off" or options.trace is not None
    if options.graph is not None or options.real or profiled or options.steps > 1:
        raise OpdbError(
            f"{file}: --graph, --real, --profile, --trace and --steps are for context files, not for .pte"
        )


def check_profile(options: RunOptions, backend: str) -> None:
    """Raises OpdbError for a level of --profile that ``backend`` lacks, and for --trace without --profile."""
    from opdb.runtime.qnn.profile import check_level

    check_level(options.profile, backend)
    if options.trace is not None and options.profile == "off":
        raise OpdbError("--trace writes what was profiled; give --profile basic, detailed or linting too")


def target_of(backend: str, errata: ErrataOptions) -> Target:
    """The target of a run; by default the emulator if this machine emulates ``backend``."""
    from opdb.catalog.targets.target import Target, emulates_here
    from opdb.judge.errata.policy import known_errata

    place = errata.execution or ("emulator" if emulates_here(backend) else "device")
    ignored = known_errata(errata.ignore_erratum or ())
    return Target(backend, execution=place, errata=errata.errata, ignored=ignored)
