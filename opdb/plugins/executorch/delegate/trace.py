"""Runs a program under ExecuTorch's event tracer: python -m opdb.plugins.executorch.delegate.trace REQUEST.json

It is a separate process, so that a crash in QNN's libraries ends no other.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate import library
from opdb.plugins.executorch.delegate.blob import DIGEST, MAGIC
from opdb.plugins.executorch.pte_file import Program, read
from opdb.plugins.executorch.runtime import portable_lib


@dataclass(frozen=True)
class Call:
    """A call in a method to a delegate of opdb's: the instruction, and the delegate's blob."""

    instruction: int
    blob: bytes


def calls(program: Program, method: str) -> list[Call]:
    """The calls of opdb's delegates in ``method``, in its order.  Raises OpdbError for an unknown method."""
    return [Call(i, blob) for i, blob in program.delegates(method) if blob.startswith(MAGIC)]


@dataclass(frozen=True)
class Inputs:
    """A file of torch.save with the inputs of a run.  ``record``: the ETRecord that it is from, whose form it has; "" for tensors."""

    file: str
    record: str = ""

    def tensors(self) -> tuple[Any, ...]:
        """The inputs.  Raises OpdbError for other files, and for inputs by keyword."""
        import torch

        try:
            found = torch.load(self.file)
        except Exception as error:  # anything that its pickles raise
            raise OpdbError(f"{self.record or self.file}: torch.load cannot read it: {error}") from None
        if self.record:
            return positional(found, self.record)
        if not isinstance(found, (tuple, list)) or not all(isinstance(t, torch.Tensor) for t in found):
            raise OpdbError(
                f"{self.file}: does not hold a tuple of tensors; torch.save((x, y), FILE) makes one"
            )
        return tuple(found)


def positional(given: Any, record: str) -> tuple[Any, ...]:
    """The example inputs of an export without their keywords.  Raises OpdbError if there are none, or keywords."""
    if given is None or given[1]:
        raise OpdbError(f"{record}: it holds no example inputs; name some with --inputs")
    return tuple(given[0])


def _trace(request: dict[str, Any]) -> dict[str, Any]:
    """Writes two traces: ``runs`` executions with times, and one with every value."""
    program = read(Path(request["pte"]))
    found = calls(program, request["method"])
    inputs = Inputs(*request["inputs"]).tensors()
    loaded = library.load()
    runtime = portable_lib()
    for name, runs, room in (("times", request["runs"], 0), ("values", 1, request["room"])):
        _place(loaded, found)
        loaded_program = runtime._load_for_executorch_from_buffer(
            program.data, enable_etdump=True, debug_buffer_size=room
        )
        try:
            for _ in range(runs):
                loaded_program.run_method(request["method"], inputs)
        except RuntimeError as error:
            return {"error": str(error), "reason": loaded.reason()}
        path = request[name]
        loaded_program.write_etdump_result_to_file(path, f"{path}.values" if room else None)
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
