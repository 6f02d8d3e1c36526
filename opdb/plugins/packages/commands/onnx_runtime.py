"""package ort, onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import App
from opdb.cli.option_groups import DatabaseOptions, SourceOptions, with_option_groups
from opdb.cli.options import EmulatedSoc, Json, known_op, open_catalog
from opdb.cli.output import print_json
from opdb.cli.package import Kernel, kernel_sources, package_app
from opdb.cli.progress import working
from opdb.core.names import counted


def add_to(app: App) -> None:
    """Nothing to do: importing this module adds the commands to the group ``package``."""


@package_app.command(example="opdb package ort LayerNorm -o library")
@with_option_groups
def ort(
    ops: Annotated[
        list[str], typer.Argument(metavar="OP", help="The ops of the library.", autocompletion=completion.ops)
    ],
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Output folder; default: ./<name>.")
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the library.")] = "opdb",
    domain: Annotated[
        str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the ops in ONNX files.")
    ] = "com.opdb",
    kernel: Kernel = None,
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Generate and compile custom ops for ONNX Runtime.

    They are made from specs and kernels.
    """

    from opdb.plugins.packages import ort_package

    catalog = open_catalog(database.db, database.specs)
    names = [known_op(op, catalog.ops) for op in ops]
    root, files = ort_package.write(
        catalog,
        names,
        name,
        folder,
        domain=domain,
        kernels=kernel_sources(kernel, database.specs),
        force=sources.force,
    )
    with working("compile the library"):
        library = None if sources.no_build else ort_package.build(root, name)
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
    print(f"{domain}: {', '.join(sorted(set(names)))}; {counted(len(files), 'file')} in {root}")
    print(f"build it with: make -C {root}" if library is None else f"library   {library}")


@package_app.command(example="opdb package onnx m.onnx --custom-ops libort.so --op-package libqnn.so")
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
    soc: EmulatedSoc = "SM8650",
    qnn: Annotated[
        str | None,
        typer.Option(
            "--qnn",
            metavar="VERSION",
            help="QNN's version; by default the newest with the provider.",
            autocompletion=completion.sdks,
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="NUMBER", help="The largest difference that passes.")
    ] = 0.0,
    json: Json = False,
) -> None:
    """Compare op packages in ONNX Runtime with its CPU.

    Runs an ONNX file on ONNX Runtime's CPU and, with op packages, through its QNN execution provider.
    """
    from dataclasses import asdict

    from opdb.execute.libraries import onnx_runtime

    ops, values = onnx_runtime.ends(model)
    if inputs is not None:
        values = onnx_runtime.given(inputs, values)
    settings = onnx_runtime.on_qnn(ops, op_package, custom_ops=custom_ops, soc=soc, qnn=qnn)
    with working("run on the CPU and through QNN"):
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
