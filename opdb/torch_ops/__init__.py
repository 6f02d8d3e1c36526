"""QNN's ops as torch operators: ``torch.ops.qnn.Gru(x, w_xz, ...)``, one for each op, with QNN's names and layouts.

    import opdb.torch_ops

    y = torch.ops.qnn.SpaceToBatch(x, block_size=[2, 2], pad_amount=[0, 0, 0, 0])

Importing defines them (generated schemas: opdb.generated.torch_ops).  A module that calls them is exported as any
other; ``opdb check`` and the ExecuTorch flow make the op itself of each call.  Called on tensors, they run in QNN's
libraries (opdb.torch_ops.eager).  An op that ATen can express is better written in ATen: it runs everywhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from opdb.generated.torch_ops import SCHEMAS
from opdb.runtime.direct import LIBRARY, targets
from opdb.torch_ops.call import Call
from opdb.torch_ops.eager import execute

__all__ = ["targets"]


def _fake(op: str, *args: Any, **kwargs: Any) -> Any:
    call = Call(op, args, kwargs)
    return call.results([torch.empty(shape, dtype=dtype) for shape, dtype in call.expected()])


def _run(op: str, *args: Any, **kwargs: Any) -> Any:
    call = Call(op, args, kwargs)
    return call.results(execute(call))


_library = torch.library.Library(LIBRARY, "DEF")
for _op, _schema in SCHEMAS.items():
    _library.define(_schema)
    _library.impl(_op, partial(_run, _op), "CPU")
    torch.library.register_fake(f"{LIBRARY}::{_op}", partial(_fake, _op), lib=_library)
