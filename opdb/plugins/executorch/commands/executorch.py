"""executorch env, table, register, patches, kernels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli import completion
from opdb.cli.help import BUILD, App
from opdb.cli.option_groups import DatabaseOptions, SourceOptions, with_option_groups
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.cli.screen import print_whole
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.generated.constants.backends import DEFAULT

if TYPE_CHECKING:
    from opdb.plugins.executorch.portable_kernels.kernels import KernelFolder, Selection
    from opdb.plugins.executorch.portable_kernels.out_variants import Kernels

executorch_app = App(
    "executorch",
    example="opdb executorch register",
    help="Use opdb with ExecuTorch: builders, patches, kernels.",
)


def add_to(app: App) -> None:
    app.add(executorch_app, BUILD)


@executorch_app.command(example="opdb executorch env")
def env(
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="Folder to prepare; default: the user's cache."),
    ] = None,
    json: Json = False,
) -> None:
    """Prepare ExecuTorch's Qualcomm flow; print its variables.

    For eval "$(opdb executorch env)": makes the folder that stands for Qualcomm's SDK.
    """
    from opdb.plugins.executorch.env import prepare

    environment = prepare(folder)
    if json:
        print_json(environment.variables)
    else:
        print_whole(environment.shell(), end="")


class TableFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


@executorch_app.command(example="opdb executorch register")
def register(json: Json = False) -> None:
    """Print the lines that put opdb's builders into ExecuTorch.

    They are two; what they need is listed with them.
    """
    from opdb.generated.builders import TARGETS
    from opdb.plugins.executorch.env import RELEASES, environment_report

    checks = environment_report()
    if json:
        lines = ["import opdb.plugins.executorch", "opdb.plugins.executorch.register()"]
        missing = [{"name": c.name, "found": c.found, "cure": c.cure} for c in checks if not c.ok]
        print_json(
            {"lines": lines, "executorch": list(RELEASES), "targets": len(TARGETS), "missing": missing}
        )
        return
    print("import opdb.plugins.executorch")
    print("opdb.plugins.executorch.register()")
    print(
        f'# {len(TARGETS)} ATen targets; executorch {" or ".join(RELEASES)}, in a process after: eval "$(opdb executorch env)"'
    )
    for check in checks:
        if not check.ok:
            print(f"# missing: {check.name}: {check.found}; {check.cure}")


@executorch_app.command(example="opdb executorch patches --self-test")
def patches(
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Ask the installed ExecuTorch whether it needs each of them.")
    ] = False,
    json: Json = False,
) -> None:
    """List opdb's patches to the installed ExecuTorch.

    Which are applied, which are not, and why.

    Exit 1 if a self-test finds that an applied patch is not needed.
    """
    from opdb.plugins.executorch.env import prepare
    from opdb.plugins.executorch.process import call

    with working("ask ExecuTorch"):
        found = call("opdb.plugins.executorch.patches.report:report", self_test, environment=prepare())
    rows = found["patches"]
    if json:
        print_json(found)
    else:
        for row in rows:
            state = f"left out: {row['left_out']}" if row["left_out"] else "applied"
            asked = "" if row["needed"] is None else f", needed: {row['needed']}"
            print(f"{row['id']:36} {row['kind']:8} {row['releases']:14} {state}{asked}")
            print(f"    {row['why']}" + (f" ({row['upstream']})" if row["upstream"] else ""))
        applied = [row["kind"] for row in rows if not row["left_out"]]
        kinds = ", ".join(f"{applied.count(kind)} {kind}" for kind in dict.fromkeys(applied))
        print(
            f"executorch {found['executorch']}: {len(applied)} of {counted(len(rows), 'patch', 'patches')} apply: {kinds}"
        )
        if not found["known"]:
            print(
                f"opdb was not run with this release, only with {', '.join(found['releases'])}: self-tests decided"
            )
    if any(row["needed"] not in (None, True) for row in rows):
        raise typer.Exit(1)


@executorch_app.command(example="opdb executorch table --format csv --soc SM8650")
@with_option_groups
def table(
    format_: Annotated[
        TableFormat,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, json, or csv: op-support.csv of ExecuTorch's documentation.",
        ),
    ] = TableFormat.table,
    backend: Annotated[
        str, typer.Option("--backend", metavar="BACKEND", help="For csv.", autocompletion=completion.backends)
    ] = DEFAULT,
    soc: Annotated[
        str | None,
        typer.Option("--soc", metavar="SOC", help="For csv, e.g. SM8650.", autocompletion=completion.socs),
    ] = None,
    sdk: Annotated[
        str | None,
        typer.Option("--sdk", metavar="VERSION", help="For csv, e.g. 2.47.", autocompletion=completion.sdks),
    ] = None,
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """List the ATen targets that opdb builds, and their QNN ops."""
    if format_ is TableFormat.csv and not json:
        print_whole(_op_support(backend, soc, sdk, database), end="")
        return
    from opdb.generated.builders import TARGETS

    rows = [
        {"torch_op": target, "forms": [f.name for f in forms]} for target, forms in sorted(TARGETS.items())
    ]
    if json or format_ is TableFormat.json:
        print_json(rows)
        return
    width = max(len(row["torch_op"]) for row in rows)
    for row in rows:
        print(f"{row['torch_op']:{width}}  {', '.join(row['forms'])}")


def _op_support(backend: str, soc: str | None, sdk: str | None, database: DatabaseOptions) -> str:
    from opdb.catalog.targets.target import Target
    from opdb.codegen.support import Place, Support
    from opdb.codegen.support_tables import op_support
    from opdb.generated.constants.sdks import DEFAULT_SDK

    place = Target(backend, soc, sdk or DEFAULT_SDK).spelled()
    place.context()
    place.check_chip()
    catalog = database.catalog()
    return op_support(Support(catalog, Place(str(place.backend), place.soc, str(place.sdk))))


@executorch_app.command(example="opdb executorch kernels aten::gelu.out -o kernels")
@with_option_groups
def kernels(
    ops: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OP",
            help="aten::gelu.out, or an op of QNN: LayerNorm (torch.ops.qnn.LayerNorm).",
            autocompletion=completion.ops,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--for", metavar="MODEL.pte", help="Make kernels for the operators of this program."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="The folder to write.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the out variants that opdb can make kernels for.")
    ] = False,
    sources: SourceOptions = SourceOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    json: Json = False,
) -> None:
    """Write and compile kernels for ExecuTorch's runtime.

    They are made from specs and C kernels.

    Exit 1 if the program has an operator for which neither the runtime nor opdb has a kernel.
    """
    from opdb.plugins.executorch.portable_kernels import kernels as library
    from opdb.plugins.executorch.portable_kernels.out_variants import Kernels

    catalog = database.catalog()
    known = Kernels(catalog)
    if list_:
        _list(known, json)
        return
    if (not ops and model is None) or folder is None:
        raise OpdbError(
            "name operators, or a program with --for, and the folder with -o; --list shows what there is"
        )
    chosen = library.select(known, ops or (), model)
    if not chosen.entries:
        raise OpdbError(
            f"{model}: opdb has a kernel for none of its operators: {', '.join(chosen.others) or 'it has none'}"
        )
    made = library.write(known, chosen, folder, sources.force)
    with working("compile the kernels"):
        size = None if sources.no_build else library.build(made).stat().st_size
    if json:
        print_json(_made_json(made, chosen, folder, size))
    else:
        _print_made(made, chosen, folder, size)
    if chosen.missing:
        raise typer.Exit(1)


def _made_json(made: KernelFolder, chosen: Selection, folder: Path, size: int | None) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "kernels": made.kernels,
        "keys": made.keys,
        "others": dict(chosen.others),
        "missing": list(chosen.missing),
        "files": list(made.files),
        "library": None if size is None else str(made.library),
        "bytes": size,
    }


def _print_made(made: KernelFolder, chosen: Selection, folder: Path, size: int | None) -> None:
    for op, qnn in made.kernels.items():
        keys = made.keys[op]
        print(f"{op}: {', '.join(qnn)}" + (f"; {counted(len(keys), 'key')}" if keys else ""))
    for op, why in chosen.others.items():
        print(f"{op}: {'missing' if op in chosen.missing else 'the runtime has it'}: {why}")
    print(f"{counted(len(made.kernels), 'kernel')}, {counted(len(made.files), 'file')} in {folder}")
    print(f"build it with: make -C {folder}" if size is None else f"{made.library}  {size:,} bytes")


def _list(known: Kernels, json: bool) -> None:
    """Prints the out variants: the QNN ops of each, or the reason why it has none."""
    from opdb.plugins.executorch.codegen.glue import NoForm
    from opdb.plugins.executorch.portable_kernels.kernels import runtime_operators

    runtime = runtime_operators()
    rows: list[tuple[str, list[str], str | None]] = []
    for variant in known.every():
        try:
            rows.append((variant.name, [f.op for f in known.forms(variant)], None))
        except NoForm as error:
            rows.append((variant.name, [], str(error)))
    if json:
        print_json([{"op": o, "qnn": ops, "why": why, "in_runtime": o in runtime} for o, ops, why in rows])
        return
    for name, ops, why in rows:
        what = ", ".join(ops) or f"none: {why}"
        print(f"{name:36} {'runtime' if name in runtime else '':8} {what}")
    print(
        f"{sum(bool(ops) for _, ops, _ in rows)} of {len(rows)}; 'runtime': the installed ExecuTorch has one already"
    )
