"""package qnn, ort, onnx, aic, check, matrix, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli.options import Db, Json, Specs, known_op, synced
from opdb.cli.output import print_json
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import PACKAGED

if TYPE_CHECKING:
    from opdb.spec.catalog import Catalog

Kernel = Annotated[
    list[Path] | None,
    typer.Option("--kernel", metavar="FILE.c", help="C file with a kernel; may be repeated."),
]
NoBuild = Annotated[bool, typer.Option("--no-build", help="Write the sources only.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that opdb did not write.")]

package_app = typer.Typer(
    help="Make, check, and inspect op packages: libraries of custom ops.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(package_app, name="package")


def _kernels(given: list[Path] | None, specs: Path | None) -> list[Path]:
    """The files that were named, and those of a folder of ops of one's own."""
    from opdb.core.settings import specs_folder
    from opdb.spec.paths import kernel_files

    return [*(given or ()), *kernel_files(specs_folder(specs))]


def _catalog(db: str | None, specs: Path | None) -> Catalog:
    """That of the database; a folder of ops of one's own is read as it is."""
    from opdb.catalog.store import read_catalog
    from opdb.core.settings import specs_folder
    from opdb.spec.paths import kernel_files

    folder = specs_folder(specs)
    return read_catalog(folder) if kernel_files(folder) else synced(db, specs)[1]


@package_app.command()
def qnn(
    ops: Annotated[list[str], typer.Argument(metavar="OP...", help="The ops of the package.")],
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<package>."),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="The QNN backend that loads it.")
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
        ),
    ] = None,
    no_build: NoBuild = False,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Generate a QNN op package from specs and kernels, and compile it."""
    from opdb.catalog.targets.target import backend_name
    from opdb.run.packages import package as op_package

    backend = backend_name(backend)
    op_package.check_backend(backend)
    catalog = _catalog(db, specs)
    names = [known_op(name, catalog.ops) for name in ops]
    made = op_package.write(
        catalog,
        names,
        folder,
        package=package,
        kernels=_kernels(kernel, specs),
        backend=backend,
        soc=soc,
        force=force,
    )
    library = None if no_build else op_package.build(made)
    if json:
        print_json(
            {
                "package": made.package,
                "ops": list(made.ops),
                "backend": backend,
                "folder": str(made.folder),
                "files": list(made.files),
                "library": None if library is None else str(library),
                "provider": made.provider,
            }
        )
        return
    print(f"{made.package}: {', '.join(made.ops)}; {len(made.files)} files in {made.folder}")
    if library is None:
        print(f"build it with: make -C {made.folder}")
    else:
        print(f"library   {library}\nprovider  {made.provider}")


@package_app.command()
def ort(
    ops: Annotated[list[str], typer.Argument(metavar="OP...", help="The ops of the library.")],
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<name>.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the library.")] = "opdb",
    domain: Annotated[
        str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the ops in ONNX files.")
    ] = "com.opdb",
    kernel: Kernel = None,
    no_build: NoBuild = False,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Generate custom ops for ONNX Runtime from specs and kernels, and compile them."""
    from opdb.run.packages import package as op_package

    catalog = _catalog(db, specs)
    names = [known_op(op, catalog.ops) for op in ops]
    root, files = op_package.write_ort(
        catalog, names, name, folder, domain=domain, kernels=_kernels(kernel, specs), force=force
    )
    library = None if no_build else op_package.build_ort(root, name)
    if json:
        print_json(
            {
                "ops": sorted(set(names)),
                "domain": domain,
                "folder": str(root),
                "files": list(files),
                "library": None if library is None else str(library),
            }
        )
        return
    print(f"{domain}: {', '.join(sorted(set(names)))}; {len(files)} files in {root}")
    print(f"build it with: make -C {root}" if library is None else f"library   {library}")


@package_app.command()
def aic(
    ops: Annotated[list[str], typer.Argument(metavar="OP...", help="The ops of the package.")],
    api: Annotated[
        str,
        typer.Option(
            "--api", metavar="VERSION", help="The generation of the interface: 1.17, 5.0.0 or 1.21."
        ),
    ] = "1.21",
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<name>.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the package.")] = "opdb",
    domain: Annotated[
        str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the ops in ONNX files.")
    ] = "com.opdb",
    version: Annotated[
        str | None, typer.Option("--version", metavar="N.N.N", help="The version that the SDK checks.")
    ] = None,
    scratch: Annotated[
        int, typer.Option("--scratch", metavar="BYTES", help="Scratch of an op that needs any.")
    ] = 2**20,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--inputs", metavar="OP=N", help="How many inputs, where it is open; may be repeated."),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--outputs", metavar="OP=N", help="How many outputs; may be repeated.")
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", metavar="OP.NAME", help="An input or parameter that is left out; may be repeated."
        ),
    ] = None,
    kernel: Kernel = None,
    no_build: NoBuild = False,
    force: Force = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Generate a custom-op package for Qualcomm Cloud AI from specs and kernels, and compile it."""
    from opdb.plugins.cloud_ai.codegen.aic import Choice, Counts
    from opdb.run.packages import package as op_package

    _, catalog = synced(db, specs)
    names = [known_op(op, catalog.ops) for op in ops]
    counts = Counts(_numbers(inputs, "--inputs"), _numbers(outputs, "--outputs"), frozenset(without or ()))
    choice = Choice(api, name, domain, version, scratch, counts)
    made = op_package.write_aic(catalog, names, choice, folder, kernels=kernel or (), force=force)
    libraries = () if no_build else op_package.build_aic(made)
    if json:
        print_json(
            {
                "package": name,
                "ops": list(made.ops),
                "api": api,
                "domain": domain,
                "folder": str(made.folder),
                "files": list(made.files),
                "config": str(made.config),
                "libraries": [str(p) for p in libraries],
            }
        )
        return
    print(f"{name} for Cloud AI {api}: {', '.join(made.ops)}; {len(made.files)} files in {made.folder}")
    print(f"config    {made.config}")
    if no_build:
        print(f"build it with: make -C {made.folder}")
    for path in libraries:
        print(f"library   {path}")


def _numbers(given: list[str] | None, option: str) -> dict[str, int]:
    """OP=N by op.  Raises OpdbError for what is not that."""
    found = {}
    for text in given or ():
        op, _, number = text.partition("=")
        if not number.isdecimal():
            raise OpdbError(f"{option} {text}: expected OP=N, e.g. Concat=3")
        found[op] = int(number)
    return found


@package_app.command()
def check(
    ops: Annotated[list[str], typer.Argument(metavar="OP...", help="Ops whose kernel has a 'tiling'.")],
    tiling: Annotated[
        bool,
        typer.Option(
            "--tiling", help="Run each sample in tiles of the legal sizes, and compare with the whole."
        ),
    ] = False,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """Check that kernels give the same results tile by tile as on whole tensors, and read nothing else."""
    from dataclasses import asdict

    from opdb.measure.conformance import tiles

    if not tiling:
        raise OpdbError("say what to check: --tiling")
    catalog = _catalog(db, specs)
    found = [f for op in ops for f in tiles.check(catalog, known_op(op, catalog.ops))]
    if json:
        print_json([asdict(f) for f in found])
    else:
        for f in found:
            print(f"{f.op} sample {f.sample} {f.dtype}: {f.tiles} tiles, {f.fault or 'as the whole'}")
    if any(f.fault for f in found):
        raise typer.Exit(1)


@package_app.command()
def inspect(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="An op package, e.g. libQnnMine.so.")],
    soc: Annotated[str, typer.Option("--soc", metavar="SOC", help="The chip that HTP emulates.")] = "SM8650",
    no_load: Annotated[bool, typer.Option("--no-load", help="Only read the file; run none of it.")] = False,
    json: Json = False,
) -> None:
    """Show what a library of custom ops is: its machine, interface, ops, and what it needs."""
    from dataclasses import asdict

    from opdb.catalog.targets.target import soc_name
    from opdb.run.packages import check as packages
    from opdb.run.packages import elf

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


@package_app.command()
def matrix(
    library: Annotated[Path, typer.Argument(metavar="LIBRARY", help="An op package, e.g. libQnnMine.so.")],
    soc: Annotated[str, typer.Option("--soc", metavar="SOC", help="The chip that HTP emulates.")] = "SM8650",
    json: Json = False,
) -> None:
    """Try an op package with each installed version of QNN."""
    from dataclasses import asdict

    from opdb.catalog.targets.target import soc_name
    from opdb.run.packages import check as packages

    found = list(packages.matrix(library, soc_name(soc)))
    if json:
        print_json([asdict(f) for f in found])
    else:
        for f in found:
            print(f"QNN {f.qnn_version:8} {f.backend} {f.soc:8} {f.why or 'taken'}")
    if all(f.why for f in found):
        raise typer.Exit(1)


@package_app.command()
def onnx(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file with nodes of op packages.")],
    custom_ops: Annotated[
        list[Path],
        typer.Option("--custom-ops", metavar="LIB", help="What `opdb package ort` built; repeatable."),
    ],
    op_package: Annotated[
        list[Path],
        typer.Option("--op-package", metavar="LIB", help="What `opdb package qnn` built; repeatable."),
    ],
    inputs: Annotated[
        Path | None,
        typer.Option("--inputs", metavar="FILE.npz", help="Inputs by name; by default random ones."),
    ] = None,
    soc: Annotated[str, typer.Option("--soc", metavar="SOC", help="The chip that HTP emulates.")] = "SM8650",
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn", metavar="VERSION", help="QNN's version; by default the newest with the provider."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="NUMBER", help="The largest difference that passes.")
    ] = 0.0,
    json: Json = False,
) -> None:
    """Run an ONNX file on ONNX Runtime's CPU and, with op packages, through its QNN execution provider; compare."""
    from dataclasses import asdict

    from opdb.run.libraries import onnx_runtime

    ops, values = onnx_runtime.ends(model)
    if inputs is not None:
        values = onnx_runtime.given(inputs, values)
    settings = onnx_runtime.on_qnn(ops, op_package, custom_ops=custom_ops, soc=soc, qnn=qnn)
    found = onnx_runtime.compare(model, onnx_runtime.on_cpu(custom_ops, ops), settings, values)
    if json:
        print_json({"settings": asdict(settings), "outputs": [asdict(f) for f in found]})
    else:
        print(f"register_custom_ops_library           {', '.join(settings.custom_ops)}")
        print(f"register_execution_provider_library   {settings.provider_library}")
        for key, value in settings.provider_options.items():
            print(f"{key:<37} {value}")
        for f in found:
            how = "equal bit by bit" if f.equal else f"largest difference {f.difference:g}"
            print(f"{f.name}: {f.dtype} {list(f.shape)}, CPU and QNN: {how}")
    if any(not (f.equal or f.difference <= tolerance) for f in found):
        raise typer.Exit(1)
