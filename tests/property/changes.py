"""Changes one field of an op's C structures and reverts it, quickly; covers states that no op config can express.

The buffers stay unchanged, so a tensor never claims more bytes than it has; one without data may claim anything.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from opdb.core.dtypes import DTYPES
from opdb.runtime import native

Undo = Callable[[], None]
SIZES = {d.code: max(d.bits // 8, 1) for d in DTYPES}
BITS = {d.code: d for d in DTYPES}
ENCODINGS = (0, 1, 2, 3, 4, 5, 6, native.lib.OPDB_ENCODING_NONE)
REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 1e30, float("inf"), float("-inf"), float("nan"))
WHOLE = (0, 1, 2, 3, 4, 7, 100, 2**31 - 1, 2**32 - 1, -1, -2, -(2**31))


class Changer:
    """Changes of an ``opdb_op *``; everything is drawn from ``rng``."""

    def __init__(self, op: Any, rng: random.Random) -> None:
        self.op, self.rng = op, rng
        self.tensors = [t for t in self._tensors() if t != native.ffi.NULL]
        self.sizes = [claimed(t) for t in self.tensors]
        self.params = [op.params[i] for i in range(op.num_params)]

    def _tensors(self) -> Iterator[Any]:
        op = self.op
        yield from (op.inputs[i] for i in range(op.num_inputs))
        yield from (op.outputs[i] for i in range(op.num_outputs))

    def change(self) -> tuple[str, Undo]:
        """Makes a change; returns its description and a function that undoes it."""
        kinds: list[Callable[[], tuple[str, Undo]]] = [self._slots]
        kinds += [self._tensor] * 4 if self.tensors else []
        kinds += [self._param] * 3 if self.params else []
        return self.rng.choice(kinds)()

    def _tensor(self) -> tuple[str, Undo]:
        rng = self.rng
        number = rng.randrange(len(self.tensors))
        t = self.tensors[number]
        kind = rng.choice(
            ("dim", "dim", "rank", "dtype", "encoding", "axis", "scales", "bits", "type", "flags")
        )
        before = {f: getattr(t, f) for f in FIELDS}
        dims = [t.dims[i] for i in range(t.rank)]

        def undo() -> None:
            for field, value in before.items():
                setattr(t, field, value)
            for i, d in enumerate(dims):
                t.dims[i] = d

        undo_quant = self._change_tensor(t, kind)
        if t.data != native.ffi.NULL and claimed(t) > self.sizes[number]:
            undo()  # it would claim more than its buffer has
        if kind in ("dim", "rank", "dtype"):
            t.values = native.ffi.NULL

        def undo_all() -> None:
            undo()
            undo_quant()

        return f"tensor {number}: {kind}", undo_all

    def _change_tensor(self, t: Any, kind: str) -> Undo:
        rng = self.rng
        if kind == "dim" and t.rank:
            i, j = rng.randrange(t.rank), rng.randrange(t.rank)
            if rng.random() < 0.4:
                t.dims[i], t.dims[j] = t.dims[j], t.dims[i]
            else:
                t.dims[i] = rng.choice((0, 1, 2, max(t.dims[i] - 1, 0), t.dims[i] // 2, 2**31 - 1, 2**32 - 1))
        elif kind == "rank":
            t.rank = rng.randrange(t.rank + 1)
        elif kind == "dtype":
            t.dtype = rng.choice(DTYPES).code
        elif kind == "encoding":
            t.encoding = rng.choice(ENCODINGS)
        elif kind == "axis":
            t.axis = rng.choice((-1, 0, 1, 2, 3, t.rank, 15, 2**31 - 1, -(2**31)))
        elif kind == "type":
            t.type = rng.choice((0, 1, 2, 3, 4))
        elif kind == "flags":
            t.is_sparse, t.symmetric = rng.random() < 0.5, rng.random() < 0.5
        elif t.quant != native.ffi.NULL:
            q = t.quant
            n, bits = q.n, q.bits

            def undo() -> None:
                q.n, q.bits = n, bits

            if kind == "scales":
                q.n = rng.randrange(q.n + 1)
            else:
                q.bits = rng.choice((0, 1, 4, 8, 16, 31, 32, 64))
            return undo
        return _nothing

    def _param(self) -> tuple[str, Undo]:
        rng = self.rng
        number = rng.randrange(len(self.params))
        p = self.params[number]
        before = p.dtype, p.count, p.real
        ints = [p.ints[i] for i in range(p.count)]
        first = p.dims[0] if p.rank else 0

        def undo() -> None:
            p.dtype, p.count, p.real = before
            for i, value in enumerate(ints):
                p.ints[i] = value
            if p.rank:
                p.dims[0] = first

        kind = rng.choice(("value", "value", "value", "real", "dtype", "shorter"))
        if kind == "value" and p.count:
            whole = [v for v in WHOLE if fits(v, p.dtype)]
            p.ints[rng.randrange(p.count)] = rng.choice(whole)
        elif kind == "real":
            p.real = rng.choice(REALS)
        elif kind == "dtype":
            p.dtype = rng.choice(DTYPES).code
        elif kind == "shorter" and p.rank == 1 and p.count:
            p.dims[0] = p.count = rng.randrange(p.count)
        return f"param {number}: {kind}", undo

    def _slots(self) -> tuple[str, Undo]:
        op, rng = self.op, self.rng
        group = rng.choice(("inputs", "outputs"))
        count, slots = f"num_{group}", getattr(op, group)
        before = [slots[i] for i in range(getattr(op, count))]
        number = len(before)

        def undo() -> None:
            setattr(op, count, number)
            for i, t in enumerate(before):
                slots[i] = t

        kind = rng.choice(("fewer", "null", "swap", "no params"))
        if kind == "no params":
            params = op.num_params
            op.num_params = rng.randrange(params + 1)

            def more() -> None:
                op.num_params = params

            return "fewer params", more
        if number:
            i, j = rng.randrange(number), rng.randrange(number)
            if kind == "fewer":
                setattr(op, count, i)
            elif kind == "null":
                slots[i] = native.ffi.NULL
            else:
                slots[i], slots[j] = before[j], before[i]
        return f"{group}: {kind}", undo


FIELDS = ("rank", "dtype", "encoding", "symmetric", "type", "is_sparse", "axis", "values")


def _nothing() -> None:
    """Undoes nothing."""


def claimed(t: Any) -> int:
    """The bytes of a tensor by its shape and type."""
    size = SIZES[t.dtype]
    for i in range(t.rank):
        size *= t.dims[i]
    return size


def fits(value: int, dtype: int) -> bool:
    """True if an integer parameter of that type can have the value."""
    kind = BITS[dtype]
    signed = not kind.qnn.startswith(("U", "BOOL"))
    if kind.qnn.startswith("BOOL"):
        return value in (0, 1)
    low, high = (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1)) if signed else (0, 2**kind.bits)
    return low <= value < high
