"""libraries install, chips, list."""

from __future__ import annotations

from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import MAINTAIN, App
from opdb.cli.option_groups import TableOptions, with_option_groups
from opdb.cli.options import Format, Json
from opdb.cli.output import print_json, print_rows

libraries_app = App(
    "libraries", example="opdb libraries list", help="Install and list versions of Qualcomm's QNN libraries."
)


def add_to(app: App) -> None:
    app.add(libraries_app, MAINTAIN)


@libraries_app.command(example="opdb libraries install 2.51")
def install(
    version: Annotated[
        str,
        typer.Argument(
            metavar="VERSION",
            help="Of QNN, e.g. 2.51, or of onnxruntime-qnn, e.g. 2.7.0; or the file of its wheel.",
        ),
    ],
    json: Json = False,
) -> None:
    """Download a version of QNN's libraries next to the others.

    They come with the wheel onnxruntime-qnn, which is unpacked into opdb's folder; installed Python packages do not change.
    """
    from opdb.cli.progress import working
    from opdb.runtime.qnn.install import install as unpack

    with working("download and unpack"):
        libraries, new = unpack(version)
    if json:
        print_json({"folder": str(libraries.folder), "version": libraries.version,
                    "qnn_version": libraries.qnn_version(), "new": new})  # fmt: skip
        return
    print(
        f"{'unpacked' if new else 'already there'}: QNN {libraries.qnn_version()} ({libraries}) in {libraries.folder}"
    )


@libraries_app.command(example="opdb libraries chips --number 57")
def chips(
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn",
            metavar="VERSION",
            help="QNN's version, e.g. 2.51; default the installed wheel.",
            autocompletion=completion.sdks,
        ),
    ] = None,
    number: Annotated[
        list[int] | None,
        typer.Option(
            "--number", metavar="N", help="Number of a SoC in QNN; may be repeated.  Default: 1 to 140."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Ask the HTP library which chips it opens.

    Shows the name of each, its Hexagon version, and whether it has fp16 and bf16.
    """
    from opdb.cli.library_install import found_or_installed
    from opdb.cli.progress import working
    from opdb.execute.libraries.chips import NUMBERS, rows
    from opdb.runtime.qnn.libraries import installed

    libraries = installed() if qnn is None else found_or_installed(qnn)
    with working("ask the library"):
        found = list(rows(libraries, number or NUMBERS))
    if json:
        print_json(found)
    else:
        print_rows(found, ("qnn_version", "soc_model", "name", "arch", "fp16", "bf16"), Format.table)


#: The columns of ``list``, and those that a terminal shows.
COLUMNS = (
    "qnn_version",
    "package",
    "version",
    "backend",
    "operations",
    "core_api",
    "build_id",
    "sha256",
    "folder",
)
FIRST = ("qnn_version", "package", "version", "backend", "operations")


@libraries_app.command("list", example="opdb libraries list --json")
@with_option_groups
def list_(table: TableOptions = TableOptions(), json: Json = False) -> None:
    """List the QNN libraries of this machine.

    Each is asked in a process of its own; 'opdb doctor' says what they can do.
    """
    from opdb.cli.progress import working
    from opdb.core.errors import OpdbError
    from opdb.execute.libraries.report import CURE, library_rows

    with working("ask the libraries"):
        rows = library_rows()
    found = [row["library"] for row in rows if "library" in row]
    if json:
        print_json(found)
    elif found:
        print_rows(
            [{**row, "sha256": row["sha256"][:12]} for row in found],
            table.chosen(COLUMNS, "libraries list"),
            Format.table,
            layout=table.layout(FIRST),
        )
    else:
        raise OpdbError(f"no QNN libraries are here; {CURE}")
