"""Buffers that a program changes: inputs and outputs of its graph, paired in the context's record."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.dtypes import BY_SHORT
from opdb.errors import OpdbError

if TYPE_CHECKING:
    from opdb.coverage.graph import Part
    from opdb.coverage.nodes import Program

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class State:
    """``buffer``: its name in the module; ``input`` and ``output``: tensors of the graph; ``initial``: as the input stores it."""

    buffer: str
    input: str
    output: str
    initial: Array


def states_of(program: Program, part: Part) -> tuple[State, ...]:
    """The states of a program whose graph is ``part``."""
    found = []
    held = {**program.exported.constants, **program.exported.state_dict}
    for buffer, (before, after) in program.states.items():
        ref = program.ref(before)
        initial = held[buffer].detach().cpu().numpy().astype(BY_SHORT[ref.dtype].numpy).reshape(ref.shape)
        found.append(State(buffer, part.inputs[before], part.outputs[after], initial))
    return tuple(found)


def states_json(states: Sequence[State]) -> list[dict[str, Any]]:
    """For the record of a context file; ``initial``: "zeros", or its bytes compressed (zlib, base64)."""
    return [
        {
            "buffer": s.buffer,
            "input": s.input,
            "output": s.output,
            "shape": list(s.initial.shape),
            "stored": str(s.initial.dtype),
            "initial": base64.b64encode(zlib.compress(s.initial.tobytes())).decode()
            if s.initial.any()
            else "zeros",
        }
        for s in states
    ]


def recorded(metadata: Mapping[str, Any]) -> tuple[State, ...]:
    """What ``states_json`` wrote.  Raises OpdbError for a record that no opdb wrote."""
    found = []
    for entry in metadata.get("states") or ():
        try:
            shape, kind, initial = tuple(entry["shape"]), np.dtype(entry["stored"]), entry["initial"]
            value = (
                np.zeros(shape, kind)
                if initial == "zeros"
                else np.frombuffer(zlib.decompress(base64.b64decode(initial)), kind).reshape(shape)
            )
            found.append(State(entry["buffer"], entry["input"], entry["output"], value))
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise OpdbError(f"the record of the context's states is damaged: {error}") from None
    return tuple(found)
