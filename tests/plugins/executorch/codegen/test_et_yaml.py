"""functions.yaml and custom_ops.yaml, processed by the generator of the installed ExecuTorch."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from opdb.plugins.executorch.codegen.yaml_files import Entry, KernelKey, custom_ops, functions, plain_key
from opdb.plugins.executorch.portable_kernels import kernels
from opdb.plugins.executorch.portable_kernels.out_variants import Kernels
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.executorch, pytest.mark.torch, pytest.mark.slow]
FLOAT, BOOL, LONG = 6, 11, 4
TEMPLATES = Path(str(kernels.__file__)).parents[1] / "c"


@pytest.fixture(scope="module")
def known(catalog: Catalog) -> Kernels:
    return Kernels(catalog)


def generated(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    import torchgen

    aten = Path(torchgen.__path__[0]) / "packaged" / "ATen" / "native"
    (folder / "all.yaml").write_text("include_all_operators: true\n")
    command = [
        sys.executable, "-m", "executorch.codegen.gen", "-s", str(TEMPLATES), "--tags-path", str(aten / "tags.yaml"),
        "--aten-yaml-path", str(aten / "native_functions.yaml"), "--op-selection-yaml-path", str(folder / "all.yaml"),
        "--install-dir", str(folder / "out"), *arguments,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def registered(folder: Path) -> list[tuple[str, str | None]]:
    """Operator and key of each kernel in the generated code."""
    text = (folder / "out" / "RegisterCodegenUnboxedKernelsEverything.cpp").read_text()
    return re.findall(r'Kernel\(\s*"([^"]+)",(?:\s*"([^"]+)",)?', text)


def entry(known: Kernels, op: str, *keys: Sequence[tuple[int, Sequence[int]]]) -> Entry:
    return Entry(known.variant(op), tuple(KernelKey(tuple((t, tuple(o)) for t, o in key)) for key in keys))


def test_generated_keys_match_the_runtimes(known: Kernels, tmp_path: Path) -> None:
    """Mixed data types and dim orders, for which sorting the arguments by name would give other keys."""
    order = (0, 1)
    compared = [(FLOAT, order), (FLOAT, order), (BOOL, order), (BOOL, order)]
    summed = [(FLOAT, (0, 1, 2)), (FLOAT, order), (FLOAT, order)]
    scaled = [(FLOAT, order), (FLOAT, ()), (FLOAT, order), (FLOAT, order)]
    text = functions(
        [
            entry(known, "aten::eq.Tensor_out", compared),
            entry(known, "aten::sum.IntList_out", summed),
            entry(known, "aten::mul.out", scaled, [(LONG, order)] * 4),
        ]
    )
    (tmp_path / "functions.yaml").write_text(text)
    done = generated(
        tmp_path, "--generate", "sources", "--functions-yaml-path", str(tmp_path / "functions.yaml")
    )
    assert done.returncode == 0, done.stderr[-1000:]
    keys = {(op, key) for op, key in registered(tmp_path) if key}
    assert keys == {
        ("aten::eq.Tensor_out", "v1/6;0,1|6;0,1|11;0,1|11;0,1"),
        ("aten::sum.IntList_out", "v1/6;0,1,2|6;0,1|6;0,1"),
        ("aten::mul.out", "v1/6;0,1|6;|6;0,1|6;0,1"),
        ("aten::mul.out", "v1/4;0,1|4;0,1|4;0,1|4;0,1"),
    }
    assert len([op for op, key in registered(tmp_path) if not key]) == 3


def test_both_files_are_accepted_together(known: Kernels, tmp_path: Path) -> None:
    """Kernels for all types, including an op with two results and one with string parameters."""
    (tmp_path / "functions.yaml").write_text(functions([entry(known, "aten::gelu.out")]))
    own = [entry(known, op) for op in ("LayerNorm", "Moments", "ElementWiseNeuron", "Concat")]
    (tmp_path / "custom_ops.yaml").write_text(custom_ops(own))
    done = generated(
        tmp_path, "--functions-yaml-path", str(tmp_path / "functions.yaml"),
        "--custom-ops-yaml-path", str(tmp_path / "custom_ops.yaml"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1000:]
    names = {op for op, _ in registered(tmp_path)}
    assert names == {"aten::gelu.out", *(e.variant.name for e in own)}
    header = (tmp_path / "out" / "NativeFunctions.h").read_text()
    assert "qnn_moments_out" in header and "gelu_out" in header
    assert {f.name for f in (tmp_path / "out").iterdir()} >= {
        "Functions.h",
        "RegisterKernels.h",
        "RegisterSchema.cpp",
    }


def test_two_kernels_break_the_generators_headers(known: Kernels, tmp_path: Path) -> None:
    """This is why the Makefile generates only sources, and NativeFunctions.h is opdb's."""
    text = functions([entry(known, "aten::gelu.out", [(FLOAT, (0, 1))] * 3)])
    (tmp_path / "functions.yaml").write_text(text)
    done = generated(tmp_path, "--functions-yaml-path", str(tmp_path / "functions.yaml"))
    assert done.returncode != 0 and "Can't convert ETKernelIndex to BackendIndex" in done.stderr


def test_the_generator_spells_1d_keys_differently(known: Kernels, tmp_path: Path) -> None:
    """This is why registration.cpp respells keys."""
    variant = known.variant("aten::gelu.out")
    key = plain_key(variant, FLOAT, 1)
    assert key is not None and key.text == "v1/6;0|6;0|6;0"
    (tmp_path / "functions.yaml").write_text(functions([Entry(variant, (key,))]))
    done = generated(
        tmp_path, "--generate", "sources", "--functions-yaml-path", str(tmp_path / "functions.yaml")
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert ("aten::gelu.out", "v1/6;0,|6;0,|6;0,") in registered(tmp_path)


def test_types_unknown_to_the_generator_give_no_key() -> None:
    half = 5
    assert (
        not KernelKey(((half, (0, 1)),) * 3).has_plain_types
        and KernelKey(((FLOAT, (0, 1)),) * 3).has_plain_types
    )


def test_ops_with_optional_tensors_get_no_plain_key(known: Kernels) -> None:
    assert plain_key(known.variant("LayerNorm"), FLOAT, 2) is None
    assert plain_key(known.variant("Concat"), FLOAT, 2) is None
