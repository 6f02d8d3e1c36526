"""`opdb build`: a C library for a model or a list of ops, used by a C program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import cmake
import pytest

from opdb.core.c_compiler import compiler_command

from .conftest import Run

pytestmark = pytest.mark.slow

MODEL = """
import torch

def net():
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Softmax(-1)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(2, 8),)
"""
#: Softmax of [2, 3], a type of it missing in the library, and an op missing in the library.
PROGRAM = """
#include <stdio.h>
#include <string.h>

#include "opdb/ops.h"

static opdb_report report;

static opdb_status softmax(enum opdb_dtype dtype, void *x, void *y) {
    const int64_t dims[] = {2, 3};
    const opdb_tensor in = {.rank = 2, .dims = dims, .dtype = dtype, .encoding = OPDB_ENCODING_NONE,
                            .symmetric = true, .axis = -1, .data = x};
    const opdb_tensor out = {.rank = 2, .dims = dims, .dtype = dtype, .encoding = OPDB_ENCODING_NONE,
                             .symmetric = true, .type = OPDB_TENSOR_APP_READ, .axis = -1, .data = y};
    const opdb_tensor *const inputs[] = {&in}, *const outputs[] = {&out};
    const opdb_op op = {.op = "Softmax", .num_inputs = 1, .inputs = inputs, .num_outputs = 1, .outputs = outputs};
    memset(&report, 0, sizeof report);
    return opdb_find("Softmax")->run(&op, &report);
}

int main(void) {
    float x[] = {0.5f, -1.0f, 2.0f, 3.0f, 3.0f, -3.0f}, y[6];
    uint16_t halves[6] = {0}, out[6];
    int status = softmax(OPDB_F32, x, y);
    printf("%d", status);
    for (int i = 0; i < 6; i++)
        printf(" %.9g", (double)y[i]);
    printf(" %d %d\\n", softmax(OPDB_F16, halves, out) == OPDB_UNSUPPORTED, opdb_find("Conv2d") == NULL);
    return 0;
}
"""


def run_program(folder: Path, library: Path) -> list[float]:
    program = folder / "program.c"
    program.write_text(PROGRAM)
    command = [*compiler_command(), "-std=c99", "-Wall", "-Werror", f"-I{library.parent / 'include'}",
               str(program), str(library), "-lm", "-o", str(folder / "program")]  # fmt: skip
    subprocess.run(command, check=True)
    done = subprocess.run([folder / "program"], check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def expected() -> list[float]:
    import torch

    rows = torch.tensor([[0.5, -1.0, 2.0], [3.0, 3.0, -3.0]]).softmax(-1)
    return [0, *rows.flatten().tolist(), 1, 1]


def test_a_c_program_runs_the_listed_ops(loaded: Run, tmp_path: Path) -> None:
    done = loaded("build", "Softmax:f32", "-o", str(tmp_path / "lib"), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["ops"] == {"Softmax": ["f32"]}
    assert not [f for f in made["files"] if f.endswith(".py")]
    ours = sum(made["bytes"].values())
    assert run_program(tmp_path, tmp_path / "lib" / "libopdb_kernels.a") == pytest.approx(
        expected(), abs=1e-6
    )
    more = loaded("build", "Softmax", "Conv2d", "Resize", "-o", str(tmp_path / "more"), "--json")
    assert sum(json.loads(more.stdout)["bytes"].values()) > ours


@pytest.mark.breadth
def test_cmake_builds_the_same_library(loaded: Run, tmp_path: Path) -> None:
    assert loaded("build", "Softmax:f32", "-o", str(tmp_path / "lib"), "--no-build").returncode == 0
    tool = str(Path(cmake.CMAKE_BIN_DIR, "cmake"))
    out = tmp_path / "lib" / "out"
    for command in ([tool, "-S", out.parent, "-B", out], [tool, "--build", out]):
        subprocess.run(command, check=True, capture_output=True)
    (out / "include").symlink_to(out.parent / "include")
    assert run_program(tmp_path, out / "libopdb_kernels.a") == pytest.approx(expected(), abs=1e-6)


def test_sources_for_hexagon_need_no_compiler(loaded: Run, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    done = loaded(
        "build", "Softmax:f32", "-o", str(folder), "--target", "hexagon", "--no-build", env={"PATH": ""}
    )
    assert done.returncode == 0, done.stderr
    assert f"build it with: make -C {folder}" in done.stdout
    assert "CC = clang-19" in (folder / "Makefile").read_text()
    assert (folder / "src/hexagon/server.c").is_file() and not (folder / "CMakeLists.txt").exists()


def test_a_missing_hexagon_compiler_is_named(loaded: Run, tmp_path: Path) -> None:
    args = ("build", "Softmax:f32", "-o", str(tmp_path / "lib"), "--target", "hexagon")
    done = loaded(*args, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (
        2,
        "opdb: no compiler for Hexagon: clang-19 and ld.lld-19 and llvm-ar-19 are not on PATH; install them (Debian: "
        "apt-get install clang-19 lld-19 llvm-19)\n",
    )
    assert not (tmp_path / "lib").exists()


@pytest.mark.torch
@pytest.mark.breadth
def test_the_library_has_the_ops_of_a_model(loaded: Run, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(MODEL)
    done = loaded("build", "--for", f"{tmp_path / 'nets.py'}:net", "-o", str(tmp_path / "lib"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ops"] == {
        "FullyConnected": ["f32"],
        "LayerNorm": ["f32"],
        "Softmax": ["f32"],
    }
    again = loaded("build", "Softmax", "-o", str(tmp_path / "lib"))
    assert again.returncode == 0 and "Softmax: all types of its kernel" in again.stdout
    assert not (tmp_path / "lib/src/ops/layer_norm.c").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "name ops, or a model with --for"),
        (("Softmx",), "did you mean 'Softmax'?"),
        (("Softmax:f33",), "no data type f33"),
        (("Softmax:bool8",), "specs/ops/Softmax.yaml: kernel: none for bool8; there is one for"),
        (("BboxTransform",), "specs/ops/BboxTransform.yaml: kernel: the op has none"),
        (("Softmax", "--target", "arm"), "no target 'arm'; there are host and hexagon"),
        (("--for", "nothing.pt2"), "nothing.pt2: no such file"),
    ],
)
def test_bad_arguments_are_rejected(loaded: Run, tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    done = loaded("build", *args, "-o", str(tmp_path / "lib"))
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "lib").exists()
