"""add-op --to: adds an op in the user's own folder, from a file to a package that ran."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opdb.cli.screen import print_whole
from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from opdb.author.own_ops.folder import OwnOp
    from opdb.author.own_ops.references import Reference
    from opdb.author.own_ops.trials import Trial
    from opdb.spec.catalog import Catalog


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    folder: Path
    xml: Path | None = None
    onnx: Path | None = None
    each: str | None = None
    kernel: Path | None = None
    like: str | None = None
    reference: Path | None = None
    package: str | None = None
    socs: Sequence[str] = ()
    yes: bool = False


class _Clock:
    """Prints each step with the seconds that it took."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()

    def say(self, what: str, text: str) -> None:
        now = time.perf_counter()
        print(f"{now - self.last:5.1f} s  {what:9} {text}", flush=True)
        self.last = now

    def end(self) -> None:
        print(f"{time.perf_counter() - self.start:5.1f} s  in all")


def add(name: str, asked: Asked) -> None:
    """Runs all steps; exits 1 if a kernel must still be written, or a result is wrong."""
    from opdb.author.own_ops import folder as own_folder
    from opdb.catalog.targets.target import soc_name

    _check(asked)
    clock, socs = _Clock(), [soc_name(s) for s in asked.socs or ("SM8650",)]
    own = own_folder.open_folder(asked.folder, name)
    left: list[str] = []
    if own.spec.is_file():
        file = asked.xml or asked.onnx
        catalog = own_folder.write(own, own.spec.read_text(encoding="utf-8"), asked.kernel)
        clock.say("spec", f"{own.spec} is there{f'; {file} was not read again' if file else ''}")
    else:
        text, left = _draft(name, asked, own)
        print_whole(text, end="")
        if not asked.yes and not typer.confirm(f"\nwrite {own.spec}?"):
            print("nothing written")
            raise typer.Exit(1)
        catalog = own_folder.write(own, text, asked.kernel, begin=True)
        clock.say("spec", str(own.spec))
    kernel = catalog.compiled(name).definition.kernel
    if kernel is None:
        raise OpdbError(
            f"{own.spec}: kernel: the op has none, and could not run; e.g. 'function: {own.function}'"
        )
    generated = f"{kernel.function}, generated from 'each'"
    clock.say(
        "kernel", generated if kernel.each is not None else str(own.c) if own.c.is_file() else kernel.function
    )
    made = own_folder.build(own, catalog, None)
    clock.say("package", str(made.library))
    wrong = _run(own, catalog, made.library, socs, _reference(own, catalog, asked), clock)
    for point in left:
        print(f"left: {point}")
    clock.end()
    if wrong:
        raise typer.Exit(1)


def _check(asked: Asked) -> None:
    """Raises OpdbError for incompatible options."""
    ways = {"--each": asked.each, "--kernel": asked.kernel, "--like": asked.like}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        raise OpdbError(f"{' and '.join(given)}: each says what the op computes; give one")
    if asked.xml is not None and asked.onnx is not None:
        raise OpdbError("--from-xml and --from-onnx: give one file that has the op")


def _draft(name: str, asked: Asked, own: OwnOp) -> tuple[str, list[str]]:
    from opdb.author.own_ops.folder import drafted, with_kernel

    if asked.xml is not None:
        from opdb.author.importers.opxml.read import read as read_xml

        file, found = asked.xml, [read_xml(asked.xml)]
    elif asked.onnx is not None:
        from opdb.author.importers.onnx_nodes import read as read_onnx

        file, found = asked.onnx, read_onnx(asked.onnx)
    else:
        raise OpdbError(f"{own.spec}: no such spec; say where the op is with --from-xml or --from-onnx")
    text, words = drafted(name, found, file)
    like = None
    if asked.like is not None:
        from opdb.cli.options import known_op, synced

        ops = synced(None)[1].ops
        like = ops[known_op(asked.like, ops)]
    return with_kernel(text, asked.each, asked.package, like), words


def _reference(own: OwnOp, catalog: Catalog, asked: Asked) -> Reference | None:
    """The given file, else PyTorch for ``--like``, else the expression in the spec."""
    from opdb.author.own_ops import references

    compiled = catalog.compiled(own.op)
    if asked.reference is not None:
        return references.of_file(asked.reference, compiled)
    if asked.like is not None:
        from opdb.cli.options import synced

        return references.of_op(synced(None)[1].compiled(asked.like), compiled)
    return references.of_elements(compiled) if compiled.each else None


def _run(
    own: OwnOp,
    catalog: Catalog,
    library: Path,
    socs: Sequence[str],
    reference: Reference | None,
    clock: _Clock,
) -> bool:
    """Runs the samples on each version and chip; returns True if something is wrong or must still be written."""
    from opdb.author.own_ops import trials
    from opdb.execute.libraries.client import VendorWorker
    from opdb.generated.constants.backends import DEFAULT

    if not catalog.ops[own.op].samples:
        print(f"left: {own.spec}: it has no samples, so nothing ran: add one, e.g. {{x: [2, 3]}}")
        return True
    unwritten, wrong = own.unwritten, False
    for libraries in trials.installed():
        for soc in socs:
            with VendorWorker(DEFAULT, soc, libraries=libraries.folder, op_packages=[library]) as worker:
                done = trials.run(catalog, own.op, worker, soc, reference, unwritten)
            clock.say("ran", f"QNN {libraries.qnn_version()}, {DEFAULT} {soc}: {_counts(done)}")
            wrong |= _print_wrong(done)
    if unwritten:
        print(f"left: {own.c}: write there what {own.op} computes, then give the same command again")
    elif reference is None:
        print(f"left: no reference: nothing says what {own.op} should compute; give --reference FILE.py")
    return wrong or unwritten


WORDS = {
    "right": "as the reference",
    "wrong": "other than the reference",
    "ran": "ran, compared with nothing",
    "taken": "validated; the kernel is not written yet",
    "refused": "not allowed by a rule",
    "failed": "failed",
}


def _counts(done: Sequence[Trial]) -> str:
    counts = Counter(t.outcome for t in done)
    return ", ".join(f"{counts[o]} {text}" for o, text in WORDS.items() if counts[o])


def _print_wrong(done: Sequence[Trial]) -> bool:
    shown = [t for t in done if t.outcome in ("wrong", "refused", "failed")]
    for t in shown:
        print(f"         {t.name}: {t.text}")
    return any(t.outcome != "refused" for t in shown)
