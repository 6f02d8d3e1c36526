"""Turns one node of a program into a separate model: the same ATen call on tensors of the same shapes and data types.

Constants keep their values if they are few or integers; a large float constant gets random values, since no rule
reads it.  Only results that the program reads are returned.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from opdb.checks.verdicts import line_of, module_of
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.version import __version__
from opdb.programs.torch.nodes import TorchNode
from opdb.programs.torch.program import Program

#: The largest number of values that a Python file spells out.
MAX_VALUES = 4096


@dataclass
class Call:
    """``inputs`` and ``constants``: tensors by their names in the source; ``constants`` with their values."""

    node: TorchNode
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    text: str = ""  # torch.ops.aten.linear.default(x0, self.c0)
    results: tuple[int, ...] | None = None  # the indices of the returned ones, if there are several


def read_call(program: Program, name: str) -> Call:
    """The call of the node ``name``.  Raises OpdbError for an unknown node, and for symbolic shapes."""
    found = next((n for n in program.nodes if n.name == name), None)
    if found is None:
        why = program.skipped.get(name)
        hint = f": {why}" if why else did_you_mean(name, [n.name for n in program.nodes])
        raise OpdbError(f"no node '{name}' is judged{hint}")
    call = Call(found)
    names: dict[Any, str] = {}

    def spelled(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return _tensor(program, call, names, value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(spelled, value))}]"
        return _literal(name, value)

    arguments = [spelled(a) for a in found.node.args]
    arguments += [f"{k}={spelled(v)}" for k, v in found.node.kwargs.items()]
    call.text = f"torch.ops.{found.target}({', '.join(arguments)})"
    if isinstance(found.node.meta.get("val"), (list, tuple)):
        users = [u for u in found.node.users if u.target is operator.getitem and u.users]
        call.results = tuple(sorted({int(u.args[1]) for u in users}))
    return call


def source(program: Program, name: str) -> str:
    """A Python file with a function ``make``, for ``opdb check FILE.py:make``."""
    call = read_call(program, name)
    node = call.node.node
    place = " ".join(p for p in (module_of(node), line_of(node)[0]) if p)
    buffers = [
        f'        self.register_buffer("{n}", {_made(t, keep=True)})' for n, t in call.constants.items()
    ]
    what = f"The node {name} ({call.node.target}){f' of {place}' if place else ''}; written by opdb {__version__}."
    forward = [f"        return {call.text}"]
    if call.results is not None:
        picked = ", ".join(f"results[{i}]" for i in call.results)
        forward = [f"        results = {call.text}", f"        return {picked}"]
    lines = [
        f'"""{_plain(what)}"""', "", "import torch", "", "",
        "class Node(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()", *buffers, "",
        f"    def forward({', '.join(('self', *call.inputs))}):", *forward, "", "",
        "def make():",
        '    """The module and its inputs."""',
        "    torch.manual_seed(0)",
        f"    return Node(), ({''.join(f'{_made(t)}, ' for t in call.inputs.values()).rstrip()})",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def module_and_inputs(program: Program, name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The module that ``source`` describes, with the constants' real values, and its inputs."""
    call = read_call(program, name)
    made: dict[str, Any] = {}
    exec(compile(source(program, name), f"<{name}>", "exec"), made)
    module, inputs = made["make"]()
    for key, value in call.constants.items():
        setattr(module, key, value)
    return module, inputs


def _tensor(program: Program, call: Call, names: dict[Any, str], node: torch.fx.Node) -> str:
    """The name of an operand: an input, or a constant of the module."""
    key = program.origin(node)
    if key not in names:
        tensor = program.fake(key, node)
        if any(not isinstance(d, int) for d in tensor.shape):
            raise OpdbError(
                f"{call.node.name} reads {key[0]}, whose shape is symbolic; export it with static shapes"
            )
        if key in program.values:
            names[key] = f"self.c{len(call.constants)}"
            call.constants[f"c{len(call.constants)}"] = tensor
        else:
            names[key] = f"x{len(call.inputs)}"
            call.inputs[f"x{len(call.inputs)}"] = tensor
    return names[key]


def _literal(name: str, value: Any) -> str:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise OpdbError(
            f"{name} reads {value}, which is only known when the program runs; export it with static shapes"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value)  # also right for torch.float32, torch.strided, torch.contiguous_format


def _made(tensor: torch.Tensor, *, keep: bool = False) -> str:
    """An expression that makes a tensor like this one, with the same values if ``keep``."""
    shape, dtype = list(tensor.shape), f"dtype={tensor.dtype}"
    floats = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    if keep and (not floats or tensor.numel() <= 16) and tensor.numel() <= MAX_VALUES:
        values = str(tensor.tolist()).replace("nan", 'float("nan")').replace("inf", 'float("inf")')
        return f"torch.tensor({values}, {dtype}).reshape({shape})"
    if floats:
        return f"torch.randn({shape}).to({tensor.dtype})"
    return f"torch.zeros({shape}, {dtype})"  # valid as an index too


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''").rstrip('"')
