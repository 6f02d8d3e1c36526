"""``opdb add-op``: from a name to a tested op.

Drafts the spec from the bundled facts and the torch operators' schemas, checks it, writes it, regenerates, compiles, and runs
the op's conformance and calls of the operators.  A spec that cannot be read leaves nothing behind; one in which a
person must still say what an argument means is written, but nothing is generated from it until then.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.guess import did_you_mean
from opdb.spec.catalog import Catalog
from opdb.spec.model import QNN_PACKAGE, OpDef

if TYPE_CHECKING:
    from opdb.author.importers.torch_targets import MappingDraft

BUILD_SECONDS = 600


@dataclass(frozen=True)
class Draft:
    """An unwritten spec: its text and its future path.  ``kept`` is its file in specs/drafts.

    ``families``: the files of specs/torch that change with it, which hold the mappings of QNN's own ops.
    """

    op: str
    path: Path
    text: str
    kept: Path | None = None
    families: tuple[tuple[Path, str], ...] = ()
    mapped: tuple[str, ...] = ()  # the targets with a candidate in `families`

    @property
    def texts(self) -> tuple[tuple[Path, str], ...]:
        """Every file with its new text."""
        return ((self.path, self.text), *self.families)

    @property
    def new(self) -> list[Path]:
        """The files that do not exist yet or would change."""
        return [p for p, text in self.texts if not p.exists() or p.read_text(encoding="utf-8") != text]


def draft(
    op: str,
    specs: Path,
    torch_targets: Sequence[str] = (),
    like: str | None = None,
    package: str | None = None,
    *,
    xml: Path | None = None,
    library: str | None = None,
) -> Draft:
    """The draft of ``op``: the one kept in specs/drafts, which may be the next version of a spec, or else a new one.

    Targets, a similar op, a package, or ``xml`` (an OpDef collection) request a new one; if the spec exists,
    targets alone are added to it.  ``library``: the file or module that defines the targets outside ATen.
    Raises OpdbError: there are no facts about the op, a target is unknown, or the spec exists.
    """
    from opdb.author.importers.draft import draft as write

    path = specs / "ops" / f"{op}.yaml"
    kept = specs / "drafts" / path.name
    new = (like, package, xml) != (None, None, None)
    if kept.is_file() and not torch_targets and not new:
        return Draft(op, path, kept.read_text(encoding="utf-8"), kept)
    signatures = signatures_of([t for t in torch_targets if not t.startswith("aten.")], library)
    if path.exists():
        catalog = read_catalog(specs)
        known = catalog.mappings(op) if op in catalog.ops else {}
        wanted = [t for t in torch_targets if t not in known]
        if not torch_targets or (new and wanted):
            raise OpdbError(
                f"{path}: the spec is there already; edit it, name a target that it does not map with --torch, or "
                "delete it to have a new draft written"
            )
        return _with_targets(Draft(op, path, path.read_text(encoding="utf-8")), specs, wanted, signatures)
    if xml is not None:
        text = _from_xml(op, xml, specs)
    else:
        text = write(
            op,
            torch_targets or None,
            _like(like, specs, op),
            package=package,
            signatures=signatures,
            ranked=_families(read_catalog(specs, missing=op)),
        )
    if package is not None and f"\npackage: {package}\n" not in text:
        text = text.replace(f"op: {op}\n", f"op: {op}\npackage: {package}\n", 1)
    return _with_targets(_in_families(Draft(op, path, text), specs), specs, torch_targets, signatures)


def signatures_of(targets: Sequence[str], library: str | None) -> dict[str, str]:
    """Operator -> its schema as printed by PyTorch, for operators outside ATen, after loading ``library``.

    Raises OpdbError if PyTorch does not know an operator; MissingExtra without PyTorch.
    """
    if not targets:
        return {}
    from opdb.measure.conformance.torch_calls import load_library, operator

    if library is not None:
        load_library(library)
    return {t: str(operator(t)._schema).partition("::")[2] for t in targets}


def _families(catalog: Catalog) -> dict[str, str]:
    """Target -> the family with its candidates."""
    return {target: c.family for c in catalog.candidates for target in c.torch}


def _with_targets(new: Draft, specs: Path, targets: Sequence[str], signatures: Mapping[str, str]) -> Draft:
    """Adds an entry to ``new`` for each target without one, as far as names and schema determine it.

    For a QNN op's target, and for one with candidates in a family, it becomes the last candidate there.
    """
    from opdb.author.importers.torch_targets import draft_mapping, with_mapping
    from opdb.spec.compiler import compile_op
    from opdb.spec.files import load, parse_document
    from opdb.spec.model import resolve

    catalog = read_catalog(specs, missing=new.op)
    families = _families(catalog)
    for target in dict.fromkeys(targets):
        own = load(OpDef, parse_document(new.text, new.path.name))
        if target in own.torch or target in new.mapped or target in _mapped(catalog, new.op):
            continue
        compiled = compile_op(resolve(own, catalog.bases), catalog.context)
        known = catalog.mappings(new.op) if new.op in catalog.ops else own.torch
        made = draft_mapping(compiled, target, signatures.get(target), known)
        if target in families or own.package == QNN_PACKAGE:
            new = _in_family(new, specs, families, made)
        else:
            new = replace(new, text=with_mapping(new.text, own, made))
    return new


def _in_family(new: Draft, specs: Path, families: Mapping[str, str], made: MappingDraft) -> Draft:
    """``new`` with a candidate in its target's family, which may be a new file."""
    from opdb.author.importers.torch_targets import new_family, with_candidate
    from opdb.spec.family import FamilyDef
    from opdb.spec.files import load, parse_document

    changed = dict(new.families)
    name, begun = new_family(made.target)
    path = specs / "torch" / f"{families.get(made.target, name)}.yaml"
    before = changed.get(path) or (path.read_text(encoding="utf-8") if path.exists() else begun)
    family = FamilyDef(family=path.stem, summary="", candidates=[])
    if before != begun:
        family = load(FamilyDef, parse_document(before, path.name))
    changed[path] = with_candidate(before, family, new.op, made)
    return replace(new, families=tuple(changed.items()), mapped=(*new.mapped, made.target))


def _in_families(new: Draft, specs: Path) -> Draft:
    """Moves the mappings in a draft of a QNN op into families."""
    from opdb.author.importers.torch_targets import MappingDraft
    from opdb.spec.files import load, parse_document

    own = load(OpDef, parse_document(new.text, new.path.name))
    if own.package != QNN_PACKAGE or not own.torch:
        return new
    lines = new.text.splitlines(keepends=True)
    first = lines.index("torch:\n")
    last = next((i for i in range(first + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    new = replace(new, text="".join([*lines[:first], *lines[last:]]))
    catalog = read_catalog(specs, missing=new.op)
    for target, entry in own.torch.items():
        if target not in _mapped(catalog, new.op):
            new = _in_family(new, specs, _families(catalog), MappingDraft(target, entry, ()))
    return new


def _mapped(catalog: Catalog, op: str) -> set[str]:
    """The targets that families already map to ``op``, whose spec may be missing."""
    return {target for c in catalog.candidates if c.op == op for target in c.torch}


def _from_xml(op: str, file: Path, specs: Path) -> str:
    from opdb.author.importers.opxml.draft import drafts
    from opdb.author.importers.opxml.read import read

    found = {d.op: d.text for d in drafts(read(file), file.name, read_catalog(specs, missing=op).backends)}
    if op not in found:
        raise OpdbError(f"{file}: no op '{op}'; it has {', '.join(found)}")
    return found[op]


def _like(name: str | None, specs: Path, op: str) -> OpDef | None:
    if name is None:
        return None
    ops = read_catalog(specs, missing=op).ops
    if name not in ops:
        hint = did_you_mean(name, ops, f"known: {', '.join(ops)}")
        raise OpdbError(f"--like {name}: no such op{hint}")
    return ops[name]


def changes(new: Draft) -> str:
    """A new spec and the diffs of existing files that the draft changes; "" for a new spec alone."""
    if not new.path.exists() and not new.families:
        return ""
    lines: list[str] = [] if new.path.exists() else [new.text]
    for path, text in new.texts if new.path.exists() else new.families:
        name = f"specs/{path.parent.name}/{path.name}"
        before = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        lines += difflib.unified_diff(before, text.splitlines(keepends=True), name, name)
    return "".join(lines)


def write(new: Draft, specs: Path) -> None:
    """Writes the draft into the specs.  Raises SpecError if they cannot be read with it, and restores the files."""
    before = {path: path.read_bytes() if path.exists() else None for path, _ in new.texts}
    for path, text in new.texts:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, text)
    try:
        read_catalog(specs)
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                write_atomically(path, content)
        raise
    if new.kept is not None:
        new.kept.unlink(missing_ok=True)


def unmapped(op: str, specs: Path) -> list[str]:
    """Open points of the spec's mappings, as ``FILE:LINE:COLUMN: problem and its cure``."""
    from opdb.judge.lint import open_mappings

    return [str(p) for p in open_mappings(specs, op)]


def make_package(op: str, catalog: Catalog, root: Path) -> Path | None:
    """Writes and compiles the op package of an op outside QNN, below build/; None for QNN's own.

    Raises OpdbError if it cannot be built, e.g. for an op without a kernel.
    """
    from opdb.codegen.constants import PACKAGE
    from opdb.codegen.packages import of_catalog
    from opdb.execute.packages import package

    name = catalog.ops[op].package
    if name == PACKAGE:
        return None
    made = package.write(catalog, of_catalog(catalog)[name], root / "build" / "packages" / name)
    return package.build(made)


def build(root: Path) -> None:
    """Compiles the generated C in the checkout.  Raises OpdbError with the compiler's first complaint."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpdbError(f"the C code was not built: {error}") from None
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()] or [
            "no message"
        ]
        raise OpdbError(f"the C code was not built: {lines[0].strip()}")


def prove(op: str, root: Path, arguments: Sequence[str] = ()) -> int:
    """Runs the op's conformance in a new process, which loads the new code; returns its exit status."""
    return _again(root, "conformance", "run", "--op", op, *arguments)


def prove_calls(op: str, root: Path, arguments: Sequence[str] = ()) -> int:
    """Runs calls of the torch operators that map to the op, in a new process; returns its exit status."""
    return _again(root, "conformance", "torch", op, *arguments)


def _again(root: Path, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "opdb", *arguments], cwd=root, check=False).returncode
