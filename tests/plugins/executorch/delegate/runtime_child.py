"""Runs cases on opdb's backend in ExecuTorch's runtime: python runtime_child.py CASES.json RESULTS.json

In a process of its own, as the runtime's symbols become global in it, and vendor libraries may crash it.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from opdb.plugins.executorch.delegate import blob, library


def program(data: bytes, etdump: bool = False) -> Any:
    from executorch.extension.pybindings import portable_lib

    return portable_lib._load_for_executorch_from_buffer(
        data, enable_etdump=etdump, debug_buffer_size=1 << 20 if etdump else 0
    )


def run(loaded: library.Loaded, case: dict[str, Any]) -> dict[str, Any]:
    """The outputs of successive runs of one program; the error and its reason if one fails."""
    data = Path(case["pte"]).read_bytes()
    methods = case.get("methods", ["forward"])
    loaded.forget()
    outputs = []
    try:
        made = program(data, etdump="etdump" in case)
        for inputs in torch.load(case["inputs"]):
            outputs += [[o.clone() for o in made.run_method(m, tuple(inputs))] for m in methods]
    except RuntimeError as error:
        return {"error": str(error), "reason": loaded.reason()}
    if "etdump" in case:
        made.write_etdump_result_to_file(case["etdump"], case["etdump"] + ".data")
    torch.save(outputs, case["outputs"])
    return {"outputs": case["outputs"]}


def mutate(loaded: library.Loaded, case: dict[str, Any]) -> dict[str, Any]:
    """Loads programs whose blob is changed in one to four bytes, truncated, or overwritten with other bytes of it: those accepted."""
    original = Path(case["pte"]).read_bytes()
    begin = original.index(blob.MAGIC)
    size = blob.HEADER.unpack_from(original, begin)[3]
    (inputs,) = torch.load(case["inputs"])
    random_ = random.Random(case["seed"])
    accepted: list[bytes] = []
    reasons: dict[str, int] = {}
    while len(accepted) + sum(reasons.values()) < case["count"]:
        data = bytearray(original)
        way = random_.randrange(4)
        if way < 2:
            for _ in range(random_.randint(1, 4)):
                data[begin + random_.randrange(size)] ^= 1 << random_.randrange(8)
        elif way == 2:
            at = random_.randrange(size)
            data[begin + at : begin + size] = bytes(size - at)
        else:
            source, target, n = (
                random_.randrange(size - 8),
                random_.randrange(size - 8),
                random_.randint(1, 8),
            )
            data[begin + target : begin + target + n] = original[begin + source : begin + source + n]
        content = bytes(data)
        if content == original:
            continue
        loaded.forget()
        try:
            program(content).forward(tuple(inputs))
        except RuntimeError:
            reason = loaded.reason().split(":")[0]
            reasons[reason] = reasons.get(reason, 0) + 1
            continue
        accepted.append(content)
    return {"accepted": len(accepted), "reasons": reasons}


def grow(loaded: library.Loaded, case: dict[str, Any]) -> dict[str, Any]:
    """KiB that the process grows by in each quarter of ``count`` loads, after ``warm`` others.

    A leak shows in each quarter; a new arena of malloc shows in only one.
    """
    data = Path(case["pte"]).read_bytes()
    (inputs,) = torch.load(case["inputs"])
    held = []
    for count in (case["warm"], *[case["count"] // 4] * 4):
        for _ in range(count):
            program(data).forward(tuple(inputs))
        gc.collect()
        held.append(_resident())
    return {"kib": [after - before for before, after in pairwise(held)]}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4


def together(loaded: library.Loaded, case: dict[str, Any]) -> dict[str, Any]:
    """The error of a second program loaded while the first is in use."""
    (inputs,) = torch.load(case["inputs"])
    data, second = Path(case["pte"]).read_bytes(), Path(case["second"]).read_bytes()
    first = program(data)  # it keeps no reference to the bytes
    first.forward(tuple(inputs))
    try:
        program(second).forward(tuple(inputs))
    except RuntimeError as error:
        return {"error": str(error), "reason": loaded.reason()}
    return {}


def registered(loaded: library.Loaded, case: dict[str, Any]) -> dict[str, Any]:
    from executorch.extension.pybindings import portable_lib

    again = library.load() is loaded
    return {"available": portable_lib._is_available(library.BACKEND), "again": again}


def main(cases: Path, results: Path) -> None:
    found = []
    for case in json.loads(cases.read_text(encoding="utf-8")):
        loaded = library.load([Path(f) for f in case["libraries"]] if "libraries" in case else None)
        found.append(globals()[case["do"]](loaded, case))
    results.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
