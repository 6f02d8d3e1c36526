"""context show, context check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.help import BUILD, App
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.runtime.qnn.context_file import Header
    from opdb.runtime.qnn.libraries import Libraries as QnnLibraries

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A context file of opdb's, or a library's own context binary.")
]
Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Context files of opdb's.")]
Libraries = Annotated[
    Path | None, typer.Option("--libraries", metavar="DIR", help="Folder of QNN's libraries.")
]


def add_to(app: App) -> None:
    context = App(
        "context",
        example="opdb context show model.bin",
        help="Inspect and check context files: compiled graphs on disk.",
    )
    context.command(example="opdb context show model.bin")(show)
    context.command(example="opdb context check model.bin")(check)
    app.add(context, BUILD)


def show(file: File, libraries: Libraries = None, json: Json = False) -> None:
    """Show what a context file holds.

    Graphs, tensors, encodings, versions.  Exit 1 if QnnSystem cannot read it.
    """
    from opdb.runtime.qnn import context_file, context_info

    data = context_file.read_bytes(file)
    header, binary, problem = None, None, ""
    if context_file.is_context_file(data):
        found = context_file.unpack(data, str(file))
        header, payload = found.header, found.payload
    else:
        context_file.refuse_others(data, str(file))
        payload = memoryview(data)
    try:
        binary = context_info.ask(payload, str(file), _libraries(libraries))
    except OpdbError as error:
        if header is None:
            raise
        problem = str(error)
    if json:
        ours = header.json() if header else None
        print_json({"file": str(file), "checked": header is not None, "bytes": len(data), "header": ours,
                    "binary": binary, "problem": problem or None})  # fmt: skip
    else:
        _print(file, len(data), header, binary)
    if problem:
        print(f"opdb: {problem}", file=sys.stderr)
        raise typer.Exit(1)


def check(files: Files, libraries: Libraries = None, json: Json = False) -> None:
    """Check context files; exit 1 if one fails.

    Their checksums, and what QnnSystem and the backend that they are for say of them.
    """
    from opdb.runtime.qnn.context_file import read_bytes, unpack

    rows: list[dict[str, Any]] = []
    for file in files:
        data = read_bytes(file)
        try:
            header = unpack(data, str(file)).header
            with working(f"load {file}"):
                problem = _load(file, header, libraries)
            graphs = list(header.graphs)
        except OpdbError as error:
            problem, graphs = str(error), []
        rows.append({"file": str(file), "fine": not problem, "graphs": graphs, "problem": problem or None})
    if json:
        print_json(rows)
    else:
        for row in rows:
            print(row["problem"] or f"{row['file']}: fine; graphs: {', '.join(row['graphs'])}")
    if not all(row["fine"] for row in rows):
        raise typer.Exit(1)


def _libraries(folder: Path | None) -> QnnLibraries:
    from opdb.runtime.qnn.libraries import in_folder, installed

    return installed() if folder is None else in_folder(folder)


def _load(file: Path, header: Header, libraries: Path | None) -> str:
    """Loads the file on its backend in a child process; returns the problem, or ""."""
    from opdb.execute.libraries.client import VendorWorker

    with VendorWorker(header.backend, soc_model=header.soc_model, libraries=libraries) as worker:
        result = worker.load(file)
    if result.verdict == "yes":
        return ""
    how = {"no": "refuses it"}.get(result.verdict, result.verdict)
    return f"{file}: the {header.backend} library {how}: {result.explained}"


def _print(file: Path, size: int, header: Header | None, binary: dict[str, Any] | None) -> None:
    if header is None:
        print(f"{file}: no opdb header: not checked; {counted(size, 'byte')}")
    else:
        print(f"{file}: a context file of opdb's, intact; {counted(size, 'byte')}")
        rows = {
            "backend": header.backend + (f" for {header.soc_text()}" if header.soc_model is not None else ""),
            "library": f"{header.package} {header.version}".strip() or "of a folder",
            "build id": header.build_id,
            "sha256": header.sha256,
            "core API": ".".join(map(str, header.core_api)),
            "backend API": ".".join(map(str, header.backend_api)),
            "opdb": header.opdb,
            "metadata": header.metadata or "none",
        }
        _print_rows("header", rows)
    graphs = header.json()["graphs"] if header else []
    if binary is not None:
        soc = "" if binary["soc_model"] is None else f" for SoC number {binary['soc_model']}"
        rows = {
            "backend": binary["backend"] + soc,
            "build id": binary["build_id"] or "none",
            "core API": binary["core_api"],
            "backend API": binary["backend_api"],
            "context": f"version {binary['context_version']}, {counted(binary['context_bytes'], 'byte')}",
            "info": f"BinaryInfo version {binary['version']}",
        }
        _print_rows("binary, as QnnSystem reports it", rows)
        order = [g["name"] for g in graphs]  # the library's order may change from run to run
        graphs = sorted(binary["graphs"], key=lambda g: order.index(g["name"]) if g["name"] in order else -1)
        _print_tensors("context tensors", binary["tensors"])
    for graph in graphs:
        print(f"\ngraph {graph['name']}")
        for side in ("inputs", "outputs", "updateable"):
            _print_tensors(side, graph.get(side, []))


def _print_rows(title: str, rows: dict[str, Any]) -> None:
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:<12}{value}")


def _print_tensors(side: str, tensors: list[dict[str, Any]]) -> None:
    for t in tensors:
        number = f"  id {t['id']}" if "id" in t else ""
        print(f"  {side:<12}{t['name']}  {t['dtype']} {t['shape']}{number}{_quant(t.get('quant'))}")


def _quant(quant: dict[str, Any] | None) -> str:
    if quant is None:
        return ""
    fields = []
    for name, value in quant.items():
        if name != "encoding":
            long = isinstance(value, list) and len(value) > 4
            fields.append(f"{name} {[*value[:4], f'... {len(value)} in all'] if long else value}")
    return f"  {quant['encoding']}: {', '.join(fields)}"
