"""add-op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from opdb.cli import completion
from opdb.cli.help import EXTEND, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Json, prepared_for
from opdb.cli.output import print_json, text_aside
from opdb.cli.screen import print_whole
from opdb.core.names import counted

Torch = Annotated[
    list[str] | None,
    typer.Option(
        "--torch",
        metavar="TARGET",
        help="Torch operator, e.g. aten.relu.default, mylib.my_relu.default; may be repeated.",
    ),
]
Library = Annotated[
    str | None,
    typer.Option(
        "--torch-library",
        metavar="FILE.py|MODULE",
        help="File or module that defines operators outside ATen.",
    ),
]


def add_to(app: App) -> None:
    app.command(
        "add-op",
        example="opdb add-op Swish --to my_ops --from-onnx swish.onnx --kernel swish.c",
        group=EXTEND,
    )(add_op)


@dataclass(frozen=True)
class AddOpOptions:
    """All options, in the order of the help."""

    torch: Torch = None
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="OP",
            help="Copy what the documents do not say from this op.",
            autocompletion=completion.ops,
        ),
    ] = None
    xml: Annotated[
        Path | None, typer.Option("--from-xml", metavar="FILE", help="An OpDef collection with the op.")
    ] = None
    onnx: Annotated[
        Path | None,
        typer.Option("--from-onnx", metavar="MODEL", help="A model with nodes of the op; with --to."),
    ] = None
    package: Annotated[
        str | None, typer.Option("--package", metavar="NAME", help="Op package; default: qti.aisw.")
    ] = None
    library: Library = None
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            metavar="DIR",
            help="A folder of your own: spec, kernel and HTP package go there, and it runs.",
        ),
    ] = None
    each: Annotated[
        str | None,
        typer.Option("--each", metavar="TEXT", help="Expression for one element of the result; with --to."),
    ] = None
    kernel: Annotated[
        Path | None, typer.Option("--kernel", metavar="FILE.c", help="The kernel in C; with --to.")
    ] = None
    reference: Annotated[
        Path | None,
        typer.Option("--reference", metavar="FILE.py", help="Reference implementation in numpy; with --to."),
    ] = None
    soc: Annotated[
        list[str] | None,
        typer.Option(
            "--soc",
            metavar="SOC",
            help="The chip to run for; may be repeated; with --to.",
            autocompletion=completion.socs,
            callback=prepared_for,
        ),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")] = False
    json: Json = False
    database: DatabaseOptions = DatabaseOptions()

    def check(self) -> None:
        """Raises OpdbError for options that do not go with --to, or only with it."""
        if self.to is not None:
            database = {"--db": self.database.db, "--specs": self.database.specs}
            not_here = {"--torch": self.torch, "--torch-library": self.library, **database}
            _refuse(not_here, "does not go with --to, which leaves opdb's own specs alone")
            return
        only_there = {
            "--from-onnx": self.onnx,
            "--each": self.each,
            "--kernel": self.kernel,
            "--reference": self.reference,
            "--soc": self.soc,
        }
        _refuse(only_there, "goes with --to DIR, the folder in which the op is made")


@with_option_groups
def add_op(
    name: Annotated[str, typer.Argument(metavar="OP", help="QNN's name of the op, e.g. LayerNorm.")],
    options: AddOpOptions,
) -> None:
    """Add an op: its spec, its code, a build, and the proof.

    Writes the spec, or maps further torch operators to it; then regenerates, compiles, and runs it.
    """
    options.check()
    try:
        with text_aside(options.json):
            if options.to is not None:
                _add_own_op(name, options.to, options)
            else:
                _add_op(name, options)
    except typer.Exit as end:
        if options.json:
            print_json({"op": name, "proven": end.exit_code == 0})
        raise
    if options.json:
        print_json({"op": name, "proven": True})


def _add_own_op(name: str, folder: Path, options: AddOpOptions) -> None:
    from opdb.cli import own_ops

    asked = own_ops.Asked(
        folder,
        options.xml,
        options.onnx,
        options.each,
        options.kernel,
        options.like,
        options.reference,
        options.package,
        options.soc or (),
        options.yes,
    )
    own_ops.add(name, asked)


def _add_op(name: str, options: AddOpOptions) -> None:
    from opdb.author import add_op as authoring
    from opdb.cli.generate import repository
    from opdb.core.settings import specs_folder

    torch, library = options.torch or (), options.library
    root, folder = repository(), specs_folder(options.database.specs)
    new = authoring.draft(
        name, folder, torch, options.like, options.package, xml=options.xml, library=library
    )
    files = new.new or [new.path]
    shown = ", ".join(str(p.relative_to(root) if p.is_relative_to(root) else p) for p in files)
    if new.kept is None and not new.new:
        print(f"{name} has {', '.join(torch)} already")
    else:
        _write(new, folder, shown, options.yes)
    open_points = authoring.unmapped(name, folder)
    if open_points:
        _print_left(open_points)
        print(f"say that in {shown}, then give the same command again")
        raise typer.Exit(1)
    if not _make_and_prove(name, folder, root, options.database, library):
        raise typer.Exit(1)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Raises OpdbError for the first option that is given."""
    from opdb.core.errors import OpdbError

    for option, value in options.items():
        if value:
            raise OpdbError(f"{option} {why}")


def _write(new: object, folder: Path, shown: str, yes: bool) -> None:
    from opdb.author import add_op as authoring

    assert isinstance(new, authoring.Draft)
    print_whole(authoring.changes(new) or new.text, end="")
    if not yes and not typer.confirm(f"\nwrite {shown}?"):
        print("nothing written")
        raise typer.Exit(1)
    authoring.write(new, folder)
    print(f"\nwrote     {shown}")


def _make_and_prove(
    name: str, folder: Path, root: Path, database: DatabaseOptions, library: str | None
) -> bool:
    """True if the generated op agrees with the spec and PyTorch."""
    from opdb.author import add_op as authoring
    from opdb.cli.generate import MEMORY
    from opdb.codegen import writer
    from opdb.codegen.targets import TARGETS
    from opdb.judge.lint import lint

    _, catalog = database.synced()
    outcome = writer.generate(catalog, root, TARGETS, memory=root / MEMORY)
    print(f"generated {counted(len(outcome.written), 'file')}, {outcome.unchanged} unchanged")
    for path in outcome.written:
        print(f"  {path}")
    authoring.build(root)
    print("compiled  validators, shim and kernel", flush=True)
    made = authoring.make_package(name, catalog, root)
    if made is not None:
        print(f"package   {made.relative_to(root)}", flush=True)
    where = database.words()
    statuses = [authoring.prove(name, root, where)]
    if catalog.mappings(name):
        more = ["--torch-library", library] if library else []
        statuses.append(authoring.prove_calls(name, root, [*where, *more]))
    words = (folder / "ops" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    left = [line.removeprefix("# ") for line in words if line.startswith("# not ")]
    _print_left(left + [str(p) for p in lint(folder, catalog) if Path(p.path).stem == name])
    return not any(statuses)


def _print_left(points: list[str]) -> None:
    for point in points:
        print(f"left: {point}")
