"""--export-encodings of compile: writes a recipe's encodings for other tools, with the names of the user's model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.files import check_writable, write_atomically, written_atomically
from opdb.core.names import counted

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.checks.coverage import Row
    from opdb.core.graph import QnnGraph
    from opdb.execute.compile.calibration import Sample
    from opdb.execute.compile.counterparts import Named
    from opdb.execute.compile.states import State

#: The default version.
VERSION = "1.0.0"
#: The number of lost weights to list.
SHOWN = 3
#: The size limit of a protobuf file in bytes.
MOST = 2**31 - 2**20


@dataclass(frozen=True)
class Export:
    """The file and version for the encodings of ``model``."""

    file: Path
    version: str
    model: str
    dims: Mapping[str, int]

    def named(
        self,
        program: ExportedProgram,
        rows: Sequence[Row],
        floats: QnnGraph,
        made: QnnGraph,
        sample: Sample,
        states: Sequence[State],
    ) -> Exported:
        """``made``: quantized from ``floats``.  ``sample``: inputs of ``floats``; ``rows``: of the coverage of ``program``."""
        from opdb.execute.compile.counterparts import named_encodings
        from opdb.execute.compile.model_tensors import of_onnx, of_program
        from opdb.runtime.kernels import run_graph

        given = {s.input: s.initial for s in states} | sample
        values: dict[str, Any] = {**given, **run_graph(floats.with_intermediates(), given)}
        in_file = self.model.endswith(".onnx")
        tensors = of_onnx(self.model, self.dims, sample, rows) if in_file else of_program(program, sample)
        ranks = {name: array.ndim for name, array in tensors.constants.items()}
        return Exported(self, named_encodings(tensors, floats, values, made), ranks)


@dataclass(frozen=True)
class Exported:
    """Encodings ready to ``save``.  ``ranks``: the number of dimensions of each constant of the model."""

    how: Export
    named: Named
    ranks: Mapping[str, int]

    def save(self) -> None:
        """Writes the complete file, or nothing."""
        if self.how.file.suffix == ".onnx":
            self._save_qdq()
            return
        from opdb.programs.onnx.aimet import written

        ranks = {n: r for n, r in self.ranks.items() if n in self.named.constants}
        write_atomically(self.how.file, written(self.named.encodings, ranks, self.how.version))

    def _save_qdq(self) -> None:
        import onnx

        from opdb.programs.onnx.encodings import to_qdq

        made = to_qdq(onnx.load(self.how.model), self.named.encodings, self.how.model)
        if made.ByteSize() > MOST:
            raise OpdbError(
                f"{self.how.file}: the model does not fit one ONNX file of 2 GB; write the encodings alone, e.g. to "
                f"{self.how.file.with_suffix('.encodings')}"
            )
        with written_atomically(self.how.file) as name:
            Path(name).write_bytes(made.SerializeToString())

    def print(self) -> None:
        """Prints the number of encodings in the file, and the weights that are missing from it."""
        constants = len(self.named.constants)
        activations = len(self.named.encodings) - constants
        print(
            f"  {self.how.file}: encodings of {activations} activations and {counted(constants, 'constant')}"
        )
        if lost := self.named.lost:
            some = ", ".join(lost[:SHOWN]) + (" ..." if len(lost) > SHOWN else "")
            print(
                f"  warning: {len(lost)} weights are not in it ({some}): a pass made them of several constants of the model; "
                "--no-pass leaves a pass out"
            )


@dataclass(frozen=True)
class ExportOptions:
    """Options for writing the encodings that --quantize chooses."""

    export_encodings: Annotated[
        Path | None,
        typer.Option(
            "--export-encodings",
            metavar="FILE",
            help="Write the encodings that --quantize chose, for AIMET and --encodings; FILE.onnx: the ONNX model with them (QDQ).",
        ),
    ] = None
    encodings_version: Annotated[
        str,
        typer.Option("--encodings-version", metavar="VERSION", help="Of AIMET's format: 1.0.0 or 2.0.0."),
    ] = VERSION

    def export(
        self, model: str, dims: Mapping[str, int], *, quantizes: bool, rounds: bool, pte: bool
    ) -> Export | None:
        """The export of the encodings of ``model``; None if not requested.

        ``rounds``: True if AdaRound changes the weights.  Raises OpdbError for a file without a recipe that quantizes, for a model
        without names, for weights that are not the model's, and for an unknown version.
        """
        from opdb.programs.onnx.aimet import VERSIONS

        file, version = self.export_encodings, self.encodings_version
        if version not in VERSIONS:
            raise OpdbError(f"--encodings-version {version}: one of {', '.join(VERSIONS)}")
        if file is None:
            return None
        if not quantizes:
            raise OpdbError(f"--export-encodings {file}: for --quantize; give --quantize 8a8w, too")
        if rounds:
            raise OpdbError(
                f"--export-encodings {file}: the encodings are of the weights that AdaRound makes, which {model} does not have; "
                "give rounding: nearest, or let AIMET itself round and export (docs/guides/quantization.md)"
            )
        if pte:
            raise OpdbError(
                f"--export-encodings {file}: ExecuTorch's quantizer chooses those of a .pte; compile to a context (-o FILE.bin)"
            )
        check_writable(file, option="--export-encodings")
        if model.endswith(".tflite"):
            raise OpdbError(
                f"--export-encodings {file}: for ONNX files and PyTorch programs, whose tensors it names; not for {model}"
            )
        if file.suffix == ".onnx":
            _check_qdq(file, version, model)
        return Export(file, version, model, dims)


def _check_qdq(file: Path, version: str, model: str) -> None:
    if not model.endswith(".onnx"):
        raise OpdbError(
            f"--export-encodings {file}: the quantize nodes go into an ONNX model, and {model} is none; export it with "
            f"torch.onnx.export and compile that file, or write the encodings alone: {file.with_suffix('.encodings')}"
        )
    if version != VERSION:
        raise OpdbError(f"--encodings-version {version}: for AIMET's files; leave it out for {file}")
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
