"""Custom-op libraries for ONNX Runtime: turns ops of specs into C without any header of ONNX Runtime.

Each op is registered once for each data type of its kernel that ONNX has; ONNX Runtime chooses by the inputs' types.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opdb.codegen import c_sources
from opdb.codegen.artifact import Artifact, sorted_ops, spec_path
from opdb.codegen.c_sources import CFLAGS
from opdb.codegen.environment import render
from opdb.codegen.package_folder import INCLUDES, LDFLAGS
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.judge.samples import kernel_types
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, Slot

#: The data types that ONNX also has; quantized ones are a pair of nodes there.
TYPES = ("f16", "f32", "f64", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool8")
GENERATED_HEADERS = ("backends.h", "dtypes.h", "kernels.h", "ops.h")
RUNTIME_HEADERS = ("binding", "checked", "lists", "ort", "report", "runtime")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c", "packages/op_view.c", "packages/op_view.h")
OWN = ("ort_package.c", "ort_values.c", "ort_values.h")


def library(name: str) -> str:
    """The path of the library, below its folder."""
    return f"libs/libort_{name}.so"


def folder(
    catalog: Catalog, ops: Sequence[str], name: str, domain: str, kernels: Sequence[Path] = ()
) -> dict[str, str]:
    """All files of a library with ``ops`` in ``domain``: path -> text.  Raises OpdbError for an op that does not fit."""
    names = [n for n in sorted_ops(catalog) if n in set(ops)]
    errata = {e.erratum: e for n in names for e in catalog.errata_of(n)}
    own = {n: catalog.own[n] for n in names}
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired, errata)
    compiled = [part.compiled(n) for n in names]
    if faults := [f"{op.name}: {why}" for op in compiled if (why := unfit(op))]:
        raise OpdbError("no custom op of ONNX Runtime: " + "; ".join(faults))
    made = {f"src/{name}.c": table(compiled, name, domain)}
    made |= c_sources.generated(catalog, part, names, GENERATED_HEADERS)
    texts = c_sources.formatted(made) | c_sources.runtime(RUNTIME_HEADERS, RUNTIME_SOURCES)
    texts |= c_sources.of_plugin("packages", "src/packages", OWN)
    texts |= c_sources.kernels(part, names, c_sources.of_elements(catalog, part), kernels)
    view = {
        "sources": c_sources.sources(texts),
        "headers": sorted(p for p in texts if p.endswith(".h")),
    }
    texts["Makefile"] = render(
        "op_package.mk.j2",
        title='Custom ops for ONNX Runtime, written by "opdb package ort".',
        library=library(name),
        cflags=CFLAGS,
        ldflags=LDFLAGS,
        includes=INCLUDES,
        linked=None,
        **view,
    )
    return dict(sorted(texts.items()))


def unfit(op: CompiledOp) -> str:
    """The reason why an op cannot be a custom op of ONNX Runtime; "" if it can."""
    if op.definition.kernel is not None and not rows(op):
        return "its kernel takes quantized types only, which ONNX writes as pairs of nodes"
    return unnamed(op)


def unnamed(op: CompiledOp) -> str:
    """The reason why a caller that only knows input shapes and parameters cannot run an op; "" if it can."""
    if op.definition.kernel is None:
        return "it has no kernel"
    if bad := [p.name for p in op.params if p.definition.base == "str"]:
        return f"parameters that are texts: {', '.join(bad)}"
    if unknown := [s.name for s in op.outputs if s.definition.shape in (None, "any")]:
        return f"the shape of {', '.join(unknown)} does not follow from its inputs and parameters"
    for slots in (op.inputs, op.outputs):
        if any(s.variadic for s in slots[:-1]):
            return "a variadic slot that is not the last one"
    return ""


def rows(op: CompiledOp) -> list[dict[str, str]]:
    """The data type of each slot, for each type of the kernel that ONNX has."""
    kernel = op.definition.kernel
    found: list[dict[str, str]] = []
    for dtype in kernel.dtypes if kernel else ():
        types = kernel_types(op, dtype)
        types = {s.name: types[s.name] for s in (*op.inputs, *op.outputs)}
        if set(types.values()) <= set(TYPES) and types not in found:
            found.append(types)
    return found


def table(ops: Sequence[CompiledOp], name: str, domain: str) -> Artifact:
    view = [
        {
            "name": op.name,
            "inputs": [_slot(s) for s in op.inputs],
            "outputs": [_slot(s) for s in op.outputs],
            "params": [
                (
                    p.name,
                    BY_SHORT[p.definition.base].enumerator,
                    len(p.definition.dims),
                    p.definition.dims[-1] or 1 if len(p.definition.dims) == 2 else 1,
                )
                for p in op.params
            ],
            "rows": [
                (
                    [BY_SHORT[row[s.name]].enumerator for s in op.inputs],
                    [BY_SHORT[row[s.name]].enumerator for s in op.outputs],
                )
                for row in rows(op)
            ],
        }
        for op in ops
    ]
    text = render("ort_package.c.j2", name=name, domain=domain, ops=view)
    return Artifact(f"generated/c/ort/{name}.c", text, tuple(spec_path(op.name) for op in ops), "c")


def _slot(slot: Slot) -> tuple[str, int]:
    if slot.variadic:
        return "ORT_VARIADIC", slot.definition.min
    return "ORT_OPTIONAL" if slot.optional else "ORT_REQUIRED", 1
