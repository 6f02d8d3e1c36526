"""One call of an operator as an op config: shapes by the op's inference, data types by its type rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.generated import validators
from opdb.generated.constants.backends import PREFERRED
from opdb.judge import validate
from opdb.runtime.checks import Undecidable
from opdb.runtime.direct import LIBRARY, direct, signature
from opdb.runtime.tensors import Rejection, TensorRef

#: QNN's data types that a torch tensor can have, in order of preference where the choice is free.
TORCH = {
    "f32": torch.float32, "i32": torch.int32, "bool8": torch.bool, "u8": torch.uint8, "i8": torch.int8,
    "i16": torch.int16, "u16": torch.uint16, "u32": torch.uint32, "f16": torch.float16, "bf16": torch.bfloat16,
    "f64": torch.float64, "i64": torch.int64,
}  # fmt: skip
SHORT = {dtype: short for short, dtype in TORCH.items()} | {torch.int64: "i32"}  # QNN computes with int32


class Call:
    """Raises OpdbError for arguments that do not determine the op's shapes."""

    def __init__(self, op: str, args: Sequence[Any], kwargs: dict[str, Any], library: str = LIBRARY) -> None:
        self.op = op
        self.library = library
        self.schema = getattr(getattr(torch.ops, library), op).default._schema
        names = [a.name for a in self.schema.arguments]
        self.given: dict[str, Any] = dict.fromkeys(names) | dict(zip(names, args, strict=False)) | kwargs

    @property
    def tensors(self) -> Iterator[torch.Tensor | None]:
        """One for each input of the config; None for an omitted one."""
        for slot in signature(self.op).inputs:
            value = self.given[slot.name]
            yield from value if isinstance(value, (list, tuple)) else [value]

    def config(self, results: Sequence[tuple[Sequence[int], torch.dtype]] = ()) -> OpConfig:
        """The op config of the call, with these results."""
        refs = [_ref(shape, dtype) for shape, dtype in results]
        try:
            return direct(self.op, self._argument, refs).ops[0].config()
        except Rejection as reason:
            raise OpdbError(f"{self.library}.{self.op}: {reason}") from None

    def expected(self) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Shape and data type of each result; an optional one that was not requested has shape [0]."""
        shapes = self._shapes()
        slots = signature(self.op).outputs
        if len(slots) == 1 and slots[0].variadic:
            dtype = self._dtypes(1)[0]
            return [(tuple(shape), dtype) for shape in shapes[slots[0].name]]
        count = len(self.schema.returns)
        own = [tuple(shapes[s.name]) for s in slots[:count]]
        return list(zip(own, self._dtypes(count), strict=True))

    def results(self, tensors: Sequence[torch.Tensor]) -> Any:
        """``tensors`` as the operator returns them."""
        many = len(self.schema.returns) > 1 or str(self.schema.returns[0].type) == "List[Tensor]"
        if not many:
            return tensors[0]
        return list(tensors) if len(self.schema.returns) == 1 else tuple(tensors)

    def _argument(self, name: str) -> Any:
        value = self.given[name]
        if isinstance(value, torch.Tensor):
            return _ref(value.shape, value.dtype)
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return [_ref(v.shape, v.dtype) for v in value]
        return value

    def _shapes(self) -> dict[str, Any]:
        asked = {n.removesuffix("_shape"): v for n, v in self.given.items() if n.endswith("_shape")}
        slots = signature(self.op).outputs
        if any(s.name in asked for s in slots):
            return {s.name: asked.get(s.name) or (0,) for s in slots}
        try:
            return dict(validate.infer(self.config()))
        except Undecidable as reason:
            raise OpdbError(f"{self.library}.{self.op}: no result has a shape: {reason}") from None

    def _dtypes(self, count: int) -> list[torch.dtype]:
        """Data types of the results from the first type row that fits the inputs; the first input's type if a cell has it."""
        own = signature(self.op)
        held: list[set[str]] = []
        for slot in own.inputs:
            value = self.given[slot.name]
            tensors = value if isinstance(value, (list, tuple)) else [value]
            held.append({SHORT.get(t.dtype, str(t.dtype)) for t in tensors if t is not None})
        first = next(iter(held[0]), "f32")
        cells = _fitting_row(self.op, held) or [frozenset({first})] * (len(own.inputs) + count)
        found = [_chosen(cell, first) for cell in cells[len(own.inputs) : len(own.inputs) + count]]
        return [self.given["dtype"] or found[0], *found[1:]]


def _fitting_row(op: str, held: Sequence[set[str]]) -> Sequence[frozenset[str]] | None:
    module = validators.module(op)
    for backend in PREFERRED:  # their type rows determine the result's type
        for row in getattr(module, f"ROWS_{backend}", ()):
            if all(found <= cell for found, cell in zip(held, row.cells, strict=False)):
                return list(row.cells)
    return None


def _chosen(cell: frozenset[str], first: str) -> torch.dtype:
    return TORCH[first if first in cell else next((d for d in TORCH if d in cell), first)]


def _ref(shape: Sequence[int], dtype: torch.dtype) -> TensorRef:
    own = tuple(int(d) for d in shape) or (1,)  # QNN has no tensors of rank 0
    return TensorRef(own, SHORT.get(dtype, str(dtype)), base_shape=own)
