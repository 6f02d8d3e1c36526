"""Calls the generated C code from Python: validates, infers the shapes of outputs, runs kernels.

Op configs in, numpy arrays in and out.  Arrays are passed without a copy if they are contiguous and have
the config's dtype; the call keeps everything that C reads alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.generated import validators
from opdb.runtime.binding import Context, arrange
from opdb.runtime.checks import Strength, Violation

if TYPE_CHECKING:
    import numpy as np

try:
    from opdb.runtime._native import ffi, lib
except ImportError as error:  # a source tree that has not been built
    raise OpdbError(f"the C part of opdb is not built ({error}); run: pip install -e .") from None

STATUS = {lib.OPDB_OK: "ok", lib.OPDB_INVALID: "invalid", lib.OPDB_UNSUPPORTED: "unsupported",
          lib.OPDB_UNKNOWN_OP: "unknown op", lib.OPDB_TOO_SMALL: "too small", lib.OPDB_UNDECIDABLE: "undecidable",
          lib.OPDB_OUTSIDE: "an index lies outside of its tensor"}  # fmt: skip
ENCODINGS = {None: lib.OPDB_ENCODING_NONE, "SCALE_OFFSET": 0, "AXIS_SCALE_OFFSET": 1, "BW_SCALE_OFFSET": 2,
             "BW_AXIS_SCALE_OFFSET": 3, "BLOCK": 4, "BLOCKWISE_EXPANSION": 5, "VECTOR": 6}  # fmt: skip

STRENGTHS: dict[int, Strength] = {
    lib.OPDB_REQUIRE: "require", lib.OPDB_EXPECT: "expect", lib.OPDB_ERRATUM: "erratum",
}  # fmt: skip
TENSOR_TYPES = {
    name: getattr(lib, f"OPDB_TENSOR_{name}") for name in ("APP_WRITE", "APP_READ", "NATIVE", "STATIC")
}


def address_of_find() -> int:
    """The address of ``opdb_find``, with which other libraries in this process find the C kernels."""
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, "opdb_find")))


class KernelError(OpdbError):
    """A kernel did not run: ``status`` is the reason, ``violations`` the broken rules."""

    def __init__(self, op: str, status: str, violations: tuple[Violation, ...] = ()) -> None:
        self.status, self.violations = status, violations
        reasons = "; ".join(f"{v.rule}: {v.message}" for v in violations)
        super().__init__(f"{op}: the C kernel answers '{status}'" + (f": {reasons}" if reasons else ""))


class Arena:
    """Owns the C structures of one call."""

    def __init__(self) -> None:
        self.keep: list[Any] = []

    def new(self, type_: str, value: Any = None) -> Any:
        made = ffi.new(type_, value) if value is not None else ffi.new(type_)
        self.keep.append(made)
        return made

    def text(self, value: str) -> Any:
        return self.new("char[]", value.encode())

    def tensor(self, config: TensorConfig, array: Any = None) -> Any:
        out = self.new("opdb_tensor *")
        out.rank, out.dims = len(config.shape), self.new("int64_t[]", list(config.shape) or [0])
        out.dtype = BY_SHORT[config.dtype].code
        quant = config.quant
        out.encoding = ENCODINGS[quant.encoding if quant else None]
        out.symmetric = quant.symmetric(config.dtype) if quant else True
        out.axis = -1 if quant is None or quant.axis is None else quant.axis
        out.type, out.is_sparse = TENSOR_TYPES[config.type], config.sparse is not None
        values = config.values()
        if values is not None:
            out.values = self.new("opdb_ints *", (len(values), self.new("int64_t[]", values or [0])))
        out.quant = self.quant(quant) if quant else ffi.NULL
        if array is not None:
            self.keep.append(array)
            out.data = ffi.cast("void *", array.ctypes.data)
        return out

    def quant(self, quant: Quant) -> Any:
        offsets = list(quant.offset) or [0] * len(quant.scale)
        n = min(len(quant.scale), len(offsets))
        scales = self.new("float[]", list(quant.scale[:n]) or [0.0])
        return self.new(
            "opdb_quant *", (n, scales, self.new("int32_t[]", offsets[:n] or [0]), quant.bits or 0)
        )

    def param(self, config: ParamConfig, out: Any) -> None:
        values = [config.value] if config.shape is None else list(config.value)
        out.name, out.dtype = self.text(config.name), BY_SHORT[config.dtype].code
        out.rank = 0 if config.shape is None else len(config.shape)
        out.dims = self.new("int64_t[]", list(config.shape or ()) or [0])
        out.count = len(values)
        numbers = [v for v in values if isinstance(v, (bool, int, float))]
        out.real = float(numbers[0]) if numbers else 0.0
        if config.shape is not None and config.dtype.startswith(("f", "bf")):
            out.reals = self.new("double[]", [float(v) for v in numbers] or [0.0])
        whole = [int(v) if isinstance(v, (bool, int)) else 0 for v in values]
        out.ints = self.new("int64_t[]", whole or [0])

    def op(
        self, config: OpConfig, arrays: Sequence[Any] | None = None, results: Sequence[Any] | None = None
    ) -> Any:
        """The C struct of a config; ``arrays`` and ``results``: data of its inputs and outputs, in order."""
        module = validators.module(config.op)
        if module is None:
            raise KernelError(config.op, "unknown op")
        out = self.new("opdb_op *")
        out.op = self.text(config.op)
        for group, slots, data in (
            ("inputs", module.SIGNATURE.inputs, arrays),
            ("outputs", module.SIGNATURE.outputs, results),
        ):
            tensors = getattr(config, group)
            by_id = {} if data is None else {id(t): a for t, a in zip(tensors, data, strict=True)}
            made = [
                ffi.NULL if t is None else self.tensor(t, by_id.get(id(t))) for t in arrange(tensors, slots)
            ]
            setattr(out, f"num_{group}", len(made))
            setattr(out, group, self.new("opdb_tensor *[]", made or [ffi.NULL]))
        params = self.new("opdb_param[]", max(len(config.params), 1))
        for i, p in enumerate(config.params):
            self.param(p, params[i])
        out.num_params, out.params = len(config.params), params
        return out


def number_of_ops() -> int:
    """The number of ops in the dispatch table of the compiled library."""
    return int(lib.opdb_num_entries)


def _entry(op: str) -> Any:
    entry = lib.opdb_find(op.encode())
    if entry == ffi.NULL:
        raise KernelError(op, "unknown op")
    return entry


def _violations(report: Any) -> tuple[Violation, ...]:
    def text(pointer: Any) -> str:
        return str(ffi.string(pointer).decode())

    found = (report.v[i] for i in range(report.n))
    return tuple(
        Violation(
            text(v.rule),
            text(v.sentence),
            text(v.got),
            v.undecidable,
            STRENGTHS[v.strength],
            why=text(v.why),
            erratum=text(v.erratum),
            effect=text(v.effect),
        )
        for v in found
    )


def validate(config: OpConfig, context: Context | None = None) -> tuple[Violation, ...]:
    """Runs the generated C validator on ``config``; it has the same rules and values as the Python validator."""
    context = context or Context()
    arena = Arena()
    op, report = arena.op(config), ffi.new("opdb_report *")
    backend = -1 if context.backend is None else validators.BACKENDS.index(context.backend)
    target = ffi.new("opdb_target *", asdict(context) | {"backend": backend})
    _entry(config.op).validate(op, target, report)
    return _violations(report)


def infer(config: OpConfig) -> list[list[int]] | None:
    """The shapes of all output tensors in order; None if inputs and parameters do not determine them."""
    arena = Arena()
    op, report, shapes = arena.op(config), ffi.new("opdb_report *"), ffi.new("opdb_shapes *")
    if _entry(config.op).infer(op, shapes, report) != lib.OPDB_OK:
        return None
    return [[shapes.v[i].dims[d] for d in range(shapes.v[i].rank)] for i in range(shapes.n)]


class Prepared:
    """One op on the C kernels with bound arrays, for repeated runs.

    ``inputs`` and ``results`` have the array of each input (None if omitted) and output of ``config``:
    contiguous, with its shape and dtype, read and written in place; the attribute ``results`` has the same arrays.
    """

    def __init__(
        self, config: OpConfig, inputs: Sequence[np.ndarray | None], results: Sequence[np.ndarray]
    ) -> None:
        import numpy

        for side, tensors, arrays in (
            ("an input", config.inputs, inputs),
            ("an output", config.outputs, results),
        ):
            for t, a in zip(tensors, arrays, strict=True):
                if a is not None and not (
                    tuple(a.shape) == t.shape and a.dtype == numpy_dtype(t.dtype) and a.flags.c_contiguous
                ):
                    raise OpdbError(
                        f"{config.op}: {t.name or side} wants a contiguous array of {numpy_dtype(t.dtype)} "
                        f"{list(t.shape)}, got {a.dtype} {list(a.shape)}"
                    )
        self.op, self.results = config.op, list(results)
        self._arena = Arena()
        self._struct = self._arena.op(config, inputs, results)
        self._report = ffi.new("opdb_report *")
        entry = _entry(config.op)
        self._run = entry.run
        size = int(entry.scratch(self._struct))
        try:
            scratch = numpy.empty(size, dtype="uint8")
        except (MemoryError, ValueError):
            raise OpdbError(
                f"{config.op}: its kernel needs {counted(size, 'byte')} of scratch, which are not there"
            ) from None
        self._arena.keep.append(scratch)
        self._struct.scratch_size = scratch.size
        self._struct.scratch = ffi.cast("void *", scratch.ctypes.data) if scratch.size else ffi.NULL

    def run(self) -> None:
        """Computes the outputs.  Raises KernelError if the op is invalid or has no kernel for its data types."""
        self._report.n = 0
        status = self._run(self._struct, self._report)
        if status != lib.OPDB_OK:
            raise KernelError(self.op, STATUS.get(status, str(status)), _violations(self._report))


def run(config: OpConfig, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """Computes one op on the C kernels.

    ``arrays`` has the data of each input of ``config`` (None if omitted).  Returns one array per output, with
    the config's shape and dtype.  Raises KernelError if the op is invalid or has no kernel for these data
    types.
    """
    import numpy

    data = []
    for t, a in zip(config.inputs, arrays, strict=True):
        if a is not None and tuple(a.shape) != t.shape:
            raise OpdbError(
                f"{config.op}: the data of {t.name or 'an input'} has shape {list(a.shape)}, the config {list(t.shape)}"
            )
        data.append(
            None if a is None else numpy.ascontiguousarray(a, dtype=numpy_dtype(t.dtype)).reshape(t.shape)
        )
    prepared = Prepared(
        config, data, [numpy.empty(t.shape, dtype=numpy_dtype(t.dtype)) for t in config.outputs]
    )
    prepared.run()
    return prepared.results


def numpy_dtype(dtype: str) -> str:
    """The numpy storage type of a dtype, e.g. uint8 for uq8.  Raises OpdbError if its elements are not whole bytes."""
    storage = BY_SHORT[dtype].numpy
    if storage is None:
        raise OpdbError(f"{BY_SHORT[dtype].qnn} has no whole-byte elements; the C kernels do not take it")
    return storage
