"""The folder of a kernel library for ExecuTorch: YAML for its generator, the glue, the C sources, a Makefile.

Building it needs a C and a C++ compiler and an installed ``executorch`` (its headers and its generator), not opdb.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opdb.codegen import c_sources
from opdb.codegen.artifact import Artifact, spec_path
from opdb.codegen.environment import render
from opdb.plugins.executorch.codegen import gtests, yaml_files
from opdb.plugins.executorch.codegen.glue import KernelForm, OutVariant, declaration
from opdb.plugins.executorch.codegen.gtests import KernelTests
from opdb.plugins.executorch.codegen.yaml_files import Entry
from opdb.plugins.packages.codegen import c_library
from opdb.spec.catalog import Catalog

NAME = "opdb_et_kernels"
RUNTIME = ("op_call.cpp", "op_call.h", "registration.cpp", "registration.h")
TEMPLATES = (
    "templates/Functions.h", "templates/NativeFunctions.h", "templates/RegisterCodegenUnboxedKernels.cpp",
    "templates/RegisterDispatchKeyCustomOps.cpp", "templates/RegisterKernels.h", "templates/RegisterSchema.cpp",
)  # fmt: skip
TESTS = ("test/FunctionHeaderWrapper.h", "test/operator_test.cpp", "test/operator_test.h")
CXXFLAGS = (
    "-std=c++17",
    "-O2",
    "-Wall",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
)
# gtest needs run-time type information; the lists of values need no optimizer.
TEST_CXXFLAGS = ("-std=c++17", "-O0", "-Wall", "-DC10_USING_CUSTOM_GENERATED_MACROS")


def folder(
    catalog: Catalog,
    entries: Sequence[Entry],
    forms: Mapping[str, Sequence[KernelForm]],
    needed: Mapping[str, frozenset[str]],
    tests: Mapping[str, KernelTests],
) -> dict[str, str]:
    """All files: path -> text.  ``forms``, ``tests``: by the name of each entry's variant; ``needed``: as in
    c_library.sources.

    Raises OpdbError for an op without a kernel.
    """
    texts = c_library.sources(catalog, needed)
    texts |= c_sources.formatted(_glue(entries, forms) | _tests(entries, forms, tests))
    texts |= c_sources.of_plugin("executorch", "src/executorch", RUNTIME)
    others = c_sources.of_plugin("executorch", ".", (*TEMPLATES, *TESTS))
    texts |= {path.removeprefix("./"): text for path, text in others.items()}
    aten = [e for e in entries if e.variant.name.startswith("aten::")]
    texts["functions.yaml"] = yaml_files.functions(aten)
    texts["custom_ops.yaml"] = yaml_files.custom_ops(e for e in entries if e not in aten)
    texts["selected_operators.yaml"] = "include_all_operators: true\n"
    own = {e.variant: tests[e.variant.name] for e in entries}
    texts["test/supported_features.yaml"] = gtests.supported_features(own)
    texts["test/supported_features_def.yaml"] = gtests.supported_features_def(own)
    view = {
        "name": NAME, "cflags": [f for f in c_sources.CFLAGS if f != "-Werror"], "cxxflags": CXXFLAGS,
        "test_cxxflags": TEST_CXXFLAGS,
        "kernels": len(entries), "c_sources": c_sources.sources(texts),
        "cpp_sources": sorted(p for p in texts if p.startswith("src/") and p.endswith(".cpp")),
        "headers": sorted(p for p in texts if p.endswith(".h") and not p.startswith("templates/")),
        "templates": TEMPLATES, "tests": sorted(p for p in texts if p.startswith("test/") and p.endswith(".cpp")),
    }  # fmt: skip
    texts["Makefile"] = render("et_kernels.mk.j2", **view)
    texts["CMakeLists.txt"] = render("et_kernels.cmake.j2", **view)
    return dict(sorted(texts.items()))


def _glue(entries: Sequence[Entry], forms: Mapping[str, Sequence[KernelForm]]) -> dict[str, Artifact]:
    """The source op_<name>.cpp of each kernel, and the header that declares them all."""
    made = {}
    every = dict.fromkeys(spec_path(f.op) for e in entries for f in forms[e.variant.name])
    for variant in (e.variant for e in entries):
        own = forms[variant.name]
        specs = tuple(dict.fromkeys(spec_path(f.op) for f in own))
        path = f"src/executorch/op_{variant.function}.cpp"
        made[path] = Artifact(f"generated/{path}", kernel(variant, own), specs, "cpp")
    path = "src/executorch/NativeFunctions.h"
    made[path] = Artifact(
        f"generated/{path}", native_functions(e.variant for e in entries), tuple(every), "cpp"
    )
    return made


def _tests(
    entries: Sequence[Entry], forms: Mapping[str, Sequence[KernelForm]], tests: Mapping[str, KernelTests]
) -> dict[str, Artifact]:
    """The C++ of test/: op_<name>_test.cpp of each kernel, and the supported features."""
    specs = {e.variant: tuple(dict.fromkeys(spec_path(f.op) for f in forms[e.variant.name])) for e in entries}
    own = {variant: tests[variant.name] for variant in specs}
    made = {}
    for variant, t in own.items():
        path = f"test/op_{variant.function}_test.cpp"
        made[path] = Artifact(f"generated/{path}", gtests.op_test(variant, t), specs[variant], "cpp")
    every = tuple(dict.fromkeys(s for paths in specs.values() for s in paths))
    for path, text in gtests.features(own).items():
        made[path] = Artifact(f"generated/{path}", text, every, "cpp")
    return made


def kernel(variant: OutVariant, forms: Sequence[KernelForm]) -> str:
    """The text of op_<name>.cpp."""
    read = set[str]().union(*(f.reads for f in forms))
    declared = [line for n, t in variant.arguments if n in read for line in declaration(n, t)]
    if "result" in read:
        declared.append(
            f"const opdb::View result_shown(call, {variant.outs[0]!r}, et_{variant.outs[0]});".replace(
                "'", '"'
            )
        )
        declared.append("const opdb_tensor *const result = result_shown;")
    outs = [f"et_{n}" for n in variant.outs]
    result = outs[0] if len(outs) == 1 else f"{variant.returns.strip()}({', '.join(outs)})"
    shown = [
        {"op": f.op, "guard": f.guard, "why": f.why, "lists": f.lists, "before": f.before, "steps": f.steps,
         "partial": f.partial, "outs": f.outs, "outs_text": ", ".join(f"&et_{n}" for n in f.outs)}
        for f in forms
    ]  # fmt: skip
    return render(
        "et_kernel.cpp.j2", variant=variant, parameters=variant.parameters(), declarations=declared, forms=shown,
        ops=list(dict.fromkeys(f.op for f in forms)), result=result,
        unread=[n for n, _ in variant.arguments if n not in read],
        refusable=bool(forms[-1].guard or forms[-1].partial),
    )  # fmt: skip


def native_functions(variants: Iterable[OutVariant]) -> str:
    """The text of NativeFunctions.h: the signatures that the generated code calls."""
    declared = [f"{v.returns}{v.function}({', '.join(v.parameters())});" for v in variants]
    return render("et_native_functions.h.j2", declarations=declared)
