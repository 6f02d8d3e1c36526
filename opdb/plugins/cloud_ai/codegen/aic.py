"""Custom-op packages for Qualcomm Cloud AI, generated from specs: configuration, functions libraries, kernels for host and card.

The three generations of the interface differ in the arguments of a library's functions; everything below is
the same C (opdb/plugins/cloud_ai/c).  The kernel for the card is one file, since its compiler takes only one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from opdb.codegen import c_sources, packages, rules_c
from opdb.codegen.artifact import Artifact, sorted_ops, spec_path, with_header
from opdb.codegen.environment import render
from opdb.codegen.rules import snake
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.judge.samples import kernel_types
from opdb.plugins.cloud_ai.codegen.one_file import joined
from opdb.plugins.packages.codegen import ort
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, Param, Slot
from opdb.spec.lang.nodes import is_enum
from opdb.spec.tiling import Tiling

#: Generation -> the file of its functions; VERSIONS: the default version tag of its packages.
GENERATIONS = {"1.17": "functions_1.17.c", "5.0.0": "functions_5.0.0.cpp", "1.21": "functions_1.21.cpp"}
VERSIONS = {"1.17": "1.17.0", "5.0.0": "5.0.0", "1.21": "1.21.0"}
#: The types of tensors in Cloud AI (aic_node.h); unsigned indices have the bits of signed ones.
TYPES = {
    "f32": "DTFloat32", "f16": "DTFloat16", "bf16": "DTBFloat16", "sq8": "DTQInt8", "i8": "DTQInt8", "uq8": "DTQUInt8",
    "sq16": "DTQInt16", "i16": "DTQInt16", "sq32": "DTQInt32", "i32": "DTIInt32", "u32": "DTIInt32", "i64": "DTIInt64",
    "bool8": "DTBool",
}  # fmt: skip
MAX_DIMS = 5  # of a tensor whose rank the spec leaves open, as in Qualcomm's generator
LIST = 64  # values of a list parameter whose length the spec leaves open
SCRATCH = 2**20  # default bytes of scratch of an op that needs any
PAGE = 2048  # the alignment of buffers on the card

ROOM = "src/packages/cloud_ai/"
GENERATED_HEADERS = ("backends.h", "dtypes.h", "kernels.h", "ops.h")
RUNTIME_HEADERS = ("binding", "checked", "lists", "report", "runtime", "tiling")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c", "packages/tiling.c")
OWN = ("aic.h", "aic_kernel.h", "aic_node.h", "aic_op.h", "functions.c", "functions.h")
STAND_IN = "include/cloud_ai/"
FOLDERS = ("include/", "src/kernels/", ROOM)
INCLUDES = ("-Iinclude", "-Isrc/kernels", f"-I{ROOM.rstrip('/')}")
LDFLAGS = ("-shared", "-s", "-Wl,--build-id=none", "-Wl,--gc-sections", "-Wl,-z,defs", "-lm")
CFLAGS = (*c_sources.CFLAGS, "-ffunction-sections", "-fdata-sections")
CXXFLAGS = ("-std=c++11", *(f for f in CFLAGS if f != "-std=c11"))
#: Limits of the card: no variable-length arrays, and its stack.
CARD_STACK = 12288
CARD_FLAGS = ("-Wvla", f"-Wframe-larger-than={CARD_STACK}", "-DOPDB_SMALL_STACK")
COMPILER_ARGS = ("-std=c11", "-O3", "-ffp-contract=off", "-DOPDB_SMALL_STACK")


@dataclass(frozen=True)
class Counts:
    """The numbers of tensors, by op, that the spec leaves open; and the omitted inputs and parameters, as OP.NAME."""

    inputs: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, int] = field(default_factory=dict)
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """A user's choices for a package."""

    api: str
    name: str = "opdb"
    domain: str = "com.opdb"
    version: str | None = None
    scratch: int = SCRATCH
    counts: Counts = Counts()


def interpreter_library(name: str) -> str:
    """The path of the library of kernels for the host, below the folder."""
    return f"libs/lib{name}_interpreter.so"


def functions_library(op: str) -> str:
    return f"libs/lib{snake(op)}_functions.so"


def card_library(op: str) -> str:
    """The path of the host's build of the kernel for the card, which only tests use."""
    return f"libs/card/lib{snake(op)}_aic.so"


def source(op: str, what: str) -> str:
    """The path of a file of an op; e.g. Softmax/src/softmax_aic.c."""
    return f"{op}/src/{snake(op)}_{what}"


def folder(
    catalog: Catalog, ops: Sequence[str], choice: Choice, kernels: Sequence[Path] = ()
) -> dict[str, str]:
    """All files of a package with ``ops``: path -> text.  Raises OpdbError for an op that does not fit."""
    if choice.api not in GENERATIONS:
        raise OpdbError(
            f"{choice.api!r} is not a version of Cloud AI's interface; opdb knows {', '.join(GENERATIONS)}"
        )
    names = [n for n in sorted_ops(catalog) if n in set(ops)]
    errata = {e.erratum: e for n in names for e in catalog.errata_of(n)}
    own = {n: catalog.own[n] for n in names}
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired, errata)
    compiled = [part.compiled(n) for n in names]
    if faults := [f"{op.name}: {why}" for op in compiled if (why := unfit(op))]:
        raise OpdbError("no custom op of Cloud AI: " + "; ".join(faults))
    _check_names(choice.counts, compiled)
    views = [view(op, choice) for op in compiled]
    made = c_sources.generated(catalog, part, names, GENERATED_HEADERS)
    for op, of in zip(compiled, views, strict=True):
        made |= {
            source(op.name, what): _rendered(what, op, of)
            for what in ("tables.h", "kernel.h", "functions.c", "interpreter.c")
        }
    texts = c_sources.formatted(made) | c_sources.runtime(RUNTIME_HEADERS, RUNTIME_SOURCES)
    texts |= _own(OWN) | _of_generation(choice.api)
    computed = c_sources.of_elements(catalog, part)
    own_kernels = {n: c_sources.kernels(part, [n], computed, kernels) for n in names}
    for found in own_kernels.values():
        texts |= found
    texts |= {source(op.name, "aic.c"): _for_card(op, texts, own_kernels[op.name]) for op in compiled}
    texts |= _build_files(choice, compiled, views, texts)
    return dict(sorted(texts.items()))


def _check_names(counts: Counts, ops: Sequence[CompiledOp]) -> None:
    """Raises OpdbError if counts refer to ops, inputs, or parameters that the package does not have."""
    if other := sorted({*counts.inputs, *counts.outputs} - {op.name for op in ops}):
        raise OpdbError(f"{', '.join(other)}: not in the package, so that tensors cannot be counted")
    known = {
        f"{op.name}.{name}"
        for op in ops
        for name in (*(s.name for s in op.inputs), *(p.name for p in op.params))
    }
    if other := sorted(counts.without - known):
        raise OpdbError(
            f"{', '.join(other)}: no input or parameter of the package, so that it cannot be left out"
        )


def unfit(op: CompiledOp) -> str:
    """The reason why an op cannot be a custom op of Cloud AI; "" if it can."""
    if why := ort.unnamed(op):
        return why
    if not rows(op):
        return f"its kernel takes no types that Cloud AI has for each tensor ({', '.join(TYPES)})"
    return ""


def rows(op: CompiledOp) -> list[dict[str, str]]:
    """The data type of each slot, for each type of the kernel that Cloud AI has.

    If Cloud AI does not distinguish two types, e.g. i8 and sq8, the quantized one is used.
    """
    kernel = op.definition.kernel
    dtypes = sorted(kernel.dtypes if kernel else (), key=lambda d: not BY_SHORT[d].quantized)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for dtype in dtypes:
        types = kernel_types(op, dtype)
        row = {s.name: types[s.name] for s in (*op.inputs, *op.outputs)}
        if all(t in TYPES for t in row.values()):
            found.setdefault(tuple(TYPES[t] for t in row.values()), row)
    return list(found.values())


def tiling_of(op: CompiledOp) -> Tiling | None:
    """The output's tiling: the one in the spec, or any tiling for a kernel that computes element by element.

    An input with a broadcast dimension of 1 cannot be cut with the output; the functions see that in the shapes.
    """
    kernel = op.definition.kernel
    if kernel is None or kernel.tiling is not None or kernel.each is None or len(op.outputs) != 1:
        return kernel.tiling if kernel else None
    return Tiling.model_validate({"axes": ["any..."], "inputs": {s.name: ["same..."] for s in op.inputs}})


def view(op: CompiledOp, choice: Choice) -> dict[str, Any]:
    """The variables of an op's templates."""
    counts = choice.counts
    inputs = _tensors(op, op.inputs, counts.inputs.get(op.name), counts.without)
    outputs = _tensors(op, op.outputs, counts.outputs.get(op.name), frozenset())
    params = [p for p in op.params if f"{op.name}.{p.name}" not in counts.without]
    if required := [p.name for p in op.params if p not in params and p.required]:
        raise OpdbError(f"{op.name}: {', '.join(required)} cannot be left out: the spec has no default")
    kernel = rules_c.view(op)["kernel"]
    needs = kernel["in_floats"] or kernel["scratch"] is not None
    values = sum(_values(p) for p in params)
    tensors, tiling = len(inputs) + len(outputs), packages.tiling_tables(op, tiling_of(op))
    divided = tiling is not None and len(op.outputs) == 1
    return {
        "op": op.name, "package": choice.name, "summary": op.definition.summary or "a custom op",
        "kernel": kernel, "inputs": inputs, "outputs": outputs,
        "params": [_param(p) for p in params], "num_values": max(values, 1), "divided": divided, "tiling": tiling,
        "scratch": -(-choice.scratch // PAGE) * PAGE if needs else 0,
        "node": _node_bytes(tensors, len(params), max(values, 1), divided),
        "num_inputs": len(op.inputs), "num_outputs": len(op.outputs),
        "rows": [[BY_SHORT[row[s.name]].enumerator for s in (*op.inputs, *op.outputs)] for row in rows(op)],
        "header": f"{snake(op.name)}_tables.h", "shim": f"{snake(op.name)}_kernel.h",
    }  # fmt: skip


def _tensors(
    op: CompiledOp, slots: Sequence[Slot], count: int | None, without: frozenset[str]
) -> list[dict[str, Any]]:
    """The tensors that a configuration lists: name and maximum rank of each."""
    given = [s for s in slots if f"{op.name}.{s.name}" not in without]
    for s in slots:
        if s not in given and (not s.optional or any(other in given for other in slots[slots.index(s) :])):
            raise OpdbError(
                f"{op.name}: {s.name} cannot be left out: it is required, or one behind it is given"
            )
    variadic = bool(given) and given[-1].variadic
    least = len(given) - variadic + (max(given[-1].definition.min, 1) if variadic else 0)
    count = least if count is None else count
    if count < least or (count > least and not variadic):
        raise OpdbError(
            f"{op.name}: {counted(count, 'tensor')}: it has {least}{' or more' if variadic else ''}"
        )
    made = []
    for i in range(count):
        slot = given[min(i, len(given) - 1)]
        number = i - len(given) + 1
        made.append({"name": f"{slot.name}{number}" if slot.variadic else slot.name, "max_dims": _rank(slot)})
    return made


def _rank(slot: Slot) -> int:
    shape = slot.definition.shape
    if not isinstance(shape, list) or any("..." in str(d) for d in shape):
        return MAX_DIMS
    return len(shape)


def _param(p: Param) -> dict[str, Any]:
    dims = p.definition.dims
    base = p.definition.base
    kind = "float" if base in ("f32", "f64") else "bool" if base == "bool8" and not dims else "int"
    return {
        "name": p.name, "dtype": BY_SHORT[base].enumerator, "rank": len(dims), "width": (dims[1] or 1) if len(dims) == 2 else 1,
        "kind": kind, "size": prod(d or 0 for d in dims) if dims else None, "enum": dict(p.definition.enum) if is_enum(p.type) else {},
    }  # fmt: skip


def _values(p: Param) -> int:
    dims = p.definition.dims
    known = [d for d in dims if d]
    return prod(known) * (LIST if len(known) < len(dims) else 1) if dims else 1


def _node_bytes(tensors: int, params: int, values: int, divided: bool) -> int:
    """The bytes of the node that threads share (opdb_aic_shared), with 64-bit pointers, which need the most."""
    piece = 128 + tensors * 160
    size = 512 + tensors * 208 + (params + 1) * 96 + values * 16 + (4 if divided else 1) * piece
    return -(-size // PAGE) * PAGE


def _rendered(what: str, op: CompiledOp, of: Mapping[str, Any]) -> Artifact:
    text = render(f"aic_{what}.j2", **of)
    return Artifact(f"generated/c/aic/{what}", text, (spec_path(op.name),), "c")


def _own(names: Sequence[str]) -> dict[str, str]:
    return c_sources.of_plugin("cloud_ai", ROOM.rstrip("/"), names)


def _of_generation(api: str) -> dict[str, str]:
    """A generation's functions, its header of differences, and its stand-in headers."""
    found = _own([GENERATIONS[api]])
    root = c_sources.plugin_folder("cloud_ai") / "stand_in"
    header = root.parent / "api" / f"{api}.h"
    found[f"{ROOM}cloud_ai_api.h"] = header.read_text(encoding="utf-8")
    headers = sorted((*(root / "all").glob("*.h"), *(root / f"v{api.replace('.', '_')}").glob("*.h")))
    return found | {f"{STAND_IN}{h.name}": h.read_text(encoding="utf-8") for h in headers}


def _for_card(op: CompiledOp, texts: Mapping[str, str], kernels: Mapping[str, str]) -> str:
    """The kernel for the card, as a single file."""
    main = source(op.name, "aic.c")
    text = render(
        "aic_aic.c.j2",
        op=op.name,
        summary=op.definition.summary or "a custom op",
        header=f"{snake(op.name)}_tables.h",
        shim=f"{snake(op.name)}_kernel.h",
    )
    stand_in = frozenset(p.removeprefix(STAND_IN) for p in texts if p.startswith(STAND_IN))
    all_texts = {**texts, main: text}
    paths = [*(p for p in sorted(kernels) if p.endswith(".c")), "src/lists.c", "src/packages/tiling.c", main]
    body = joined(all_texts, paths, (*FOLDERS, f"{op.name}/src/"), stand_in, op.name)
    intro = render("aic_intro.c.j2", op=op.name, summary=op.definition.summary or "a custom op")
    return with_header(Artifact(f"generated/c/aic/{op.name}", f"{intro}{body}", (spec_path(op.name),), "c"))


def _build_files(
    choice: Choice, ops: Sequence[CompiledOp], views: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> dict[str, str]:
    names = [op.name for op in ops]
    shared = [
        p
        for p in c_sources.sources(texts)
        if p.startswith(("src/kernels/", "src/binding", "src/lists", "src/report", "src/packages/tiling"))
    ]
    common = {
        "api": choice.api, "package": choice.name, "domain": choice.domain, "version": choice.version or VERSIONS[choice.api],
        "shared": shared, "headers": sorted(p for p in texts if p.endswith(".h") and not p.startswith(STAND_IN)),
        "functions": [f"{ROOM}functions.c", f"{ROOM}{GENERATIONS[choice.api]}"],
        "interpreter": interpreter_library(choice.name), "cflags": CFLAGS, "cxxflags": CXXFLAGS, "ldflags": LDFLAGS, "includes": INCLUDES,
        "card_flags": CARD_FLAGS, "compiler_args": COMPILER_ARGS,
        "ops": [
            {
                "name": n, "functions": functions_library(n), "card": card_library(n), "rules": f"src/ops/{snake(n)}.c",
                "functions_source": source(n, "functions.c"), "interpreter_source": source(n, "interpreter.c"),
                "aic_source": source(n, "aic.c"), **v,
            }
            for n, v in zip(names, views, strict=True)
        ],
    }  # fmt: skip
    return {
        "Makefile": render("aic_package.mk.j2", **common),
        "CMakeLists.txt": render("aic_package.cmake.j2", **common),
        "custom_op_config.yaml": render("aic_config.yaml.j2", **common),
    }
