"""The options of diff."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.option_groups import ErrataOptions, ModelFileOptions, TableOptions
from opdb.cli.options import Backend, Db, Format, Json, Op
from opdb.cli.targets import listed
from opdb.core.errors import OpdbError


@dataclass(frozen=True)
class DiffOptions:
    """All options, in the order of the help."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="What changes for this model, as `opdb check` takes it: with --sdk 2.47,2.51, --soc A,B, or both.",
        ),
    ] = None
    op: Op = None
    backend: Backend = None
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="SoC, e.g. SM8650; for --model several, e.g. SM8550,SM8650.",
            autocompletion=completion.socs,
        ),
    ] = None
    sdk: Annotated[
        list[str] | None,
        typer.Option(
            "--sdk",
            metavar="VERSION",
            help="QNN SDK, e.g. 2.47; for --model several, e.g. 2.47,2.51.",
            autocompletion=completion.sdks,
        ),
    ] = None
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="WHAT",
            help="Exit 1 if there is a regression, or anything removed or changed; may be repeated.",
        ),
    ] = None
    format_: Annotated[
        Format,
        typer.Option(
            "--format", metavar="FORMAT", help="How to print it; --model takes table, json, md and html."
        ),
    ] = Format.table
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to a file instead."),
    ] = None
    table: TableOptions = TableOptions()
    quantize: Annotated[
        str | None,
        typer.Option(
            "--quantize", metavar="RECIPE", help="With --model: judge it quantized; see opdb check."
        ),
    ] = None
    reading: ModelFileOptions = ModelFileOptions()
    errata: ErrataOptions = ErrataOptions()
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With --model: name all nodes that change alike.")
    ] = False
    json: Json = False
    db: Db = None

    @property
    def form(self) -> Format:
        """The format to print."""
        return Format.json if self.json else self.format_

    def check(self, sides: bool) -> None:
        """Raises OpdbError for options that do not go together.  ``sides``: A or B is given."""
        from opdb.catalog.query.diff import FAILURES

        for what in self.fail_on or ():
            if what not in FAILURES:
                raise OpdbError(f"--fail-on {what}: one of {', '.join(FAILURES)}")
        if self.model is None:
            self._check_catalog()
        elif sides:
            raise OpdbError(
                "--model: name what to compare by --sdk 2.47,2.51 or --soc A,B instead of A and B"
            )
        elif self.op is not None:
            raise OpdbError(f"--op {self.op}: for the catalog; --model compares all nodes of the model")

    def _check_catalog(self) -> None:
        only_models = {
            "quantize": self.quantize is not None,
            "dtype": self.reading.dtype != "f32",
            "decompose": self.reading.decompose,
            "dim": bool(self.reading.dim),
            "encodings": self.reading.encodings is not None,
            "execution": self.errata.execution is not None,
            "errata": self.errata.errata is not None,
            "ignore-erratum": bool(self.errata.ignore_erratum),
            "verbose": self.verbose,
        }
        for option, given in only_models.items():
            if given:
                raise OpdbError(f"--{option}: goes with --model MODEL")
        for option, values in (("soc", listed(self.soc)), ("sdk", listed(self.sdk))):
            if len(values) > 1:
                raise OpdbError(
                    f"--{option} {','.join(values)}: several are for --model MODEL; without it compare A with B, e.g. "
                    "opdb diff HTP:SM8550@2.47 HTP:SM8650@2.51"
                )
        if self.form is Format.parquet:
            raise OpdbError("diff writes no Parquet; choose table, json, csv, md or html")
