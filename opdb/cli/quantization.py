"""--quantize, --data, and --ranges: the recipe, the calibration data, and the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.names import counted

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Row
    from opdb.cli.progress import Stages
    from opdb.core.graph import GraphTensor, QnnGraph
    from opdb.execute.compile.calibration import Sample
    from opdb.execute.compile.states import State
    from opdb.lower.quantize import Recipe, Source
    from opdb.lower.quantize.ranges import TensorRange

NO_DATA = """\
opdb: --quantize {recipe} needs calibration data: give --data FILE.npz, a folder of .npz files, or module:callable
  The data decide the range of each tensor, and values outside it are clipped: without samples of real inputs the compiled
  model runs, but its results are wrong.  To try out compilation, calibrate on --data example (the model's own example inputs)
  or --data random (normally distributed numbers)."""
#: The number of tensors to print ranges for.
SHOWN = 5


@dataclass(frozen=True)
class Calibration:
    """The options of calibration: the recipe, the data, and the file for the ranges."""

    recipe: Recipe
    data: str
    ranges: Path | None

    def samples(self, inputs: Sequence[GraphTensor], program: ExportedProgram) -> list[Sample]:
        """The samples of --data, for inputs in the program's order."""
        from opdb.execute.compile.calibration import named_samples

        return named_samples(self.data, inputs, program)


@dataclass(frozen=True)
class QuantizationOptions:
    """Options of `opdb compile` for quantizing a model."""

    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="RECIPE",
            help="8a8w, 16a8w, 16a4w, 16a4w-block, 8a4w, fp16 or a .yaml file; see opdb recipe show.",
        ),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SPEC",
            help="What --quantize calibrates on: FILE.npz, a folder of .npz files, module:callable, example (the model's own "
            "inputs) or random[:SEED].",
        ),
    ] = None
    ranges: Annotated[
        Path | None,
        typer.Option("--ranges", metavar="FILE.json", help="Write the range and encoding of each tensor."),
    ] = None

    def calibration(self, recipe: Recipe | None) -> Calibration | None:
        """None if nothing is quantized; exits 2 for --quantize without --data.

        ``recipe``: the one of --quantize.  Raises OpdbError for --data or --ranges without a use.
        """
        if recipe is None and self.quantize is not None and (self.data or self.ranges):
            raise OpdbError(f"--quantize {self.quantize} quantizes nothing; leave --data and --ranges out")
        if recipe is None:
            for option, given in (("--data", self.data), ("--ranges", self.ranges)):
                if given is not None:
                    raise OpdbError(f"{option} {given}: for --quantize; give --quantize 8a8w, too")
            return None
        if self.data is None:
            print(NO_DATA.format(recipe=self.quantize), file=sys.stderr)
            raise typer.Exit(2)
        from opdb.execute.compile.calibration import check_source

        check_source(self.data)
        return Calibration(recipe, self.data, self.ranges)


def asked_recipe(quantize: str | None, dtype: str) -> tuple[Recipe | None, str]:
    """The recipe of --quantize, None if nothing is quantized, and the type of floats: the recipe fp16 means --dtype f16.

    Raises OpdbError for an unknown recipe, SpecError for an invalid file.
    """
    from opdb.lower.quantize.recipe import named

    if quantize is None:
        return None, dtype
    found = named(quantize)
    if found.float:
        return None, "f16"
    if dtype != "f32":
        raise OpdbError(f"--dtype {dtype}: a model is quantized from float32; leave --dtype out")
    return found, dtype


def quantized(
    graph: QnnGraph,
    how: Calibration,
    samples: Sequence[Sample],
    target: Target,
    stages: Stages,
    states: Sequence[State] = (),
    sources: Mapping[str, Source] | None = None,
) -> tuple[QnnGraph, Calibrated]:
    """Quantizes ``graph`` with opdb.lower.quantize; samples of a graph with states are consecutive steps.

    ``sources``: the origins of its nodes, for the recipe's rules.  Raises OpdbError for a graph that is already quantized.
    """
    from opdb.core.dtypes import BY_SHORT
    from opdb.lower.quantize import Range, crowded, quantize, ranges_of

    if already := [t.name for t in graph.tensors.values() if BY_SHORT[t.dtype].quantized]:
        raise OpdbError(
            f"--quantize {how.recipe.name}: the model is quantized already (e.g. the tensor {already[0]}); leave --quantize out"
        )
    stages("quantize")
    observed: dict[str, Range] = {}
    told: list[str] = []
    made = quantize(
        graph,
        _counted(samples, stages),
        target=target,
        recipe=how.recipe,
        sources=sources,
        states=states,
        observed=observed,
        told=told,
    )
    warnings = map(str, crowded(made, observed))
    return made, Calibrated(how, len(samples), ranges_of(made), tuple(warnings), tuple(told))


@contextmanager
def rounded_file(
    model: str,
    how: Calibration,
    samples: Sequence[Sample],
    graph: QnnGraph,
    rows: Sequence[Row],
    stages: Stages,
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A copy of the ONNX file ``model`` with weights rounded by its recipe, and lines for the report."""
    from opdb.execute.compile.rounding import rounded

    stages("round")
    with TemporaryDirectory() as folder:
        copy, said = rounded(model, samples, how.recipe, graph, rows, Path(folder))
        yield copy, (said,)


def _counted(samples: Sequence[Sample], stages: Stages) -> Iterator[Sample]:
    for done, sample in enumerate(samples):
        stages.count(done, len(samples))
        yield sample


@dataclass(frozen=True)
class Calibrated:
    """The result: number of samples, range of each tensor, warnings of values that an encoding cannot distinguish, notes."""

    how: Calibration
    samples: int
    ranges: Mapping[str, TensorRange]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def origin(self) -> dict[str, object]:
        return {"recipe": self.how.recipe.spelled(), "data": self.how.data, "samples": self.samples}

    def to_json(self) -> dict[str, object]:
        told = {"warnings": list(self.warnings)} if self.warnings else {}
        told |= {"notes": list(self.notes)} if self.notes else {}
        return self.origin() | told | {"tensors": {name: asdict(r) for name, r in self.ranges.items()}}

    def save(self, model: str) -> None:
        """Writes the file of --ranges, if given."""
        if self.how.ranges is not None:
            head = {"format": "opdb-ranges", "version": 1, "model": model}
            text = json.dumps(head | self.to_json(), indent=1)
            write_atomically(self.how.ranges, (text + "\n").encode())

    def print(self) -> None:
        """Prints the calibration data and the widest ranges."""
        many = counted(self.samples, "sample")
        print(f"  calibrated on {many} of {self.how.data}; the widest of {len(self.ranges)} ranges:")
        widest = sorted(self.ranges, key=lambda name: self.ranges[name].low - self.ranges[name].high)[:SHOWN]
        for name in widest:
            r = self.ranges[name]
            print(
                f"    {name}  {r.low:.6g} to {r.high:.6g}  {r.dtype}, scale {r.scale:.6g}, offset {r.offset}"
            )
        for warning in self.warnings:
            print(f"  warning: {warning}")
        for note in self.notes:
            print(f"  {note}")
        if self.how.data.startswith("random"):
            print("  the data were random numbers: do not deploy this file")
        if self.how.ranges is not None:
            print(f"  {self.how.ranges}: all ranges")
