"""build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import BUILD, App
from opdb.cli.option_groups import DatabaseOptions, OptimizerOptions, SourceOptions, with_option_groups
from opdb.cli.options import Decompose, Json, known_op
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.names import counted


def add_to(app: App) -> None:
    app.command("build", example="opdb build -o kernels --for model.onnx", group=BUILD)(build)


@with_option_groups
def build(
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")],
    ops: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OP[:DTYPE,...]",
            help="Ops, and the data types of their first inputs.",
            autocompletion=completion.ops,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="MODEL",
            help="A .pt2, .onnx or .tflite file, or module:callable: the ops that it becomes.",
        ),
    ] = None,
    decompose: Decompose = False,
    optimizer: OptimizerOptions = OptimizerOptions(),
    target: Annotated[
        str, typer.Option("--target", metavar="host|hexagon", help="Machine to compile for.")
    ] = "host",
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Write and compile a C library of the kernels of a model.

    The library is self-contained; a list of ops instead of a model does, too.

    No Python, no allocation; a Makefile and a CMakeLists.txt.  For Hexagon (clang-19, v68): static libraries and a server
    that QEMU runs.  Exit 1 where a node of the model has no kernel.
    """
    from opdb.plugins.hexagon.tools import check_compiler
    from opdb.plugins.packages import c_library
    from opdb.plugins.packages.codegen.c_library import HEXAGON

    if not ops and model is None:
        raise OpdbError("name ops, or a model with --for")
    if model is None and optimizer.given:
        raise OpdbError("--no-pass and --io-layout are for a model; name one with --for")
    if target == HEXAGON and not sources.no_build:
        check_compiler()
    catalog = database.catalog()
    needed = c_library.of_words(ops or (), lambda op: known_op(op, catalog.ops))
    if model is not None:
        graph = _graph(model, decompose, optimizer, json)
        needed = c_library.merged(needed, c_library.of_graphs([graph]))
    library = c_library.write(catalog, needed, folder, sources.force, target)
    sizes: dict[str, int] = {}
    if not sources.no_build:
        with working("compile the library"):
            c_library.build(library)
        sizes = {str(file): file.stat().st_size for file in library.products}
    if json:
        print_json(
            {"folder": str(folder), "ops": library.needed, "files": list(library.files), "bytes": sizes}
        )
        return
    for op, dtypes in library.needed.items():
        print(f"{op}: {', '.join(dtypes) or 'all types of its kernel'}")
    print(f"{counted(len(library.needed), 'op')}, {counted(len(library.files), 'file')} in {folder}")
    for file, size in sizes.items():
        print(f"{file}  {size:,} bytes")
    if sources.no_build:
        print(f"build it with: make -C {folder}")


def _graph(model: str, decompose: bool, optimizer: OptimizerOptions, json: bool) -> QnnGraph:
    """The graph of the model by the op definitions; if a node has none, prints the reason and exits 1."""
    from opdb.catalog.targets.target import Target
    from opdb.cli.check_report import print_coverage
    from opdb.execute.compile.model import graph_name, lowered
    from opdb.programs.load import load_program

    sys.path.insert(0, "")
    coverage, graph = lowered(
        load_program(model),
        Target(),
        graph_name(model),
        decompose=decompose,
        without=optimizer.without,
        io_layout=optimizer.io_layout,
    )
    if graph is None:
        if json:
            print_json({"coverage": coverage.to_json()})
        else:
            print_coverage(coverage)
        raise typer.Exit(1)
    return graph
