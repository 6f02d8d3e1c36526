"""Runs a program under ExecuTorch's event tracer: python -m opdb.plugins.executorch.delegate.trace REQUEST.json

It is a separate process, so that a crash in QNN's libraries ends no other.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate import library
from opdb.plugins.executorch.delegate.blob import DIGEST, MAGIC


@dataclass(frozen=True)
class Call:
    """A call in a method to a delegate of opdb's: the instruction, and the delegate's blob."""

    instruction: int
    blob: bytes


def calls(pte: Any, method: str) -> list[Call]:
    """The calls of opdb's delegates in ``method`` of a PTEFile, in its order.  Raises OpdbError for an unknown method."""
    plans = {plan.name: plan for plan in pte.program.execution_plan}
    if method not in plans:
        raise OpdbError(f"the program has no method {method!r}; it has: {', '.join(plans)}")
    plan = plans[method]
    return [Call(i, blob) for i, blob in _calls(pte, plan) if blob.startswith(MAGIC)]


def _calls(pte: Any, plan: Any) -> Iterator[tuple[int, bytes]]:
    for chain in plan.chains:
        for i, instruction in enumerate(chain.instructions):
            index = getattr(instruction.instr_args, "delegate_index", None)
            if index is not None:
                place = plan.delegates[index].processed.index
                yield i, bytes(pte.program.backend_delegate_data[place].data)


def opened(data: bytes, name: str) -> Any:
    """The PTEFile in ``data``.  Raises OpdbError if it is not one."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    if data[4:6] != b"ET":  # flatbuffers' file identifier; ExecuTorch's reader checks nothing
        raise OpdbError(f"{name}: not an ExecuTorch program (.pte)")
    return deserialize_pte_binary(data)


def _trace(request: dict[str, Any]) -> dict[str, Any]:
    """Writes two traces: ``runs`` executions with times, and one with every value."""
    import torch

    data = Path(request["pte"]).read_bytes()
    found = calls(opened(data, request["pte"]), request["method"])
    inputs = tuple(torch.load(request["inputs"]))
    loaded = library.load()
    from executorch.extension.pybindings import portable_lib

    for name, runs, room in (("times", request["runs"], 0), ("values", 1, request["room"])):
        _place(loaded, found)
        program = portable_lib._load_for_executorch_from_buffer(
            data, enable_etdump=True, debug_buffer_size=room
        )
        try:
            for _ in range(runs):
                program.run_method(request["method"], inputs)
        except RuntimeError as error:
            return {"error": str(error), "reason": loaded.reason()}
        path = request[name]
        program.write_etdump_result_to_file(path, f"{path}.values" if room else None)
    return {}


def _place(loaded: library.Loaded, found: list[Call]) -> None:
    """Tells the backend which instruction calls each blob; see instructions.h."""
    loaded.library.opdb_delegate_instructions(bytes(32), None, ctypes.c_uint32(0))
    for call in found:
        place = (ctypes.c_int32 * 1)(call.instruction)
        if not loaded.library.opdb_delegate_instructions(call.blob[DIGEST], place, ctypes.c_uint32(1)):
            raise OpdbError(
                "the method calls more than 4096 delegates; the backend has no room to tell them apart"
            )


def main(path: Path) -> None:
    request = json.loads(path.read_text(encoding="utf-8"))
    try:
        result = _trace(request)
    except OpdbError as error:
        result = {"error": str(error), "reason": ""}
    Path(request["result"]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
