"""doctor: reports what is installed, what is missing, and the cost of each missing part."""

from __future__ import annotations

import platform
import shutil
from importlib import metadata
from typing import Any

from opdb.cli.help import MAINTAIN, App
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.core import plugins
from opdb.core.errors import OpdbError
from opdb.core.install import add_extras
from opdb.core.names import counted
from opdb.core.version import __version__
from opdb.execute.libraries.report import library_rows
from opdb.generated.constants.backends import ASKED

#: Optional distributions: name, extra, what does not work without it.
PARTS = (
    ("torch", "torch", "no 'opdb check', no oracle in conformance runs"),
    ("onnx", "onnx", "no 'opdb check model.onnx', no executor onnx.reference"),
    ("executorch", "executorch", "no 'opdb executorch', no .pte in the demo"),
    (
        "onnxruntime-qnn",
        "qnn",
        f"no real QNN libraries: no {' and '.join(f'qnn-{b.name.lower()}' for b in ASKED)} executors, no '--against vendor'",
    ),
    ("lxml", "imports", "no 'opdb import xml' and 'opdb import docs'"),
    ("distributed", "dask", "no '--dask': conformance runs and probes on this machine only"),
    ("psycopg", "postgres", "no PostgreSQL database; SQLite works"),
)


def add_to(app: App) -> None:
    app.command(example="opdb doctor", group=MAINTAIN)(doctor)


def doctor(json: Json = False) -> None:
    """Report what is installed, what is missing, and its cure."""
    from opdb.cli.progress import working

    with working("ask the libraries"):
        rows = examine()
    if json:
        print_json(rows)
        return
    for row in rows:
        state = "ok" if row["ok"] else "refuses" if row["found"] else "missing"
        print(f"{state:7} {row['part']:16} {row['found'] or row['cost']}")
        for line in row.get("about", ()):
            print(f"{'':24} {line}")
        if not row["ok"]:
            if row["found"]:
                print(f"{'':24} {row['cost']}")
            print(f"{'':24} cure: {row['cure']}")


def examine() -> list[dict[str, Any]]:
    """One row for each part: part, ok, found, cost, cure; rows of QNN's libraries have more, see library_rows.

    A part that is found but not ok does not work here.
    """

    rows = [
        _row(
            "opdb",
            f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        ),
        _native(),
    ]
    for name, extra, cost in PARTS:
        try:
            rows.append(_row(name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append(_row(name, None, cost, add_extras(extra)))
    rows += [*library_rows(), _compiler()]
    for name in plugins.names("DIAGNOSES"):
        part, found, cost, cure = plugins.load("DIAGNOSES", name)()
        rows.append(_row(part, found, cost, cure))
    return rows


def _row(part: str, found: str | None, cost: str = "", cure: str = "") -> dict[str, Any]:
    return {"part": part, "ok": found is not None, "found": found, "cost": cost, "cure": cure}


def _native() -> dict[str, Any]:
    try:
        from opdb.runtime import native
    except OpdbError as error:
        return _row("C kernels", None, str(error), "pip install -e . (needs a C compiler)")
    return _row("C kernels", f"{counted(native.number_of_ops(), 'op')}")


def _compiler() -> dict[str, Any]:
    found = shutil.which("gcc") or shutil.which("cc")
    return _row("C compiler", "gcc" if found else None, "'opdb add-op' cannot build", "install gcc")
