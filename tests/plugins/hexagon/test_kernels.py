"""All kernels on all samples, compiled for Hexagon and run by QEMU: bit-identical to x86-64."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from opdb.core.c_compiler import compiler_command
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.judge.samples import kernel_configs
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import CaseSet
from opdb.measure.conformance.judge import outcome, seen
from opdb.measure.conformance.lanes import Judge, Lane
from opdb.plugins.hexagon import Server
from opdb.plugins.hexagon.process import ServerLost
from opdb.plugins.packages import c_library
from opdb.plugins.packages.hexagon_executor import HexagonExecutor
from opdb.runtime import native
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
Bits = list[bytes] | str


def computed(
    run: Callable[..., list[np.ndarray]], config: OpConfig, inputs: Sequence[np.ndarray | None]
) -> Bits:
    """The bytes of the outputs, or the status."""
    try:
        return [a.tobytes() for a in run(config, inputs)]
    except native.KernelError as error:
        return error.status


def without_clones(catalog: Catalog, ops: Sequence[str], folder: Path) -> Path:
    """The server for x86-64 with baseline instructions only: the installed library fuses products and sums."""
    library = c_library.write(catalog, dict.fromkeys(ops, frozenset[str]()), folder)
    sources = [f for f in library.files if f.endswith(".c")]
    command = [*compiler_command(), "-std=gnu11", "-O1", "-DOPDB_NO_CLONES", "-ffp-contract=off", "-Iinclude", "-Isrc/kernels",
               *sources, str(ROOT / "opdb/plugins/hexagon/c/server.c"), "-lm", "-o", "server"]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True)
    return folder / "server"


def test_every_kernel_matches_x86_64_bit_for_bit(catalog: Catalog, server: Server, tmp_path: Path) -> None:
    ops = [name for name, op in catalog.ops.items() if op.kernel is not None]
    samples = [
        (config, data.inputs(f"{op}-{i}-{'/'.join(t.dtype for t in config.inputs)}", config))
        for op in ops
        for i, config in enumerate(kernel_configs(catalog.compiled(op)))
    ]
    ran, other = 0, []
    for config, inputs in samples:
        here = computed(server.run, config, inputs)
        ran += not isinstance(here, str)
        if here != computed(native.run, config, inputs):
            other.append((config, inputs, here))
    assert len(ops) >= 147 and ran >= 6356
    assert server.total.packets > 10**8 and server.total.vector > 10**5
    fused = sorted({config.op for config, _, _ in other})
    with Server([str(without_clones(catalog, fused, tmp_path))] if fused else ["true"]) as plain:
        wrong = [c for c, inputs, here in other if here != computed(plain.run, c, inputs)]
    assert not wrong, f"{len(wrong)} of {len(samples)}: {wrong[:3]}"


def softmax(*shape: int) -> OpConfig:
    x, y = (TensorConfig(name, "f32", shape) for name in "xy")
    return OpConfig("Softmax", (x,), (ParamConfig("axis", "u32", len(shape) - 1),), (y,))


def test_instruction_counts_are_repeatable_and_grow_with_size(server: Server) -> None:
    counted = []
    for size in (64, 64, 640):
        server.run(softmax(1, size), [np.linspace(-1, 1, size, dtype=np.float32).reshape(1, size)])
        counted.append(server.last)
    assert counted[0] == counted[1] and counted[0].instructions > counted[0].packets > 64
    assert counted[2].packets > 5 * counted[0].packets


@pytest.mark.parametrize("op", ["Relu", "Quantize"])
def test_the_executor_passes_its_cases(op: str, catalog: Catalog, case_set: Callable[[str], CaseSet]) -> None:
    executor = HexagonExecutor(catalog, ROOT / "build" / "hexagon")
    try:
        lane = Lane(executor, executor.record(), [c for c in case_set(op).cases if executor.takes(c)])
        results = [Judge(catalog).ask(lane, case) for case in lane.cases]
    finally:
        executor.close()
    assert [r.case.name for r in results if outcome(seen(r))[0] not in ("pass", "unknown")] == []
    assert any(r.case.kind == "negative" and r.rules for r in results)
    assert any(r.matches == "yes" and "packets" in r.detail for r in results)


def test_verdicts_and_shapes_match_this_machine(server: Server) -> None:
    good = softmax(2, 3)
    bad = OpConfig(
        "Softmax", good.inputs, (*good.params, ParamConfig("beta", "f32", 0.1)), softmax(2, 4).outputs
    )
    for config in (good, bad):
        assert server.validate(config) == native.validate(config)
        assert server.infer(config) == native.infer(config)
        assert server.scratch(config) == 0
    with pytest.raises(
        native.KernelError, match=r"Softmax\.SHAPE_y: .*; got y\.shape = \[2, 4\], S = \[2, 3\]"
    ):
        server.run(bad, [np.zeros((2, 3), np.float32)])


def test_a_lost_process_is_reported_and_restarted(server: Server) -> None:
    x, y = (
        TensorConfig("", "f32", (1024,)),
        TensorConfig("", "f32", (1024 * 160_000,)),
    )  # more than a call may have
    large = OpConfig("Tile", (x,), (ParamConfig("multiples", "u32", (160_000,), (1,)),), (y,))
    with pytest.raises(ServerLost, match="Tile: the process that computes on Hexagon ended with 71"):
        server.run(large, [np.zeros(1024, np.float32)])
    again = server.run(softmax(1, 2), [np.zeros((1, 2), np.float32)])[0]
    assert again.tolist() == [[0.5, 0.5]]
