"""The backend and its C kernels under gcc's sanitizers: memory, undefined behavior, threads."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from opdb.plugins.executorch.delegate import blob, library
from opdb.plugins.executorch.delegate.specs import KERNELS, Options
from opdb.plugins.packages import c_library
from opdb.spec.catalog import Catalog

from .runtime_cases import Classifier, X, edge

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

HARNESS = Path(__file__).with_name("harness.cpp")
SANITIZERS = {"memory": "address,undefined", "threads": "thread"}
#: The ops of the blob's graph, and ops that a changed string can turn one into.
OPS = ("FullyConnected", "Gelu", "MatMul", "Reshape", "Softmax", "ElementWiseAdd", "ElementWiseNeuron")
BLOBS = 10_000


@pytest.fixture(scope="module")
def content() -> bytes:
    """The blob of the classifier, with all constants inside."""
    program = edge(Classifier(), [X], Options(KERNELS, weights="blob")).to_executorch().buffer
    begin = program.index(blob.MAGIC)
    return bytes(program[begin : begin + blob.HEADER.unpack_from(program, begin)[3]])


@pytest.fixture(scope="module")
def kernels(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C sources of some ops."""
    folder = tmp_path_factory.mktemp("kernels")
    c_library.write(catalog, dict.fromkeys(OPS, frozenset({"f32"})), folder)
    return folder


def _compile(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module", params=["memory", pytest.param("threads", marks=pytest.mark.breadth)])
def harness(
    request: pytest.FixtureRequest, kernels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The backend, these kernels and a main program, all compiled with a sanitizer."""
    folder, found = tmp_path_factory.mktemp(request.param), library.wheel()
    flags = ["-g", "-O1", f"-fsanitize={SANITIZERS[request.param]}", "-fno-sanitize-recover=all"]
    includes = [f"-I{kernels / 'include'}", f"-I{kernels / 'src' / 'kernels'}"]
    objects = []

    def compiled(source: Path) -> None:
        """Compiles without clones: the loader selects one before ThreadSanitizer is initialized."""
        out = folder / f"{source.parent.name}_{source.stem}.o"
        objects.append(str(out))
        _compile(
            [
                "gcc",
                "-std=c99",
                *flags,
                *includes,
                "-ffp-contract=off",
                "-DOPDB_NO_CLONES",
                "-c",
                str(source),
                "-o",
                str(out),
            ]
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compiled, sorted((kernels / "src").rglob("*.c"))))
    backend = library.compile_backend(found, ["g++"], folder, [*flags, "-fvisibility=default"])
    core = found.core or found.root / "backends" / "qualcomm" / "libqnn_executorch_backend.so"
    program = folder / "harness"
    _compile([
        "g++", "-std=c++17", *flags, "-fno-rtti", "-DC10_USING_CUSTOM_GENERATED_MACROS", *found.flags,
        f"-I{library.sources()[0].parent}", *(f"-I{i}" for i in library.includes()), str(HARNESS), *objects, "-rdynamic",
        str(backend), str(core), f"-Wl,-rpath,{folder}:{core.parent}:{Path(torch.__file__).parent / 'lib'}",
        "-Wl,--allow-shlib-undefined", "-pthread", "-o", str(program),
    ])  # fmt: skip
    yield program


def _run(harness: Path, content: bytes, *words: str) -> str:
    """The harness's output.  A sanitizer report makes it exit with a non-zero code."""
    path = harness.with_name("blob")
    path.write_bytes(content)
    done = subprocess.run(
        [str(harness), str(path), *words], capture_output=True, text=True, errors="replace", timeout=500, check=False,
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=1", "TSAN_OPTIONS": "halt_on_error=1"},
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "opdb:" not in line]
    assert done.returncode == 0, "\n".join(lines)[:4000]
    return done.stdout


def test_the_harness_matches_pytorch(harness: Path, content: bytes) -> None:
    values = [float(line) for line in _run(harness, content, "run").splitlines()]
    x = torch.tensor([(i * 4 % 64) / 32 - 1 for i in range(16)]).reshape(2, 8)
    torch.testing.assert_close(
        torch.tensor(values).reshape(2, 4), Classifier().eval()(x), atol=1e-5, rtol=1e-4
    )


def test_two_threads_can_use_separate_handles(harness: Path, content: bytes) -> None:
    assert _run(harness, content, "threads", "400") == "0 wrong\n"


def test_changed_blobs_with_a_valid_checksum_are_harmless(harness: Path, content: bytes) -> None:
    """Some run: a changed weight gives a valid model."""
    count = BLOBS // 10 if harness.parent.name.startswith("threads") else BLOBS
    loaded, ran = (
        int(part.split()[0]) for part in _run(harness, content, "fuzz", f"{count}", "7").split(",")
    )
    assert 0 < ran <= loaded < count
