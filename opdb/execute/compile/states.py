"""Buffers that a program changes: inputs and outputs of its graph, paired in the context's record."""

from __future__ import annotations

import base64
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.runtime.qnn.real_numbers import to_stored

if TYPE_CHECKING:
    from opdb.checks.graph import Part
    from opdb.core.graph import QnnGraph
    from opdb.programs.torch.program import Program

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class State:
    """``buffer``: its name in the module; ``input`` and ``output``: tensors of ``graph``; ``initial``: as the input stores it.

    Graphs of one context with a buffer of the same name share it.
    """

    buffer: str
    input: str
    output: str
    initial: Array
    graph: str = ""


def states_of(program: Program, part: Part) -> tuple[State, ...]:
    """The states of a program whose graph is ``part``."""
    found = []
    held = {**program.exported.constants, **program.exported.state_dict}
    for buffer, (before, after) in program.states.items():
        ref = program.ref(before)
        value = held[buffer].detach().cpu().numpy().reshape(ref.shape)
        initial = np.array(value, BY_SHORT[ref.dtype].numpy)  # a copy: runs write into it
        found.append(State(buffer, part.inputs[before], part.outputs[after], initial, part.graph.name))
    return tuple(found)


def stored_states(states: Sequence[State], graph: QnnGraph) -> tuple[State, ...]:
    """The states as stored by the inputs of ``graph``, which was quantized."""
    return tuple(replace(s, initial=to_stored(graph.tensors[s.input], s.initial)) for s in states)


def begun(states: Sequence[State], file: Path) -> tuple[State, ...]:
    """The states with the values of an .npz file, by buffer name.  Raises OpdbError for values that do not fit."""
    if not file.is_file():
        raise OpdbError(f"--states {file}: no such file")
    try:
        with np.load(file, allow_pickle=False) as held:
            values = dict(held)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise OpdbError(f"--states {file}: not an .npz file: {error}") from None
    if unknown := sorted(set(values) - {s.buffer for s in states}):
        known = ", ".join(s.buffer for s in states) or "none"
        raise OpdbError(f"--states {file}: the graph has no buffer {unknown[0]}; it has {known}")
    for s in states:
        value = values.get(s.buffer, s.initial)
        if (value.shape, value.dtype) != (s.initial.shape, s.initial.dtype):
            raise OpdbError(
                f"--states {file}: {s.buffer} is {value.dtype} {list(value.shape)}, and the graph stores "
                f"{s.initial.dtype} {list(s.initial.shape)}"
            )
    return tuple(replace(s, initial=values.get(s.buffer, s.initial)) for s in states)


def states_json(states: Sequence[State]) -> list[dict[str, Any]]:
    """The states for the record of a context file; ``initial``: "zeros", or its bytes compressed (zlib, base64)."""
    return [
        {
            "graph": s.graph,
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


def recorded(metadata: Mapping[str, Any], graph: str) -> tuple[State, ...]:
    """Reads the states of ``graph`` from what ``states_json`` wrote.  Raises OpdbError for a record that opdb did not write."""
    found = []
    for entry in metadata.get("states") or ():
        try:
            shape, kind, initial = tuple(entry["shape"]), np.dtype(entry["stored"]), entry["initial"]
            value = (
                np.zeros(shape, kind)
                if initial == "zeros"
                else np.frombuffer(zlib.decompress(base64.b64decode(initial)), kind).reshape(shape)
            )
            if entry.get("graph", graph) == graph:
                found.append(State(entry["buffer"], entry["input"], entry["output"], value, graph))
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise OpdbError(f"the record of the context's states is damaged: {error}") from None
    return tuple(found)
