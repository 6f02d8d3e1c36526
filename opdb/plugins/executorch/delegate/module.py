"""The content of a blob: a graph, the ends of ``execute``, the kept buffers, the target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor, QnnGraph
from opdb.core.names import counted

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Arg:
    """One tensor of execute's args.  ``scalar_type``: ExecuTorch's; ``shape``: the program's.

    ``tensor``: its name in the graph; None for an input that the graph does not read, and for an output that is known
    in advance, whose value is ``constant``.
    """

    kind: str  # "input" or "output"
    tensor: str | None
    scalar_type: int
    shape: tuple[int, ...]
    constant: bytes | None = None


@dataclass(frozen=True)
class State:
    """A buffer that the delegate keeps; ``initial``: its bytes before the first run."""

    name: str
    input: str
    output: str
    initial: bytes


@dataclass(frozen=True)
class Identity:
    """The target of the payload, and the versions that made it; ``backend`` empty: opdb's C kernels."""

    backend: str = ""
    soc: str = ""
    sdk: str = ""
    execution: str = ""
    package: str = ""
    library_version: str = ""
    build_id: str = ""
    opdb: str = ""
    precision: str = ""
    soc_model: int | None = None
    optimization: int = 0
    vtcm_mb: int = 0
    hvx_threads: int = 0


@dataclass(frozen=True)
class ContextFile:
    """``content``: an opdb context file (docs/reference/qnn-context-files.md); QNN's binary begins at ``binary``."""

    content: bytes
    binary: int
    key: str = ""  # the program's named data that holds it; empty: it is in the blob


@dataclass(frozen=True)
class Module:
    """The content of a blob.  ``handles``: op name -> the debug handles of the edge nodes behind it.

    ``ids``: name -> the context library's number of each tensor at the ends.
    """

    graph: QnnGraph
    args: tuple[Arg, ...]
    states: tuple[State, ...] = ()
    identity: Identity = field(default_factory=Identity)
    handles: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    context: ContextFile | None = None
    ids: Mapping[str, int] = field(default_factory=dict)


#: Bytes of one element, by ExecuTorch's ScalarType.
ITEM_SIZES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 8, 5: 2, 6: 4, 7: 8, 11: 1, 15: 2, 27: 2, 28: 4, 29: 8}


def constant_size(scalar_type: int, shape: Sequence[int]) -> int:
    """The bytes of a tensor of the program.  Raises OpdbError for a type that blobs do not support."""
    if scalar_type not in ITEM_SIZES:
        raise OpdbError(f"the scalar type {scalar_type} of ExecuTorch is none that the delegate takes")
    return ITEM_SIZES[scalar_type] * math.prod(shape)


def numpy_type(dtype: str) -> str:
    """The little-endian numpy type for a data type (short name); 4-bit values take a byte each."""
    return np.dtype(BY_SHORT[dtype].numpy or "uint8").newbyteorder("<").str


def stored(tensor: GraphTensor) -> bytes:
    """The bytes of a static tensor, little-endian, row-major.  Raises OpdbError for data of another size."""
    kind = np.dtype(numpy_type(tensor.dtype))
    count = math.prod(tensor.shape)
    values = np.zeros(tensor.shape, kind) if tensor.data is None else np.asarray(tensor.data)
    if values.size != count:
        raise OpdbError(f"{tensor.name}: {counted(values.size, 'value')} for the shape {list(tensor.shape)}")
    return np.ascontiguousarray(values.astype(kind, copy=False)).tobytes()
