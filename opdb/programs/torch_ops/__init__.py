"""Ops as torch operators: ``torch.ops.qnn.Gru(x, w_xz, ...)``, one for each op of QNN, with QNN's names and layouts, and
``torch.ops.<package>.<op>`` for each op of another package that has a kernel.

    import opdb.programs.torch_ops

    y = torch.ops.qnn.SpaceToBatch(x, block_size=[2, 2], pad_amount=[0, 0, 0, 0])
    z = torch.ops.OpdbCustom.DequantizeAdd(x, bias, scale=0.5)

Importing defines them (generated schemas: opdb.generated.torch_ops).  A module that calls them is exported like any
other; ``opdb check`` and the ExecuTorch flow turn each call into the op itself.  Called on tensors, QNN's ops run in QNN's
libraries, the others in their C kernels (opdb.execute.eager).  ``opdb.programs.torch_ops.onnx`` exports them to ONNX.  An op
that ATen can express is better written in ATen: it runs everywhere.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch

from opdb.programs.torch_ops.call import Call
from opdb.runtime.direct import LIBRARY, libraries, targets

__all__ = ["targets"]


def _fake(library: str, op: str, *args: Any, **kwargs: Any) -> Any:
    call = Call(op, args, kwargs, library)
    return call.results([torch.empty(shape, dtype=dtype) for shape, dtype in call.expected()])


def _run(library: str, op: str, *args: Any, **kwargs: Any) -> Any:
    """Runs a call on tensors.  The libraries belong to opdb.execute, a wing above this one, which is loaded at the first call."""
    eager = import_module("opdb.execute.eager")
    call = Call(op, args, kwargs, library)
    return call.results(eager.execute(call) if library == LIBRARY else eager.compute(call))


_defined = []  # an operator lives as long as its library
for _name, _schemas in libraries().items():
    _library = torch.library.Library(_name, "DEF")
    _defined.append(_library)
    for _op, _schema in _schemas.items():
        _library.define(_schema)
        _library.impl(_op, partial(_run, _name, _op), "CPU")
        torch.library.register_fake(f"{_name}::{_op}", partial(_fake, _name, _op), lib=_library)
