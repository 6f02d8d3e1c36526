"""The inputs and outputs of a compiled program: their names, types, and shapes."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from opdb.core.graph import GraphTensor
from opdb.plugins.executorch import env, process
from opdb.plugins.executorch.flow import ENDS, load

#: ExecuTorch's ScalarType (c10's numbers) of input and output tensors.
SCALAR_TYPES = {
    0: "u8",
    1: "i8",
    2: "i16",
    3: "i32",
    4: "i64",
    5: "f16",
    6: "f32",
    7: "f64",
    11: "bool8",
    15: "bf16",
    27: "u16",
}


def program_ends(
    pte: bytes, *, environment: env.Environment, timeout: float = 600.0
) -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
    """The inputs (``input0``, ...) and outputs (``output0``, ...) of a program's method ``forward``, or the program's own names."""
    ends: tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]] = process.call(
        "opdb.plugins.executorch.program_io:_ends", pte, environment=environment, timeout=timeout
    )
    return ends


def _ends(pte: bytes) -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
    """The child's side of ``program_ends``."""
    program = load(pte)
    meta = program.method_meta("forward")

    def tensor(name: str, info: Any) -> GraphTensor:
        return GraphTensor(name, SCALAR_TYPES[int(info.dtype())], tuple(info.sizes()) or (1,))

    given, made = meta.num_inputs(), meta.num_outputs()
    names = [f"input{i}" for i in range(given)], [f"output{i}" for i in range(made)]
    with suppress(RuntimeError):  # it has no such method
        own = json.loads(program.run_method(ENDS, ())[0])
        names = own if [len(n) for n in own] == [given, made] else names
    inputs = tuple(tensor(n, meta.input_tensor_meta(i)) for i, n in enumerate(names[0]))
    outputs = tuple(tensor(n, meta.output_tensor_meta(i)) for i, n in enumerate(names[1]))
    del program
    return inputs, outputs
