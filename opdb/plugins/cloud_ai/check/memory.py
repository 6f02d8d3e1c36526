"""Checks that the buffers ``memoryConfig`` places in a core's memories fit.

Only scratch buffers and the tensors of a sample have known sizes; their sum is the minimum that is needed.
An op that the compiler divides into tiles needs less for its tensors: only buffers that must be there whole are errors.
"""

from __future__ import annotations

from collections.abc import Mapping

from opdb.plugins.cloud_ai.check.config import CARD, MEMORIES, Implementation, Op
from opdb.plugins.cloud_ai.check.findings import Findings, listed

#: Bytes of a core's VTCM: software-kit-for-qualcomm-cloud-ai-100-cc.
VTCM = 8 * 1024 * 1024
#: Hexagon has 32-bit addresses; the size of a scratch buffer is a signed 32-bit int.
ADDRESSES = 1 << 32
LARGEST = (1 << 31) - 1


def check(op: Op, tensors: Mapping[str, int], tiled: bool, findings: Findings) -> None:
    """``tensors``: bytes of the tensors with known shapes.  ``tiled``: the package has tile functions, which may divide them."""
    sizes = {**tensors, **{s.name: s.size for s in op.scratch}}
    for buffer in op.scratch:
        if buffer.size > LARGEST:
            findings.add(
                "memory-size", op.file, buffer.line, op.type,
                f"the scratch buffer {buffer.name} has {buffer.size:,} bytes; its size is a 32-bit int for the kernel",
                f"make it {LARGEST:,} bytes or less",
            )  # fmt: skip
    for one in op.implementations:
        if one.backend == CARD:
            _names(op, one, findings)
            _fits(op, one, sizes, tiled, findings)


def _names(op: Op, one: Implementation, findings: Findings) -> None:
    known = [t.name for t in (*op.inputs, *op.outputs)]
    known += [s.name for s in op.scratch] + [p.name for p in op.parameters]
    wanted: dict[str, str] = {}
    for memory in (*MEMORIES, "requiredFor"):
        for name, line in one.memory.get(memory, ()):
            if name not in known:
                findings.add(
                    "memory-name", op.file, line, op.type, f"{memory} names {name}, which the op does not have",
                    f"name one of {listed(known)}",
                )  # fmt: skip
            elif memory == "requiredFor":
                if name not in wanted and name not in [s.name for s in op.scratch]:
                    findings.add(
                        "memory-name", op.file, line, op.type, f"requiredFor names {name}, for which no memory is wanted",
                        f"name {name} in one of {listed(MEMORIES)}, too",
                    )  # fmt: skip
            elif wanted.setdefault(name, memory) != memory:
                findings.add(
                    "memory-twice", op.file, line, op.type, f"{name} is wanted in {wanted[name]} and in {memory}",
                    "leave one of them",
                )  # fmt: skip


def _fits(op: Op, one: Implementation, sizes: Mapping[str, int], tiled: bool, findings: Findings) -> None:
    scratch = [s.name for s in op.scratch]
    elsewhere = {n for m in ("DDR", "CacheableDDR") for n, _ in one.memory.get(m, ())}
    vtcm = [n for n, _ in one.memory.get("VTCM", ())]
    vtcm += [
        n for n in scratch if n not in elsewhere and n not in vtcm
    ]  # scratch buffers go there if they can
    required = [(n, line) for n, line in one.memory.get("requiredFor", ()) if n not in elsewhere]
    whole = [(n, line) for n, line in required if n in sizes and (n in scratch or not tiled)]
    need = sum(sizes[n] for n, _ in whole)
    if need > VTCM:
        findings.add(
            "memory-required", op.file, whole[-1][1], op.type,
            f"requiredFor wants {need:,} bytes in VTCM ({_sum(sizes, [n for n, _ in whole])}), which has {VTCM:,}",
            "make them smaller, or take them out of requiredFor: the compiler refuses the model otherwise",
        )  # fmt: skip
    total = sum(sizes.get(n, 0) for n in vtcm if n in scratch or not tiled)
    if total > VTCM and need <= VTCM:
        line = one.memory["VTCM"][0][1] if one.memory.get("VTCM") else one.line
        findings.add(
            "memory-fit", op.file, line, op.type,
            f"{total:,} bytes are wanted in VTCM ({_sum(sizes, vtcm)}), which has {VTCM:,}: some go to DDR",
            "name in VTCM what the kernel reads most, and in DDR the rest",
        )  # fmt: skip
    if (everything := sum(sizes.values())) > ADDRESSES:
        findings.add(
            "memory-size", op.file, op.line, op.type,
            f"the buffers of one call have {everything:,} bytes; a core addresses {ADDRESSES:,}",
            "divide the op, or make its buffers smaller",
        )  # fmt: skip


def _sum(sizes: Mapping[str, int], names: list[str]) -> str:
    return " + ".join(f"{n} {sizes[n]:,}" for n in names if n in sizes)
