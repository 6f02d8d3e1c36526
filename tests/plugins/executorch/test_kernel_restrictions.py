"""ExecuTorch's requirements for portable kernels (its kernels/README): no C++ standard library, no allocation, no state, no
output except through ET_LOG, no exceptions.  They hold for the glue between its kernels and the C kernels, which tests/runtime/native
checks.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from opdb.core.c_compiler import make
from opdb.plugins.executorch.codegen import kernel_library
from opdb.plugins.executorch.codegen.glue import NoForm
from opdb.plugins.executorch.portable_kernels import kernels
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.executorch, pytest.mark.slow]

RUNTIME = Path(str(kernels.__file__)).parents[1] / "c"
#: The C library's memory and mathematics.
C_HEADERS = {"cmath", "cstring"}
#: The types that ExecuTorch gives arguments and results, and mathematics.
STD = {"optional", "string_view", "tuple", "floor", "isfinite", "pow", "sqrt"}
FORBIDDEN = re.compile(
    r"\b(new|(?<!= )delete|malloc|calloc|realloc|free|throw|try|catch|typeid|dynamic_cast|printf|fprintf|sprintf|snprintf|"
    r"puts|putchar|fopen|fwrite|assert|abort|thread_local|mutable)\b"
)
#: Static data that is no constant.
STATE = re.compile(r"^\s*static\s+(?!const\b|constexpr\b|inline\b)[^(;=]*[;=]", re.MULTILINE)

#: Registration is not a kernel: it runs once, when the library is loaded, and holds data that the runtime keeps pointers to
#: (the keys), which kernels were there before, and how often each is called, in atomics.
REGISTRATION = ("registration.h", "registration.cpp")
REGISTRATION_HEADERS = {"atomic", "dlfcn.h"}
REGISTRATION_STD = {"atomic", "memory_order_relaxed"}


def plain(source: str) -> str:
    """The source without comments and the contents of strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", source, flags=re.DOTALL)


def faults(source: str, headers: set[str] = C_HEADERS, std: set[str] = STD) -> set[str]:
    """The forbidden constructs in a source of the glue."""
    included = set(re.findall(r"#\s*include\s+<([^>]+)>", source))
    found = {f"<{h}>" for h in included - headers if not h.startswith("executorch/runtime/")}
    code = re.sub(r"^\s*#\s*include[^\n]*", "", plain(source), flags=re.MULTILINE)
    found |= {f"std::{name}" for name in re.findall(r"\bstd::(\w+)", code) if name not in std}
    found |= set(FORBIDDEN.findall(code))
    return found | {" ".join(s.split()) for s in STATE.findall(code)}


@pytest.fixture(scope="module")
def known(catalog: Catalog) -> Kernels:
    return Kernels(catalog)


@pytest.mark.parametrize("name", kernel_library.RUNTIME)
def test_handwritten_glue_meets_the_restrictions(name: str) -> None:
    own = name in REGISTRATION
    headers = C_HEADERS | (REGISTRATION_HEADERS if own else set())
    assert not faults((RUNTIME / name).read_text(), headers, STD | (REGISTRATION_STD if own else set()))


def test_generated_kernels_meet_the_restrictions(known: Kernels) -> None:
    found, variants = {}, []
    for variant in known.every():
        try:
            forms = known.forms(variant)
        except NoForm:
            continue
        variants.append(variant)
        if wrong := faults(kernel_library.kernel(variant, forms)):
            found[variant.name] = wrong
    assert not found and len(variants) > 200
    assert not faults(kernel_library.native_functions(variants), {"tuple"})


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("#include <vector>\n", "<vector>"),
        ("#include <cstdio>\n", "<cstdio>"),
        ("void f() { std::vector<int> v; }", "std::vector"),
        ("void f(int n) { int *p = new int[n]; }", "new"),
        ('void f() { throw "no"; }', "throw"),
        ('void f() { printf("%d", 1); }', "printf"),
        ("void f() {\n    static int calls;\n}", "static int calls;"),
        ("static int64_t calls = 0;\n", "static int64_t calls ="),
        ("thread_local int calls;\n", "thread_local"),
    ],
)
def test_the_lint_finds_each_forbidden_construct(source: str, fault: str) -> None:
    assert faults(source) == {fault}
    assert not faults('/* new */ static const int N = 1; const char *s = "throw"; // printf\n')


# -- compiled code

#: Mathematics and memory of the C library, and the runtime's log, end, and tensors.
MAY_CALL = re.compile(
    r"mem(cpy|set|move|cmp)|floor|pow|sqrt|opdb_\w+|opdb::.*"
    r"|executorch::runtime::(runtime_abort|internal::(vlogf|get_log_timestamp|resize_tensor_impl))\(.*"
)
#: Registration queries the runtime's kernels, compares names, and finds the library that contains a function.
REGISTRATION_MAY_CALL = re.compile(
    r"strcmp|dladdr|executorch::runtime::(register_kernels|get_registered_kernels)\(.*"
)
#: snprintf writes a value into the text of a broken rule, in memory that is there: no stream.
LIBRARY_MAY_CALL = re.compile(
    r"(mem(cpy|set|move|cmp)|str(cmp|len|ncmp)|snprintf|dladdr|__cxa_finalize|__gmon_start__|_ITM_\w+"
    r"|(exp|sin|cos|sincos|sqrt|fmod|floor|ceil|rint|ldexp|copysign|pow|log|tanh|erf|atan|asin)f?)(@.*)?"
    r"|executorch::runtime::(runtime_abort|register_kernels|get_registered_kernels"
    r"|internal::(vlogf|get_log_timestamp|resize_tensor_impl))\(.*"
)
STATE_SECTIONS = re.compile(
    r"^\.(?:data(?!\.rel\.ro)|bss|tdata|tbss|init_array|ctors)\S*\s+([1-9]\d*)", re.MULTILINE
)


def output(*command: str | Path) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout


def undefined(file: Path, *options: str) -> set[str]:
    lines = output("nm", "--demangle", "--undefined-only", *options, file).splitlines()
    return {line.split(maxsplit=1)[1] for line in lines if line.strip()}


@pytest.fixture(scope="module")
def built(known: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scalars, strings, lists of numbers and of tensors, constants in temporary memory, two results."""
    words = ["aten::add.Scalar_out", "aten::gelu.out", "aten::sum.IntList_out", "Concat", "TopK"]
    made = kernels.write(known, kernels.select(known, words), tmp_path_factory.mktemp("lint") / "library")
    make(made.folder, "the kernel library", f"PYTHON={sys.executable}")
    return made.folder


def test_compiled_glue_does_not_allocate_print_or_throw(built: Path) -> None:
    objects = sorted((built / "build/src/executorch").glob("*.o"))
    assert len(objects) == 7
    for file in objects:
        called = undefined(file)
        if file.name == "registration.o":
            called = {n for n in called if not REGISTRATION_MAY_CALL.fullmatch(n)}
        assert not {n for n in called if not MAY_CALL.fullmatch(n)}, file.name


def test_compiled_glue_has_no_state(built: Path) -> None:
    for file in sorted((built / "build/src/executorch").glob("*.o")):
        assert not STATE_SECTIONS.findall(output("size", "-A", "-d", file)), file.name
    # ExecuTorch's own registration keeps state, which shows that the check detects it.
    assert STATE_SECTIONS.findall(
        output("size", "-A", "-d", built / "build/generated/RegisterCodegenUnboxedKernelsEverything.o")
    )


def test_the_library_does_not_allocate_print_or_throw(built: Path) -> None:
    called = undefined(built / "libopdb_et_kernels.so", "--dynamic")
    assert not {n for n in called if not LIBRARY_MAY_CALL.fullmatch(n)}
