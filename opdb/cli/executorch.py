"""executorch env, table, register."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opdb.cli.options import Db, Json, Specs, synced
from opdb.cli.output import print_json

executorch_app = typer.Typer(
    help="What plugs into ExecuTorch's Qualcomm backend.", no_args_is_help=True, rich_markup_mode=None
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(executorch_app, name="executorch")


@executorch_app.command()
def env(
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where to prepare; else the user's cache.")
    ] = None,
    json: Json = False,
) -> None:
    """Prepare the SDK folder for ExecuTorch's Qualcomm flow and print the environment, for eval "$(...)"."""
    from opdb.executorch.env import prepare

    environment = prepare(folder)
    if json:
        print_json(environment.variables)
    else:
        print(environment.shell(), end="")


class TableFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


@executorch_app.command()
def register(json: Json = False) -> None:
    """Print the two lines that put opdb's builders into ExecuTorch's flow, and what they need."""
    from opdb.executorch.env import EXECUTORCH, environment_report
    from opdb.generated.builders import TARGETS

    checks = environment_report()
    if json:
        lines = ["import opdb.executorch", "opdb.executorch.register()"]
        missing = [{"name": c.name, "found": c.found, "cure": c.cure} for c in checks if not c.ok]
        print_json({"lines": lines, "executorch": EXECUTORCH, "targets": len(TARGETS), "missing": missing})
        return
    print("import opdb.executorch")
    print("opdb.executorch.register()")
    print(
        f'# {len(TARGETS)} ATen targets; executorch {EXECUTORCH}, in a process after: eval "$(opdb executorch env)"'
    )
    for check in checks:
        if not check.ok:
            print(f"# missing: {check.name}: {check.found}; {check.cure}")


@executorch_app.command()
def table(
    format_: Annotated[
        TableFormat, typer.Option("--format", help="csv: op-support.csv of ExecuTorch's documentation.")
    ] = TableFormat.table,
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="For csv.")] = "HTP",
    soc: Annotated[str | None, typer.Option("--soc", metavar="NAME", help="For csv, ex) SM8650.")] = None,
    sdk: Annotated[str | None, typer.Option("--sdk", metavar="VERSION", help="For csv, ex) 2.47.")] = None,
    db: Db = None,
    specs: Specs = None,
    json: Json = False,
) -> None:
    """List the ATen targets whose builders opdb registers, and the QNN ops they become."""
    if format_ is TableFormat.csv and not json:
        print(_op_support(backend, soc, sdk, db, specs), end="")
        return
    from opdb.generated.builders import TARGETS

    rows = [
        {"torch_op": target, "forms": [f.name for f in forms]} for target, forms in sorted(TARGETS.items())
    ]
    if json or format_ is TableFormat.json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['torch_op']:44} {', '.join(row['forms'])}")


def _op_support(backend: str, soc: str | None, sdk: str | None, db: str | None, specs: Path | None) -> str:
    from opdb.codegen.support import Place, Support
    from opdb.codegen.support_tables import op_support
    from opdb.validate import NEWEST_SDK, Target

    place = Target(backend, soc, sdk or NEWEST_SDK).spelled()
    place.context()
    _, catalog = synced(db, specs)
    return op_support(Support(catalog, Place(str(place.backend), place.soc, str(place.sdk))))
