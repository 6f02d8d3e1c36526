"""Kernels for Cloud AI's card in four threads under QEMU: bit-identical to the same kernels there, which test_kernels compares with
x86-64's, and detection of wrong kernels.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.judge.samples import kernel_configs
from opdb.measure.conformance import data
from opdb.plugins.cloud_ai import aic_package
from opdb.plugins.cloud_ai.card import HexagonCard
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.hexagon import Server, emulator
from opdb.plugins.hexagon.card import Card, CardTensor, compile_card
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow

#: Sums of products, quantized results, two outputs; each generation of the interface.
USUAL = [("1.21", "MatMul"), ("1.21", "Quantize"), ("1.21", "TopK"), ("1.17", "TopK"), ("5.0.0", "Relu")]
#: Elements, a scalar parameter, lists, indices, sums of rows, many computed lists.
MORE = [("1.21", op) for op in ("Relu", "ReduceSum", "Gather", "DequantizeAdd", "RmsNorm", "StridedSlice")]
#: Less optimized, which compiles twice as fast.
FLAGS = [("-O1" if f == "-O3" else f) for f in aic.COMPILER_ARGS]
STACK = 12288


@pytest.fixture(scope="module")
def folders(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of a package in each generation of the interface."""
    made = {}
    for api in aic.GENERATIONS:
        made[api] = tmp_path_factory.mktemp("aic")
        ops = [op for of, op in (*USUAL, *MORE) if of == api]
        aic_package.write(catalog, ops, aic.Choice(api, scratch=65536), made[api])
    return made


def held(config: OpConfig) -> OpConfig:
    """``config`` with real parameters in Cloud AI's type: float."""
    params = [
        replace(p, value=float(np.float32(p.value))) if isinstance(p.value, float) else p
        for p in config.params
    ]
    return replace(config, params=tuple(params))


def fits(config: OpConfig) -> bool:
    """True if Cloud AI's tensors can express it: one scale and offset, no missing tensors."""
    return all(
        t.type != "NULL" and t.dtype in aic.TYPES and (t.quant is None or t.quant.encoding == "SCALE_OFFSET")
        for t in (*config.inputs, *config.outputs)
    )


@pytest.mark.parametrize(
    ("api", "op"), [*USUAL, *(pytest.param(*one, marks=pytest.mark.breadth) for one in MORE)]
)
def test_four_threads_give_the_bits_of_one(
    api: str, op: str, folders: dict[str, Path], catalog: Catalog, server: Server
) -> None:
    folder = folders[api]
    rows = [set(row.items()) for row in aic.rows(catalog.compiled(op))]
    compared = 0
    with HexagonCard(folder, api, op, folder / "hexagon" / op, FLAGS) as card:
        for i, config in enumerate(map(held, kernel_configs(catalog.compiled(op)))):
            slots = {(t.name.partition("[")[0], t.dtype) for t in (*config.inputs, *config.outputs)}
            if not fits(config) or not any(slots <= row for row in rows):
                continue
            given = data.inputs(f"{op}-{i}", config)
            ran = card.run(config, given, list(permutations(range(4)))[i % 24])
            assert ran.log == "" and ran.syncs == [1] * 4
            assert card.last is not None and 0 < card.last.stack < STACK
            for name, a, b in zip(config.outputs, ran.outputs, server.run(config, given), strict=True):
                assert a.tobytes() == b.tobytes(), (name, config)
            compared += 1
    assert compared


WRONG = {
    "forgets": """if (threadId != 2) ctx->syncThread(threadId);""",
    "overruns": """if (threadId == 0) ((char *)ctx->scratchBuffers[0].buf)[ctx->scratchBuffers[0].size] = 1; ctx->syncThread(threadId);""",
    "prints": """AIC_PRINT_ERROR(ctx, "%s %d 0x" AIC_LOG64X_FMT, "thread", (int)threadId, AIC_LOG64_DATA(1ull << 36));
                 ctx->syncThread(threadId);""",
    "deep": """volatile char room[20000]; for (int i = 0; i < 20000; i++) room[i] = (char)threadId;
               ctx->syncThread(room[threadId]);""",
    "crashes": """*(volatile int *)4 = threadId;""",
}
SOURCE = """
#include "CustomOpAICInterface.h"
#include "CustomOpLog.h"
void kernel(const CustomOpContext *ctx, const int32_t threadId) {{
    ((int32_t *)ctx->outputs[0].data)[threadId] = 10 * threadId;
    {body}
    if (threadId == 0)
        ((int32_t *)ctx->outputs[0].data)[4] = ((int32_t *)ctx->outputs[0].data)[3]; /* another thread's */
}}
"""


@pytest.mark.parametrize("what", WRONG)
def test_wrong_kernels_are_detected(what: str, folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(SOURCE.format(body=WRONG[what]))
    headers = folders["1.21"] / aic.STAND_IN
    made = compile_card(tmp_path / "kernel.c", headers, "kernel", tmp_path / "program", arrays=False)
    out = CardTensor(7, (5,), 1.0, 0.0, 20)
    with Card([emulator(), str(made)]) as card:
        if what == "crashes":
            with pytest.raises(
                OpdbError, match="kernel: the process that computes on Hexagon ended with -11"
            ):
                card.run("kernel", [], [out], [], [64])
            return
        ran = card.run("kernel", [], [out], [], [64])
        again = card.run("kernel", [], [out], [], [64], [3, 1, 2, 0])
    assert replace(again, counted=ran.counted) == ran or what == "prints"
    assert np.frombuffer(ran.outputs[0], np.int32)[:4].tolist() == [0, 10, 20, 30]
    assert (ran.stuck, ran.overrun, ran.stack > 20000) == (
        what == "forgets",
        what == "overruns",
        what == "deep",
    )
    if what == "forgets":
        assert ran.waits == (1, 1, 0, 1)
    else:
        assert np.frombuffer(ran.outputs[0], np.int32)[4] == 30
    lines = [f"thread {n} 0x0000001000000000" for n in range(4)]
    assert ran.log.splitlines() == (lines if what == "prints" else [])
