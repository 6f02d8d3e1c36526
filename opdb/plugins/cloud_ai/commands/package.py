"""package aic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import App
from opdb.cli.option_groups import DatabaseOptions, SourceOptions, with_option_groups
from opdb.cli.options import Json, known_op
from opdb.cli.output import print_json
from opdb.cli.package import Kernel, package_app
from opdb.cli.progress import working
from opdb.core.errors import OpdbError
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.plugins.cloud_ai.codegen.aic import Counts


def add_to(app: App) -> None:
    """Nothing to do: importing this module adds the command to the group ``package``."""


@dataclass(frozen=True)
class SlotOptions:
    """The inputs, outputs, and parameters of an op where its spec leaves them open."""

    inputs: Annotated[
        list[str] | None,
        typer.Option("--inputs", metavar="OP=N", help="How many inputs, where it is open; may be repeated."),
    ] = None
    outputs: Annotated[
        list[str] | None, typer.Option("--outputs", metavar="OP=N", help="How many outputs; may be repeated.")
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", metavar="OP.NAME", help="An input or parameter that is left out; may be repeated."
        ),
    ] = None

    def counts(self) -> Counts:
        """Raises OpdbError for anything other than OP=N."""
        from opdb.plugins.cloud_ai.codegen.aic import Counts

        inputs, outputs = _numbers(self.inputs, "--inputs"), _numbers(self.outputs, "--outputs")
        return Counts(inputs, outputs, frozenset(self.without or ()))


@package_app.command(example="opdb package aic LayerNorm -o package")
@with_option_groups
def aic(
    ops: Annotated[
        list[str], typer.Argument(metavar="OP", help="The ops of the package.", autocompletion=completion.ops)
    ],
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
    slots: SlotOptions = SlotOptions(),
    kernel: Kernel = None,
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Generate and compile a package for Qualcomm Cloud AI.

    Its custom ops are made from specs and kernels.
    """
    from opdb.plugins.cloud_ai import aic_package
    from opdb.plugins.cloud_ai.codegen.aic import Choice

    catalog = database.catalog()
    names = [known_op(op, catalog.ops) for op in ops]
    choice = Choice(api, name, domain, version, scratch, slots.counts())
    made = aic_package.write(catalog, names, choice, folder, kernels=kernel or (), force=sources.force)
    with working("compile the package"):
        libraries = () if sources.no_build else aic_package.build(made)
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
    print(
        f"{name} for Cloud AI {api}: {', '.join(made.ops)}; {counted(len(made.files), 'file')} in {made.folder}"
    )
    print(f"config    {made.config}")
    if sources.no_build:
        print(f"build it with: make -C {made.folder}")
    for path in libraries:
        print(f"library   {path}")


def _numbers(given: list[str] | None, option: str) -> dict[str, int]:
    """The number by op, from OP=N.  Raises OpdbError for any other form."""
    found = {}
    for text in given or ():
        op, _, number = text.partition("=")
        if not number.isdecimal():
            raise OpdbError(f"{option} {text}: expected OP=N, e.g. Concat=3")
        found[op] = int(number)
    return found
