"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.core import plugins

if TYPE_CHECKING:
    from opdb.catalog.store import Store
    from opdb.spec.catalog import Catalog


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    md = "md"
    html = "html"
    parquet = "parquet"


Db = Annotated[
    str | None, typer.Option("--db", metavar="URL", help="Database: a file or a PostgreSQL URL [OPDB_URL].")
]
Specs = Annotated[Path | None, typer.Option("--specs", metavar="DIR", help="Folder of specs [OPDB_SPECS].")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")]
Ops = Annotated[
    list[str] | None,
    typer.Option("--op", metavar="OP", help="Only this op; may be repeated.", autocompletion=completion.ops),
]
Op = Annotated[
    str | None, typer.Option("--op", metavar="OP", help="Only this op.", autocompletion=completion.ops)
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend", metavar="BACKEND", help="QNN backend, e.g. HTP.", autocompletion=completion.backends
    ),
]
Soc = Annotated[
    str | None,
    typer.Option("--soc", metavar="SOC", help="SoC, e.g. SM8650, '8 Gen 3'.", autocompletion=completion.socs),
]
Sdk = Annotated[
    str | None,
    typer.Option("--sdk", metavar="VERSION", help="QNN SDK, e.g. 2.47.", autocompletion=completion.sdks),
]


def prepared_for(value: str | list[str] | None) -> str | list[str] | None:
    """The callback of --soc where HTP's library prepares for the chip: its names as the catalog spells them.

    Raises OpdbError for a chip that the library does not prepare for.
    """
    if not value:
        return value
    from opdb.catalog.targets.target import Target, soc_name
    from opdb.generated.constants.backends import DEFAULT

    names = [soc_name(name) for name in ([value] if isinstance(value, str) else value)]
    for name in names:
        Target(DEFAULT, name).check_chip()
    return names[0] if isinstance(value, str) else names


EmulatedSoc = Annotated[
    str,
    typer.Option(
        "--soc",
        metavar="SOC",
        help="The chip that HTP emulates.",
        callback=prepared_for,
        autocompletion=completion.socs,
    ),
]
Execution = Annotated[
    str | None,
    typer.Option(
        "--execution", metavar="WHERE", help="device or emulator: which errata of the library count."
    ),
]
Errata = Annotated[
    str | None,
    typer.Option(
        "--errata",
        metavar="POLICY",
        help="avoid, warn or ignore all; default by execution (docs/guides/errata.md).",
    ),
]
IgnoreErratum = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-erratum", metavar="ID", help="Ignore this erratum, e.g. HTP-0042; may be repeated."
    ),
]
GraphName = Annotated[
    str | None,
    typer.Option(
        "--graph", metavar="NAME", help="Name of the model's graph; of op configs, the only one to compile."
    ),
]
Dtype = Annotated[
    str, typer.Option("--dtype", metavar="TYPE", help="What float32 tensors become: f32 or f16.")
]
Decompose = Annotated[
    bool,
    typer.Option("--decompose", help="Break the program down to core ATen where a node has no mapping."),
]
Dim = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Size of a dimension that an ONNX file leaves open, by its name or INPUT:AXIS; may be repeated.",
    ),
]
Encodings = Annotated[
    str | None,
    typer.Option(
        "--encodings",
        metavar="FILE",
        help="Quantize an ONNX file in floats with these: AIMET's .encodings, or a QDQ .onnx file of the same model.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="The library counts as hung after this time.")
]
NoPass = Annotated[
    list[str] | None,
    typer.Option("--no-pass", metavar="NAME", help="Skip this pass of the optimizer; may be repeated."),
]
IoLayout = Annotated[
    str,
    typer.Option(
        "--io-layout",
        metavar="WORD",
        help="keep, or nhwc: inputs and outputs of four dimensions have their channels last.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Every warning makes the exit code 1.")]
More = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show warnings of PyTorch, ExecuTorch and QNN's library.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show each broken rule in full.")]
Lenient = Annotated[bool, typer.Option("--lenient", help="Errata of the library never change the exit code.")]


def _print_passes(asked: bool) -> None:
    if asked:
        from json import dumps

        from opdb.lower.passes import PASSES

        if "--json" in sys.argv:  # Typer reads the options that end a command before the others
            print(dumps([{"name": p.name, "exact": p.exact, "about": p.about} for p in PASSES], indent=2))
            raise typer.Exit
        width = max(len(p.name) for p in PASSES)
        for p in PASSES:
            print(f"{p.name.ljust(width)}  {'exact  ' if p.exact else 'bounded'}  {p.about}")
        raise typer.Exit


Passes = Annotated[
    bool,
    typer.Option(
        "--passes", callback=_print_passes, is_eager=True, help="List the passes of the optimizer and stop."
    ),
]


def renamed(old: str, new: str) -> None:
    """Says on stderr that an option has another spelling now; the old one works until the next release."""
    print(f"opdb: {old} is now written {new}; the old form goes with the next release", file=sys.stderr)


def is_program(file: Path) -> bool:
    """True if a plug-in compiles and runs files with this suffix, e.g. ``.pte``."""
    return file.suffix in plugins.names("PROGRAMS")


Dask = Annotated[
    str | None,
    typer.Option(
        "--dask", metavar="ADDRESS", help="Use the workers of this Dask scheduler instead of local processes."
    ),
]


def check_workers(jobs: int | None, dask: str | None) -> None:
    """Raises OpdbError if --jobs and --dask are both given."""
    from opdb.core.errors import OpdbError

    if jobs is not None and dask is not None:
        raise OpdbError(
            "--jobs and --dask: give one; how many workers a scheduler has is decided where they start"
        )


def check_strictness(strict: bool, lenient: bool) -> None:
    """Raises OpdbError if --strict and --lenient are both given."""
    from opdb.core.errors import OpdbError

    if strict and lenient:
        raise OpdbError("--strict and --lenient contradict each other; leave out one")


def check_timeout(timeout: float) -> None:
    """Raises OpdbError for a --timeout that is not positive."""
    from opdb.core.errors import OpdbError

    if timeout <= 0:
        raise OpdbError(f"--timeout {timeout:g}: give a time above 0 seconds")


def store(db: str | None) -> Store:
    """The store at ``--db``, ``OPDB_URL``, or in the user's data folder."""
    from opdb.catalog.store import Store
    from opdb.core.settings import database_url

    return Store(database_url(db))


def brought_up_to_date(db: str | None, specs: Path | None = None) -> Store:
    """The store with its tables up to date, loaded with the specs and the evidence that opdb ships."""
    from opdb.core.settings import database_url, specs_folder

    opened = store(db)
    if not opened.is_current():
        from opdb.catalog.migrate import upgrade

        upgrade(database_url(db))
    opened.load_shipped()
    opened.sync(specs_folder(specs))
    return opened


def synced(db: str | None, specs: Path | None = None) -> tuple[Store, Catalog]:
    """The up-to-date store, and its catalog."""
    opened = brought_up_to_date(db, specs)
    return opened, opened.load_catalog()


def open_catalog(db: str | None, specs: Path | None = None) -> Catalog:
    """The catalog from the database; for a user's own ops folder, which is not in a database, from its files."""
    from opdb.core.settings import specs_folder
    from opdb.spec.paths import is_own

    folder = specs_folder(specs)
    if is_own(folder):
        from opdb.catalog.store import read_catalog

        return read_catalog(folder)
    return synced(db, specs)[1]


def known_op(name: str, known: object) -> str:
    """The one of ``known`` with this name, in any case.  Raises OpdbError with the closest one."""
    from opdb.core.errors import OpdbError
    from opdb.core.guess import did_you_mean
    from opdb.core.names import spelled

    names = list(known)  # type: ignore[call-overload]
    if (found := spelled(name, names)) in names:
        return found
    cure = "'opdb query ops' lists the known ones, 'opdb add-op' adds one"
    raise OpdbError(f"unknown op '{name}'{did_you_mean(name, names, cure)}")
