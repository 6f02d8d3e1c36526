"""package qnn, check, matrix, inspect; plug-ins add more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.help import EXTEND, App
from opdb.cli.option_groups import DatabaseOptions, SourceOptions, with_option_groups
from opdb.cli.options import EmulatedSoc, Json, known_op, open_catalog, prepared_for
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.generated.constants.backends import PACKAGED

if TYPE_CHECKING:
    from opdb.execute.packages.package import PackageFolder

Kernel = Annotated[
    list[Path] | None,
    typer.Option("--kernel", metavar="FILE.c", help="C file with a kernel; may be repeated."),
]

package_app = App(
    "package",
    example="opdb package qnn LayerNorm --package Mine -o mine",
    help="Make, check, and inspect op packages.",
)


def add_to(app: App) -> None:
    app.add(package_app, EXTEND)


def kernel_sources(given: list[Path] | None, specs: Path | None) -> list[Path]:
    """The given files, and the kernels in a user's own ops folder."""
    from opdb.core.settings import specs_folder
    from opdb.spec.paths import kernel_files

    return [*(given or ()), *kernel_files(specs_folder(specs))]


@package_app.command(example="opdb package qnn LayerNorm --package Mine -o mine")
@with_option_groups
def qnn(
    ops: Annotated[
        list[str], typer.Argument(metavar="OP", help="The ops of the package.", autocompletion=completion.ops)
    ],
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<package>."),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="BACKEND",
            help="The QNN backend that loads it.",
            autocompletion=completion.backends,
        ),
    ] = PACKAGED,
    package: Annotated[
        str | None,
        typer.Option("--package", metavar="NAME", help="Name of the package; default: the one in the specs."),
    ] = None,
    kernel: Kernel = None,
    soc: Annotated[
        str | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="Size tiles for this chip's VTCM instead of the smallest chip's 2 MiB.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = None,
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Generate and compile a QNN op package.

    It is made from specs and kernels.
    """
    from opdb.catalog.targets.target import backend_name
    from opdb.execute.packages import package as op_package

    backend = backend_name(backend)
    op_package.check_backend(backend)
    catalog = open_catalog(database.db, database.specs)
    names = [known_op(name, catalog.ops) for name in ops]
    made = op_package.write(
        catalog,
        names,
        folder,
        package=package,
        kernels=kernel_sources(kernel, database.specs),
        backend=backend,
        soc=soc,
        force=sources.force,
    )
    with working("compile the package"):
        library = None if sources.no_build else op_package.build(made)
    if json:
        print_json(_made_json(made, library))
        return
    print(f"{made.package}: {', '.join(made.ops)}; {counted(len(made.files), 'file')} in {made.folder}")
    if library is None:
        print(f"build it with: make -C {made.folder}")
    else:
        print(f"library   {library}\nprovider  {made.provider}")


def _made_json(made: PackageFolder, library: Path | None) -> dict[str, Any]:
    return {
        "package": made.package,
        "ops": list(made.ops),
        "backend": made.backend,
        "folder": str(made.folder),
        "files": list(made.files),
        "library": None if library is None else str(library),
        "provider": made.provider,
    }


@package_app.command(example="opdb package check Sharpen --tiling")
@with_option_groups
def check(
    ops: Annotated[
        list[str],
        typer.Argument(metavar="OP", help="Ops whose kernel has a 'tiling'.", autocompletion=completion.ops),
    ],
    tiling: Annotated[
        bool,
        typer.Option(
            "--tiling", help="Run each sample in tiles of the legal sizes, and compare with the whole."
        ),
    ] = False,
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Check that kernels work tile by tile as on whole tensors.

    The results have to be the same, and a tile reads nothing else.
    """
    from dataclasses import asdict

    from opdb.measure.conformance import tiles

    if not tiling:
        raise OpdbError("say what to check: --tiling")
    catalog = open_catalog(database.db, database.specs)
    names = [known_op(op, catalog.ops) for op in ops]
    with working("run the kernels"):
        found = [f for name in names for f in tiles.check(catalog, name)]
    if json:
        print_json([asdict(f) for f in found])
    else:
        for f in found:
            print(
                f"{f.op} sample {f.sample} {f.dtype}: {counted(f.tiles, 'tile')}, {f.fault or 'as the whole'}"
            )
    if any(f.fault for f in found):
        raise typer.Exit(1)


@package_app.command(example="opdb package inspect libQnnMine.so")
def inspect(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="An op package, e.g. libQnnMine.so.")],
    soc: EmulatedSoc = "SM8650",
    no_load: Annotated[bool, typer.Option("--no-load", help="Only read the file; run none of it.")] = False,
    json: Json = False,
) -> None:
    """Show what a library of custom ops is and needs.

    Its machine, interface, ops, and the libraries that it loads.
    """
    from dataclasses import asdict

    from opdb.catalog.targets.target import soc_name
    from opdb.execute.packages import check as packages
    from opdb.execute.packages import elf

    file = elf.read(library)
    loaded = packages.Loaded("", why="--no-load") if no_load else packages.ask(library, file, soc_name(soc))
    if json:
        print_json(asdict(file) | {"loaded": asdict(loaded)})
        return
    print(f"{library.name}: {file.kind}")
    print(f"machine   {file.machine}, ELF{file.bits}")
    print(f"build id  {file.build_id or 'none'}")
    for provider in file.providers:
        print(f"provider  {provider}")
    print(f"needs     {', '.join(file.needs) or 'nothing'}")
    said = f"{', '.join(loaded.ops)} ({loaded.by})" if loaded.ops else f"not asked: {loaded.why}"
    print(f"ops       {said}")


@package_app.command(example="opdb package matrix libQnnMine.so --soc SM8650")
def matrix(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="An op package, e.g. libQnnMine.so.")],
    soc: EmulatedSoc = "SM8650",
    json: Json = False,
) -> None:
    """Try an op package with each installed version of QNN."""
    from dataclasses import asdict

    from opdb.catalog.targets.target import soc_name
    from opdb.execute.packages import check as packages

    with working("ask the libraries"):
        found = list(packages.matrix(library, soc_name(soc)))
    if json:
        print_json([asdict(f) for f in found])
    else:
        for f in found:
            print(f"QNN {f.qnn_version:8} {f.backend} {f.soc:8} {f.why or 'taken'}")
    if all(f.why for f in found):
        raise typer.Exit(1)
