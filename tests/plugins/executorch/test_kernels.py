"""A kernel library, written, compiled and loaded into ExecuTorch's runtime, against PyTorch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.portable_kernels import kernels
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels, define_out_variants
from opdb.spec.catalog import Catalog

from .kernel_cases import LACKING, LEFT, REPLACED, Case

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

CHILD = Path(__file__).with_name("kernel_child.py")
CASES = [*LACKING, *REPLACED, *LEFT]
X = torch.arange(12.0).reshape(3, 4) / 4 - 1
GAMMA = torch.tensor([0.5, 1.0, 1.5, 2.0])


class All(torch.nn.Module):
    """Every case, and one of QNN's own ops, in one program."""

    def forward(self, x: torch.Tensor, gamma: torch.Tensor, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """[3, 4], [4], and the inputs of the cases in order."""
        left = iter(given)
        results = [case.call(*(next(left) for _ in case.inputs)) for case in CASES]
        return (torch.ops.qnn.LayerNorm(x, gamma, None, epsilon=1e-5, axes=[1]), *results)


@dataclass(frozen=True)
class Built:
    """A program, its inputs, the library for it, and the output of a child process for both."""

    program: Path
    inputs: Path
    made: kernels.KernelFolder
    results: list[torch.Tensor]
    said: dict[str, Any]


def given() -> tuple[torch.Tensor, ...]:
    return (X, GAMMA, *(t for case in CASES for t in case.inputs))


def exported(folder: Path) -> Path:
    from executorch.exir import EdgeCompileConfig, to_edge

    held = define_out_variants()
    whole = [case.keep for case in CASES if case.keep is not None]
    edge = to_edge(
        torch.export.export(All().eval(), given()),
        compile_config=EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole),
    )
    program = folder / "all.pte"
    program.write_bytes(edge.to_executorch().buffer)
    assert held is not None
    return program


def run(program: Path, inputs: Path, *libraries: Path) -> tuple[list[torch.Tensor], dict[str, Any], str]:
    results = program.with_suffix(".results")
    command = [sys.executable, str(CHILD), str(program), str(inputs), str(results), *map(str, libraries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(results), json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def known(catalog: Catalog) -> Kernels:
    return Kernels(catalog)


@pytest.fixture(scope="module")
def built(known: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("kernels")
    program, inputs = exported(folder), folder / "inputs"
    torch.save(list(given()), inputs)
    made = kernels.write(known, kernels.select(known, (), program), folder / "library")
    kernels.build(made)
    results, said, _ = run(program, inputs, made.library)
    yield Built(program, inputs, made, results, said)


def ulps(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    step = torch.nextafter(want.abs(), torch.tensor(torch.inf)) - want.abs()
    return (got.double() - want.double()).abs() / step.double()


def is_close(case: Case, got: torch.Tensor, want: torch.Tensor) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if not case.ulp:
        return torch.equal(got, want)
    near = (got.double() - want.double()).abs() <= case.absolute
    return bool(((ulps(got, want) <= case.ulp) | near).all())


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.op for c in CASES])
def test_a_program_matches_pytorch(built: Built, number: int) -> None:
    case = CASES[number]
    want = case.call(*case.inputs)
    assert is_close(case, built.results[1 + number], want), (built.results[1 + number], want)


def test_an_op_of_qnn_runs_as_a_custom_op(built: Built) -> None:
    want = torch.nn.functional.layer_norm(X, [4], GAMMA, eps=1e-5)
    assert torch.allclose(built.results[0], want, rtol=1e-6, atol=1e-6)
    assert ["qnn::LayerNorm.out", None, 1, 0] in built.said["runs"]


def test_the_librarys_kernels_ran_instead_of_the_runtimes(built: Built) -> None:
    runtime = kernels.runtime_operators()
    counts: dict[str, list[int]] = {}
    for op, key, called, left in built.said["runs"]:
        assert not called or (key is None) == (op not in runtime), (op, key)
        now = counts.setdefault(op, [0, 0])
        counts[op] = [now[0] + called, now[1] + left]
    for case in (*LACKING, *REPLACED):
        assert (case.op in runtime) == (case in REPLACED), case.op
        assert counts[case.op][0] and not counts[case.op][1], case.op
    assert all(counts[case.op] == [1, 1] for case in LEFT)


def test_owners_of_the_runtimes_kernels_are_reported(built: Built) -> None:
    owners = {op: owner for op, key, owner in built.said["owners"] if key is None}
    for case in REPLACED:
        # Since 1.5 the runtime's kernels are in libraries of their own.
        assert re.search("_portable_lib|libexecutorch", owners[case.op]), case.op
    assert all(owners[case.op] is None for case in LACKING)
    assert all(owner is None for _, key, owner in built.said["owners"] if key is not None)


def test_a_second_library_is_ignored_with_a_reason(built: Built, tmp_path: Path) -> None:
    second = shutil.copyfile(built.made.library, tmp_path / "second.so")
    results, said, log = run(built.program, built.inputs, built.made.library, second)
    assert all(torch.equal(a, b) for a, b in zip(results, built.results, strict=True))
    own = said["owners"][len(said["owners"]) // 2 :]
    assert {owner for op, key, owner in own if op == "aten::square.out"} == {str(built.made.library)}
    assert re.search(rf"aten::square\.out was left out: {built.made.library} has one already", log)


def test_the_program_does_not_load_without_the_library(built: Built) -> None:
    with pytest.raises(AssertionError, match="0x14"):
        run(built.program, built.inputs)


def test_the_library_has_only_the_programs_kernels(built: Built) -> None:
    files = set(built.made.files)
    assert "src/executorch/op_square_out.cpp" in files and "src/ops/layer_norm.c" in files
    assert not files & {"src/ops/conv2d.c", "src/executorch/op_pow_scalar_out.cpp"}
    shim = (built.made.folder / "src/ops/layer_norm.c").read_text()
    assert "T_F32, report)" in shim and "T_UQ8, report)" not in shim


def test_unsupported_arguments_are_an_error_with_the_reason(known: Kernels, tmp_path: Path) -> None:
    from executorch.exir import EdgeCompileConfig, to_edge

    class Rounded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.round(x, decimals=2)

    whole = [torch.ops.aten.round.decimals]
    edge = to_edge(
        torch.export.export(Rounded(), (X,)),
        compile_config=EdgeCompileConfig(_check_ir_validity=False, preserve_ops=whole),
    )
    program, inputs = tmp_path / "rounded.pte", tmp_path / "inputs"
    program.write_bytes(edge.to_executorch().buffer)
    torch.save([X], inputs)
    made = kernels.write(known, kernels.select(known, (), program), tmp_path / "library")
    kernels.build(made)
    with pytest.raises(
        AssertionError, match=r"aten::round\.decimals_out: ElementWiseRound: decimals must be 0"
    ):
        run(program, inputs, made.library)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aten::nothing.out", "no spec maps an operator with this out variant"),
        ("Nothing", "neither an out variant of ATen"),
        ("aten::im2col.out", r"cannot be one QNN op: Im2Col needs permute\(\)"),
        ("BboxTransform", "BboxTransform needs a kernel"),
        ("NonMaxSuppression", "NonMaxSuppression needs results whose number is open"),
    ],
)
def test_operators_that_cannot_be_kernels_are_refused(known: Kernels, word: str, message: str) -> None:
    with pytest.raises(OpdbError, match=message):
        kernels.select(known, [word])


def test_an_invalid_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "no.pte"
    file.write_bytes(b"nothing of the kind" * 10)
    with pytest.raises(OpdbError, match=r"no\.pte: not an ExecuTorch program \(\.pte\)"):
        kernels.model_kernels(file)
