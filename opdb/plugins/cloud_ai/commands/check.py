"""aic check; opdb.plugins.cloud_ai.commands.aic adds it to its group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.options import Json
from opdb.cli.output import print_json
from opdb.cli.progress import working
from opdb.core.errors import OpdbError
from opdb.core.names import counted


def check(
    package: Annotated[Path, typer.Argument(metavar="DIR|YAML", help="A package's folder, or its YAML.")],
    op: Annotated[
        str | None, typer.Option("--op", metavar="OP", help="Only this op.", autocompletion=completion.ops)
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="INPUT=N,N", help="Dimensions of an input; may be repeated."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="A parameter, a list as 1,2; may be repeated."),
    ] = None,
    api: Annotated[
        str | None,
        typer.Option("--api", metavar="VERSION", help="1.17, 5.0.0 or 1.21, if not what the package shows."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Every warning makes the exit code 1.")] = False,
    json: Json = False,
) -> None:
    """Check a package of custom ops for Cloud AI.

    Its YAML, libraries and kernels.  Exit 1 for errors.
    """
    from dataclasses import asdict

    from opdb.plugins.cloud_ai.check.check import check as judge
    from opdb.plugins.cloud_ai.check.trials import Asked

    shapes = {name: _dims(name, text) for name, text in _pairs("--shape", shape)}
    values = {name: _values(text) for name, text in _pairs("--param", param)}
    with working("try the package"):
        done = judge(package, Asked(shapes, values), op, api)
    warnings = len(done.findings) - done.errors
    if json:
        print_json(
            {
                "files": done.files,
                "ops": {name: asdict(tried) for name, tried in done.ops.items()},
                "errors": done.errors,
                "warnings": warnings,
                "findings": [f.json() for f in done.findings],
            }
        )
    else:
        for finding in done.findings:
            print(finding)
        for name, about in done.ops.items():
            ran = ", ".join(about.kernels) or "none"
            print(
                f"{name}: interface {about.interface}, {counted(about.samples, 'sample')}, kernels run: {ran}"
            )
        print(f"{counted(done.errors, 'error')}, {counted(warnings, 'warning')}")
    if done.errors or (strict and warnings):
        raise typer.Exit(1)


def _pairs(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    found = []
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise OpdbError(f"{option} {text}: write {option} NAME=...")
        found.append((name, value))
    return found


def _dims(name: str, text: str) -> tuple[int, ...]:
    try:
        dims = tuple(int(d) for d in text.split(",") if d)
    except ValueError:
        dims = (0,)
    if any(d < 1 for d in dims):
        raise OpdbError(f"--shape {name}={text}: write whole numbers, e.g. {name}=2,3,8")
    return dims


def _values(text: str) -> tuple[float | str, ...]:
    """Numbers if all parts are numbers or booleans; else the text."""
    words = {"true": 1.0, "false": 0.0}
    try:
        return tuple(words[w.lower()] if w.lower() in words else float(w) for w in text.split(","))
    except ValueError:
        return (text,)
