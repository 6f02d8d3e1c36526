"""errata probe, errata page."""

from __future__ import annotations

import json as json_module
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import MEASURE, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Json, prepared_for
from opdb.cli.output import print_json
from opdb.core.errors import OpdbError
from opdb.core.install import add_extras
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.measure.conformance.reprobe import Observation
    from opdb.runtime.qnn.libraries import Libraries
    from opdb.spec.catalog import Catalog
    from opdb.spec.erratum import Erratum

errata_app = App(
    "errata",
    example="opdb errata probe --id HTP-0042",
    help="Test known faults of Qualcomm's libraries again.",
)
#: One chip for each Hexagon version that QNN's libraries emulate.
SOCS = ("SM8350", "SM8450", "SM8550", "SM8650", "SM8750", "SM8850")


def add_to(app: App) -> None:
    app.add(errata_app, MEASURE)


@errata_app.command(example="opdb errata probe --qnn 2.47 --id HTP-0042")
@with_option_groups
def probe(
    qnn: Annotated[
        list[str] | None,
        typer.Option(
            "--qnn",
            metavar="VERSION",
            help="Version of QNN; may be repeated. Default: all that are installed.",
            autocompletion=completion.sdks,
        ),
    ] = None,
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="SoC for HTP; may be repeated. One per Hexagon version.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = None,
    ident: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Only this record; may be repeated.")
    ] = None,
    json: Json = False,
    database: DatabaseOptions = DatabaseOptions(),
) -> None:
    """Run the reproductions of errata on libraries and SoCs.

    Prints where the fault shows, and the scope to record.

    Exit 1 if the measured scope is not the one in the record.
    """
    catalog = database.catalog()
    errata = _chosen(catalog, ident)
    from opdb.catalog.targets.target import soc_name
    from opdb.cli.progress import working
    from opdb.measure.conformance.reprobe import observe

    chips = [soc_name(s) for s in soc or SOCS]
    seen: list[Observation] = []
    places = _libraries(qnn)
    with working("run reproductions") as stages:
        for libraries, version in places:
            present = [e for e in errata if e.backend in libraries.present]
            per_soc = [e for e in present if catalog.backends[e.backend].per_soc]
            for chip in chips if per_soc else ():
                stages.note(f"QNN {version}, {chip}: {counted(len(per_soc), 'record')}")
                seen += observe(catalog, per_soc, libraries, version, chip)
            once = [e for e in present if not catalog.backends[e.backend].per_soc]
            seen += observe(catalog, once, libraries, version, "")
    if json:
        print_json([o.data() for o in seen])
        return
    if _print(catalog, errata, seen):
        raise typer.Exit(1)


@errata_app.command("page", example="opdb errata page probed.json -o errata.md --date 2026-11-26")
@with_option_groups
def write_page(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.json", help="What probe --json printed.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")],
    date: Annotated[str, typer.Option("--date", metavar="YYYY-MM-DD", help="When it was measured.")],
    json: Json = False,
    database: DatabaseOptions = DatabaseOptions(),
) -> None:
    """Write the page of errata by QNN version and chip.

    From what ``errata probe --json`` printed.
    """
    from opdb.core.files import write_atomically
    from opdb.measure.conformance.errata_by_sdk import page, read_observations

    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        raise OpdbError(f"--date: '{date}' is not a date; e.g. 2026-11-26")
    catalog = database.catalog()
    seen: list[Observation] = []
    for file in files:
        try:
            rows = json_module.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OpdbError(f"{file}: {error}") from None
        if not isinstance(rows, list):
            raise OpdbError(f"{file}: expected a list of observations, as 'opdb errata probe --json' prints")
        seen += read_observations(rows, str(file))
    text = page(catalog, seen, date)
    write_atomically(output, text)
    if json:
        print_json({"file": str(output), "bytes": len(text.encode())})
    else:
        print(f"{output}: {counted(len(text.encode()), 'byte')}")


def _chosen(catalog: Catalog, idents: Sequence[str] | None) -> list[Erratum]:
    for ident in idents or ():
        if ident not in catalog.errata:
            raise OpdbError(f"no erratum '{ident}'; 'opdb query errata' lists them")
    return [catalog.errata[i] for i in idents] if idents else list(catalog.errata.values())


def _libraries(wanted: Sequence[str] | None) -> list[tuple[Libraries, str]]:
    """The libraries, each with its version of QNN, e.g. 2.47."""
    from opdb.cli.library_install import found_or_installed
    from opdb.runtime.qnn.libraries import discover

    found = [found_or_installed(w) for w in wanted] if wanted else list(discover())
    if not found:
        raise OpdbError(f"no QNN libraries are here; {add_extras('qnn')}")
    named = [(each, ".".join(each.qnn_version().split(".")[:2])) for each in found]
    return [(each, version) for each, version in named if version]


def _print(catalog: Catalog, errata: Sequence[Erratum], seen: Sequence[Observation]) -> bool:
    """Prints a line for each record; returns True if a measured scope differs from the stated one."""
    from opdb.measure.conformance.reprobe import LETTERS, propose

    differs = False
    for e in errata:
        own = [o for o in seen if o.erratum == e.erratum]
        if not own:
            continue
        versions = dict.fromkeys(o.qnn for o in own)
        letters = (f"{v} {''.join(LETTERS[o.symptom] for o in own if o.qnn == v)}" for v in versions)
        proposal = propose(catalog, e, own)
        print(f"{e.erratum}  {'  '.join(letters)}  {e.title}")
        if proposal is None:
            print("    cannot be told here")
        elif proposal.differs(e):
            differs = True
            print(f"    measured: {proposal.text()}")
    return differs
