"""Writes the spec and the kernel of an op into a user's own ops folder, and builds its package."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.author.importers.opxml.collection import Collection
from opdb.author.importers.opxml.draft import drafts
from opdb.catalog.store import read_catalog
from opdb.codegen import formatters
from opdb.codegen.artifact import Artifact, spec_path
from opdb.codegen.rules import snake
from opdb.codegen.rules_c import kernel_parameters
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.names import counted
from opdb.execute.packages import package
from opdb.generated.constants.backends import DEFAULT
from opdb.spec.backend import Backend
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.files import dump, load, parse_document
from opdb.spec.model import OpDef
from opdb.spec.paths import KERNELS, is_own, kernel_files

#: Part of the first comment of a kernel that opdb started and nobody has written yet.
TO_WRITE = "What it computes is to be written here"


@dataclass(frozen=True)
class OwnOp:
    """The files of one op; ``c``: the path of its kernel, which does not exist if the kernel is generated."""

    folder: Path
    op: str

    @property
    def spec(self) -> Path:
        return self.folder / "ops" / f"{self.op}.yaml"

    @property
    def c(self) -> Path:
        return self.folder / KERNELS / f"{snake(self.op)}.c"

    @property
    def function(self) -> str:
        """The name of its kernel function."""
        return f"opdb_{snake(self.op)}"

    @property
    def unwritten(self) -> bool:
        """True if the kernel is still the one that opdb started."""
        return self.c.is_file() and TO_WRITE in self.c.read_text(encoding="utf-8")


def open_folder(folder: Path, op: str) -> OwnOp:
    """Raises OpdbError for an invalid name or another kind of folder.  Writes nothing yet."""
    if not re.fullmatch(r"[A-Za-z]\w{0,59}", op, re.ASCII):
        raise OpdbError(f"{op!r} is not a valid op name: use letters, digits, and _, starting with a letter")
    if (folder / "ops").is_dir() and not is_own(folder):
        raise OpdbError(
            f"{folder}: it has ops/ and no {KERNELS}/; name a folder of ops of your own, or a new one"
        )
    return OwnOp(folder, op)


def backends() -> Mapping[str, Backend]:
    """The backends of opdb's specs, which a new folder also has."""
    with tempfile.TemporaryDirectory(prefix="opdb-") as empty:
        for name in ("ops", KERNELS):
            Path(empty, name).mkdir()
        return read_catalog(Path(empty)).backends


def drafted(op: str, found: Sequence[Collection], file: Path) -> tuple[str, list[str]]:
    """The draft of one op in a file, and notes about it.  Raises OpdbError if the file lacks the op."""
    known = backends()
    for collection in found:
        made = {d.op: d for d in drafts(collection, file.name, known)}
        if op in made:
            return made[op].text, [*made[op].words, *(n for n in collection.notes if op in n)]
    names = [o.name for c in found for o in c.ops]
    raise OpdbError(f"{file}: no op '{op}'; it has {', '.join(names)}")


def with_kernel(text: str, each: str | None, package_name: str | None, like: OpDef | None) -> str:
    """The spec with a kernel for the data types of the first input in HTP's rows, or in its slot."""
    head, mark, words = text.partition("# not expressed:")
    op = load(OpDef, parse_document(head, "draft"))
    data: dict[str, Any] = op.model_dump(mode="json")
    kernel: dict[str, Any] = {"function": f"opdb_{snake(op.op)}"}
    if like is not None:
        kernel = _of_like(op, like)
    elif each is not None:
        kernel["each"] = each
    data["kernel"] = kernel | {"dtypes": _dtypes(op)}
    if package_name is not None:
        data["package"] = package_name
    return dump(OpDef.model_validate(data)) + mark + words


def _dtypes(op: OpDef) -> list[str]:
    """Data types of the first input: from HTP's rows, else from any backend's, else from the slot, else float32."""
    first = next(iter(op.inputs))
    parts = [op.backends[DEFAULT]] if DEFAULT in op.backends else list(op.backends.values())
    found = [d for part in parts for rows in part.dtypes.values() for row in rows for d in row.get(first, [])]
    return list(dict.fromkeys(found)) or list(op.inputs[first].dtype or ["f32"])


def _of_like(op: OpDef, like: OpDef) -> dict[str, Any]:
    """The kernel of another op with the same numbers of slots and parameters."""
    kernel = like.kernel
    if kernel is None:
        raise OpdbError(f"--like {like.op}: it has no kernel")
    ours, theirs = ((len(o.inputs), len(o.params), len(o.outputs)) for o in (op, like))
    if ours != theirs:
        raise OpdbError(
            f"--like {like.op}: it has {counted(theirs[0], 'input')}, {counted(theirs[1], 'parameter')} and "
            f"{counted(theirs[2], 'output')}; {op.op} has {ours[0]}, {ours[1]} and {ours[2]}"
        )
    if kernel.each is None or kernel.by is not None:
        raise OpdbError(
            f"--like {like.op}: its C kernel takes what its spec gives it; only kernels with one expression ('each') "
            f"can be taken over here. Copy its file and name it with --kernel"
        )
    names = dict(zip([*like.inputs, *like.params], [*op.inputs, *op.params], strict=True))

    def renamed(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), text)

    each: Any = kernel.each
    each = renamed(each) if isinstance(each, str) else {k: renamed(v) for k, v in each.items()}
    return {"function": f"opdb_{snake(op.op)}", "each": each}


def write(own: OwnOp, text: str, kernel: Path | None, begin: bool = False) -> Catalog:
    """Writes the spec and, if there is one to write, the kernel; returns the folder's catalog.

    ``begin``: if there is no kernel, write one to be completed.  Raises SpecError or OpdbError; then nothing has changed.
    """
    c = None if kernel is None else _read(kernel)
    before = {p: p.read_bytes() if p.exists() else None for p in (own.spec, own.c)}
    new = [p for p in (own.folder, own.spec.parent, own.c.parent) if not p.exists()]
    try:
        for path in new:
            path.mkdir(parents=True)
        write_atomically(own.spec, text)
        catalog = read_catalog(own.folder)
        compiled = catalog.compiled(own.op)
        if c is not None:
            write_atomically(own.c, c)
        elif begin and not compiled.each and not own.c.exists():
            write_atomically(own.c, begun(compiled))
    except BaseException as error:
        for path, content in before.items():
            if content is not None:
                path.write_bytes(content)
            elif path.parent.is_dir():
                path.unlink(missing_ok=True)
        for path in reversed(new):
            if path.is_dir():
                path.rmdir()
        if isinstance(error, OSError):
            raise OpdbError(f"{own.folder}: cannot be written: {error.strerror}") from None
        raise
    return catalog


def _read(kernel: Path) -> str:
    try:
        return kernel.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise OpdbError(f"{kernel}: cannot read this kernel: {why}") from None


def begun(op: CompiledOp) -> str:
    """A kernel that compiles but computes nothing: a person must complete it."""
    kernel = op.definition.kernel
    assert kernel is not None
    parameters = kernel_parameters(op)
    unused = "".join(f"    (void){p.split()[-1].lstrip('*')};\n" for p in parameters)
    about = f"{op.name}: {op.definition.summary}  " if op.definition.summary else ""
    text = (
        f'#include "kernel.h"\n\n/* {about}{TO_WRITE}; until then it answers "unsupported". */\n'
        f"opdb_status {kernel.function}({', '.join(parameters)}) {{\n{unused}    return OPDB_UNSUPPORTED;\n}}\n"
    )
    return formatters.format_all(
        [Artifact(f"generated/c/kernels/{snake(op.name)}.c", text, (spec_path(op.name),), "c")]
    )[0]


def build(own: OwnOp, catalog: Catalog, soc: str | None) -> package.PackageFolder:
    """Builds the package of all ops in the folder with a kernel and this op's package name, below build/."""
    name = catalog.ops[own.op].package
    ops = [n for n, op in catalog.ops.items() if op.package == name and op.kernel is not None]
    folder = own.folder / "build" / name / DEFAULT.lower()
    made = package.write(
        catalog, ops, folder, kernels=kernel_files(own.folder), backend=DEFAULT, soc=soc, force=True
    )
    package.build(made)
    return made
