"""Constructs forbidden in AIC kernels (the SDK's page, "Limitations"): found in source text, and in compiler output."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.cloud_ai.check import kernel_lint, source
from opdb.plugins.cloud_ai.check.check import STAND_INS
from opdb.plugins.cloud_ai.check.findings import Finding, Findings
from opdb.plugins.cloud_ai.check.host import HOST
from opdb.plugins.cloud_ai.check.toolchain import Toolchain

KERNEL = """\
#include "CustomOpAICInterface.h"
#include "CustomOpLog.h"
HEAD
extern "C" void Kernel(const CustomOpContext *ctx, const int32_t threadId) {
    float *y = (float *)ctx->outputs[0].data;
    BODY
    y[threadId] = 1;
}
"""
TEN = "%d " * 10

#: Code at the top, code in the kernel -> ids with their lines.
FAULTS = {
    "malloc": ("#include <stdlib.h>", "y = (float *)malloc(8); free(y);", {("allocation", 6)}),
    "new": ("", "y = new float[8];", {("allocation", 6)}),
    "new in a macro": ("#define MAKE(T) ne##w T[8]", "y = MAKE(float); ctx->outputs[0].data = y;", {("allocation", 0)}),
    "printf": ("#include <stdio.h>", 'printf("no");', {("stdio", 3), ("stdio", 6)}),
    "a file": ("#include <cstdio>", 'FILE *f = fopen("a", "r"); fclose(f);', {("stdio", 3), ("stdio", 6)}),
    "a thread": ("#include <pthread.h>", "pthread_self();", {("threads", 3), ("threads", 6)}),
    "a vector": ("#include <vector>", "std::vector<float> v(8); y[1] = v[2];",
                 {("container", 3), ("container", 6), ("allocation", 0)}),
    "a length that varies": ("", "float v[threadId + 1]; v[threadId] = 1; y[1] = v[0];", {("vla", 6)}),
    "a big frame": ("void use(float *);", "float v[4096]; use(v);", {("frame", 4)}),
    "a constructor": ("struct T { int i; T(); }; T::T() : i(3) {} T made;", "y[1] = made.i;", {("constructor", 0)}),
    "eleven specifiers": ("", f'AIC_PRINT_INFO(ctx, "{TEN}%d", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);', {("format", 6)}),
    "a 64-bit number": ("", 'AIC_PRINT_INFO(ctx, "%lld", 1LL);', {("format-64", 6)}),
    "a way without return": ("int f(int i) { if (i) return 1; }", "y[1] = f(threadId);", {("no-return", 3)}),
    "C++'s symbol": ("#define Kernel KernelOfMine", "", {("kernel-symbol", 4)}),
    "an error": ("", "y[1] = nothing;", {("build", 6)}),
    "HVX": ("#include <hexagon_types.h>", "HVX_Vector v; y[1] = 1;", {("not-run", 6)}),
}  # fmt: skip


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    return Toolchain(
        tmp_path_factory.mktemp("made"), [STAND_INS / "v5_0_0", STAND_INS / "all", HOST / "shims"]
    )


def linted(head: str, body: str, tools: Toolchain, tmp_path: Path) -> list[Finding]:
    path = tmp_path / "kernel.cpp"
    path.write_text(KERNEL.replace("HEAD", head).replace("BODY", body))
    findings = Findings()
    kernel_lint.lint(source.read(path), "Kernel", (), "Op", tools, findings)
    return findings.sorted()


@pytest.mark.parametrize("name", FAULTS)
def test_each_forbidden_construct_is_found(name: str, tools: Toolchain, tmp_path: Path) -> None:
    head, body, wanted = FAULTS[name]
    assert {(f.id, f.line) for f in linted(head, body, tools, tmp_path)} == wanted


#: Constructs that look forbidden but are allowed.
RIGHT = {
    "words in comments and texts": ("", '/* malloc(8) */ AIC_PRINT_INFO(ctx, "new printf(%d)", 1); // new float'),
    "ten specifiers": ("", f'AIC_PRINT_WARN(ctx, "{TEN}%%", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);'),
    "a 64-bit number as two": ("", 'AIC_PRINT_INFO(ctx, "0x" AIC_LOG64X_FMT, AIC_LOG64_DATA(1LL));'),
    "names that have such names in them": ("static int renew(int free_) { return free_; }", "y[1] = renew(2);"),
    "an array of constant length": ("static const float table[3] = {1, 2, 3};", "float v[8] = {0}; y[1] = v[threadId] + table[1];"),
    "a deleted function": ("struct T { T(const T &) = delete; T() = default; int i = 1; };", "y[1] = T().i;"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_allowed_constructs_are_not_reported(name: str, tools: Toolchain, tmp_path: Path) -> None:
    assert linted(*RIGHT[name], tools, tmp_path) == []


def test_headers_next_to_a_kernel_are_checked(tools: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "more.h").write_text("#include <stdlib.h>\nstatic void *get(void) { return malloc(4); }\n")
    found = linted('#include "more.h"', "(void)get();", tools, tmp_path)
    assert [(Path(f.file).name, f.line, f.id) for f in found if f.id == "allocation"] == [
        ("more.h", 2, "allocation")
    ]
