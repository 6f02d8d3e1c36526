"""``opdb aic skeleton``: drafts specs for the nodes of foreign domains in an ONNX file, and writes packages for Cloud AI.

An op that has a spec with a kernel, or a draft with a given kernel, goes into the package of its domain; the numbers of
its tensors and parameters are the model's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opdb.author.importers.opxml.draft import XmlDraft, drafts
from opdb.codegen.rules import snake
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.names import counted
from opdb.plugins.cloud_ai import aic_package, onnx_nodes
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.cloud_ai.onnx_nodes import Foreign
from opdb.spec import files as spec
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, CompileError
from opdb.spec.document import parse_document
from opdb.spec.model import KernelDef, OpDef


@dataclass(frozen=True)
class Skeleton:
    """The drafts and packages.  ``drafts``: file by op.  ``left``: op -> the reason why it is in no package."""

    drafts: Mapping[str, Path]
    packages: tuple[aic_package.AicFolder, ...]
    left: Mapping[str, str]
    words: Mapping[str, tuple[str, ...]]  # facts that drafts do not express


def make(
    catalog: Catalog,
    model: Path,
    folder: Path,
    *,
    domain: str | None = None,
    api: str = "1.21",
    kernels: Sequence[Path] = (),
    force: bool = False,
) -> Skeleton:
    """Writes drafts to ``folder``/specs and a package for each domain to ``folder``/<domain>.

    A draft gets the kernel opdb_<op> if one of the files ``kernels`` defines it.  Raises OpdbError as onnx_nodes.read and
    aic_package.write do; no draft is written then.
    """
    found = onnx_nodes.read(model, domain)
    if twice := sorted({op.name for op in found if [o.name for o in found].count(op.name) > 1}):
        raise OpdbError(f"{model}: {', '.join(twice)}: in several domains; choose one with --domain")
    fresh = [op for op in found if op.name not in catalog.ops]
    made = {d.op: d for d in _drafted(fresh, model, catalog)}
    texts = {
        name: _with_kernel(d, next(op for op in fresh if op.name == name), kernels)
        for name, d in made.items()
    }
    paths = {name: folder / "specs" / f"{name}.yaml" for name in texts}
    if there := [p for p in paths.values() if p.exists() and not force]:
        raise OpdbError(f"{there[0]}: is there already; choose another folder, or overwrite it with --force")
    own = {n: spec.load(OpDef, parse_document(t, str(paths[n]))) for n, t in texts.items()}
    whole = replace(catalog, own={**catalog.own, **own})
    left: dict[str, str] = {}
    packages = []
    for name in dict.fromkeys(op.domain for op in found):
        fit = [op for op in found if op.domain == name and not _why_left(whole, op, left)]
        if fit:
            packages.append(_package(whole, name, fit, folder, api, kernels, force))
    for path, text in zip(paths.values(), texts.values(), strict=True):
        write_atomically(path, text)
    return Skeleton(paths, tuple(packages), left, {n: d.words for n, d in made.items()})


def _drafted(fresh: Sequence[Foreign], model: Path, catalog: Catalog) -> list[XmlDraft]:
    by_domain: dict[str, list[Foreign]] = {}
    for op in fresh:
        by_domain.setdefault(op.domain, []).append(op)
    return [
        d
        for ops in by_domain.values()
        for d in drafts(onnx_nodes.collection(ops), model.name, catalog.backends)
    ]


def _with_kernel(draft: XmlDraft, op: Foreign, kernels: Sequence[Path]) -> str:
    """The draft, with its kernel if a given file defines it."""
    function = f"opdb_{snake(draft.op)}"
    defined = re.compile(rf"^opdb_status {function}\(", re.MULTILINE)
    if not any(defined.search(_text(path)) for path in kernels):
        return draft.text
    definition = spec.load(OpDef, parse_document(draft.text, draft.op))
    dtypes = (op.inputs[0].dtypes if op.inputs else []) or ["f32"]
    return spec.dump(definition.model_copy(update={"kernel": KernelDef(function=function, dtypes=dtypes)}))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OpdbError(
            f"{path}: cannot read this kernel: {getattr(error, 'strerror', None) or error}"
        ) from None


def _why_left(catalog: Catalog, op: Foreign, left: dict[str, str]) -> str:
    """The reason why an op is in no package; "" if it is in one.  Raises OpdbError if its nodes have attributes unknown to the spec."""
    try:
        compiled = catalog.compiled(op.name)
    except CompileError as error:
        left[op.name] = str(error)
        return left[op.name]
    if why := aic.unfit(compiled):
        left[op.name] = why
        return why
    known = [p.name for p in compiled.params]
    if other := sorted(op.attributes.keys() - set(known)):
        raise OpdbError(
            f"{op.first}: the spec {op.name} has no parameter {', '.join(other)}; it has {', '.join(known) or 'none'}: rename the "
            "op in the model, or correct the spec"
        )
    return ""


def _package(
    catalog: Catalog,
    domain: str,
    ops: Sequence[Foreign],
    folder: Path,
    api: str,
    kernels: Sequence[Path],
    force: bool,
) -> aic_package.AicFolder:
    without: set[str] = set()
    counts: dict[str, dict[str, int]] = {"inputs": {}, "outputs": {}}
    for op in ops:
        compiled = catalog.compiled(op.name)
        without |= {
            f"{op.name}.{p.name}" for p in compiled.params if p.name not in op.attributes and not p.required
        }
        without |= {f"{op.name}.{s.name}" for s in compiled.inputs[len(op.inputs) :] if s.optional}
        for side in counts:
            if getattr(compiled, side)[-1:] and getattr(compiled, side)[-1].variadic:
                counts[side][op.name] = len(getattr(op, side))
        _check_count(op, compiled)
    name = re.sub(r"\W", "_", domain, flags=re.ASCII)
    name = name if re.match(r"[A-Za-z]", name) else f"P{name}"
    choice = aic.Choice(
        api, name, domain, counts=aic.Counts(counts["inputs"], counts["outputs"], frozenset(without))
    )
    names = [op.name for op in ops]
    return aic_package.write(catalog, names, choice, folder / name, kernels=kernels, force=force)


def _check_count(op: Foreign, compiled: CompiledOp) -> None:
    for what, given, slots in (
        ("input", op.inputs, compiled.inputs),
        ("output", op.outputs, compiled.outputs),
    ):
        variadic = any(s.variadic for s in slots)
        least = sum(1 for s in slots if not s.optional and not s.variadic)
        if len(given) < least or (len(given) > len(slots) and not variadic):
            raise OpdbError(
                f"{op.first}: it has {counted(len(given), what)}, the spec {op.name} {len(slots)}"
            )


def summary(made: Skeleton) -> dict[str, Any]:
    """The result as a dictionary for JSON."""
    return {
        "drafts": [
            {"op": n, "file": str(p), "not_expressed": list(made.words[n])} for n, p in made.drafts.items()
        ],
        "packages": [
            {"package": p.name, "ops": list(p.ops), "folder": str(p.folder), "config": str(p.config)}
            for p in made.packages
        ],
        "left": dict(made.left),
    }
