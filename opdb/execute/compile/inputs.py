"""Arrays for the inputs of a graph, from files or from a seed, in the command line's notation."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.runtime.qnn.real_numbers import limits, to_stored
from opdb.runtime.qnn.structs import array

Array = np.ndarray[Any, Any]
FORMS = "FILE.npy, NAME=FILE.npy, FILE.npz, NAME=FILE.raw or random:SEED"


def feed(
    specs: Sequence[str], tensors: Sequence[GraphTensor], *, real: bool = False, steps: int = 1
) -> dict[str, Array]:
    """Returns the array of each input, as the library stores it.

    ``specs``: ``NAME=FILE`` for one input, ``FILE.npy`` or ``FILE.raw`` for the first one without values,
    ``FILE.npz`` for those that it names, ``random:SEED`` for all that are left at the end.  A raw file holds the
    values as stored, row-major.  ``real``: values of quantized inputs are real numbers, except in
    raw files; see opdb.runtime.qnn.real_numbers.to_stored.  A number without dimensions counts as the shape [1].  ``steps``: the
    number of runs; an array with an additional leading axis of that length has a value for each (``at_step``), and random values
    differ.  Raises OpdbError naming the input and the file.
    """
    given: dict[str, tuple[str, Any]] = {}
    seed: int | None = None
    by_name = {t.name: t for t in tensors}
    for spec in specs:
        name, equals, source = spec.partition("=")
        if equals and name in by_name:
            _give(given, name, source, _read(source, by_name[name]))
        elif spec.startswith("random:"):
            seed = _seed(spec)
        elif spec.endswith(".npz"):
            for key, value in archive(spec).items():
                if key not in by_name:
                    raise OpdbError(f"{spec}: this graph has no input {key!r}; {_inputs(tensors)}")
                _give(given, key, spec, value)
        elif equals and not Path(spec).exists():
            raise OpdbError(f"{spec}: this graph has no input {name!r}; {_inputs(tensors)}")
        else:
            left = next((t for t in tensors if t.name not in given), None)
            if left is None:
                raise OpdbError(f"{spec}: every input has its values already; {_inputs(tensors)}")
            _give(given, left.name, spec, _read(spec, left))
    generator = None if seed is None else np.random.default_rng(seed)
    out = {}
    for tensor in tensors:
        if tensor.name in given:
            out[tensor.name] = _stored(tensor, *given[tensor.name], real, steps)
        elif generator is not None:
            each = [drawn(tensor, generator) for _ in range(steps)]
            out[tensor.name] = each[0] if steps == 1 else np.stack(each)
        else:
            raise OpdbError(
                f"the input {tensor.name} has no values; give --inputs {FORMS}; {_inputs(tensors)}"
            )
    return out


def stored_inputs(values: Mapping[str, Any], tensors: Sequence[GraphTensor]) -> dict[str, Array]:
    """Converts real numbers by input name to what the library stores.  Raises OpdbError naming the input."""
    known = {t.name: t for t in tensors}
    for name in (*(n for n in known if n not in values), *(n for n in values if n not in known)):
        raise OpdbError(
            f"input {name!r}: {'no values' if name in known else 'no such input'}; {_inputs(tensors)}"
        )
    return {
        name: _stored(known[name], "inputs", np.asarray(value), real=True) for name, value in values.items()
    }


def not_finite(fed: Mapping[str, Array]) -> dict[str, int]:
    """The number of values that are NaN or infinite, for each floating-point input that has some."""
    found = {name: int(np.count_nonzero(~np.isfinite(a))) for name, a in fed.items() if a.dtype.kind == "f"}
    return {name: count for name, count in found.items() if count}


def at_step(fed: Mapping[str, Array], tensors: Sequence[GraphTensor], step: int) -> dict[str, Array]:
    """The arrays for one of the runs that ``feed`` prepared."""
    return {t.name: fed[t.name][step] if fed[t.name].ndim > len(t.shape) else fed[t.name] for t in tensors}


def drawn(tensor: GraphTensor, generator: np.random.Generator) -> Array:
    """Draws stored values: normally distributed real numbers, any value of a quantized type, 0 or 1 for other integers."""
    kind = BY_SHORT[tensor.dtype]
    if kind.quantized:
        low, high = limits(tensor.dtype)
        values = generator.integers(low, high, tensor.shape, endpoint=True)
    elif kind.qnn.startswith(("FLOAT", "BFLOAT")):
        values = generator.standard_normal(tensor.shape).astype(np.float32)
    else:
        values = generator.integers(0, 2, tensor.shape)
    return array(values, tensor.dtype, tensor.shape, f"input {tensor.name}")


def describe(tensor: GraphTensor) -> str:
    """Describes a tensor, e.g. x FLOAT_32 [200, 768]"""
    return f"{tensor.name} {BY_SHORT[tensor.dtype].qnn} {list(tensor.shape)}"


def _inputs(tensors: Sequence[GraphTensor]) -> str:
    return "its inputs: " + (", ".join(map(describe, tensors)) or "none")


def _give(given: dict[str, tuple[str, Any]], name: str, source: str, value: Any) -> None:
    if name in given:
        raise OpdbError(f"{source}: the input {name} has values from {given[name][0]} already")
    given[name] = (source, value)


def _seed(spec: str) -> int:
    text = spec.removeprefix("random:")
    if not text.isascii() or not text.isdigit():
        raise OpdbError(f"{spec}: a seed is a whole number from 0; e.g. random:0")
    return int(text)


class _Raw(bytes):
    """The content of a file without a header."""


def _read(source: str, tensor: GraphTensor) -> Any:
    if source.startswith("random:"):
        return _Raw(drawn(tensor, np.random.default_rng(_seed(source))).tobytes())
    if source.endswith(".npz"):
        raise OpdbError(f"{source}: an archive names its own inputs; give it without {tensor.name}=")
    try:
        if not source.endswith(".npy"):
            return _Raw(Path(source).read_bytes())
        return np.load(source, allow_pickle=False)
    except OSError as error:
        raise OpdbError(f"{source}: cannot read: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise OpdbError(f"{source}: not an array of numpy.save: {error}") from None


def archive(path: str) -> dict[str, Array]:
    """The arrays of an .npz file by name.  Raises OpdbError that names the file."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return {key: found[key] for key in found.files}
    except OSError as error:
        raise OpdbError(f"{path}: cannot read: {error.strerror or error}") from None
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise OpdbError(f"{path}: not an archive of numpy.savez: {error}") from None


def archive_names(path: str) -> tuple[str, ...]:
    """The names in an .npz file, without its arrays.  Raises OpdbError as ``archive``."""
    try:
        with zipfile.ZipFile(path) as found:
            return tuple(name.removesuffix(".npy") for name in found.namelist())
    except OSError as error:
        raise OpdbError(f"{path}: cannot read: {error.strerror or error}") from None
    except zipfile.BadZipFile as error:
        raise OpdbError(f"{path}: not an archive of numpy.savez: {error}") from None


def _stored(tensor: GraphTensor, source: str, value: Any, real: bool, steps: int = 1) -> Array:
    where = f"{source}: input {tensor.name}"
    numbers = ((),) if steps == 1 else ((), (steps,))
    if tensor.shape == (1,) and not isinstance(value, _Raw) and value.shape in numbers:
        value = value.reshape(*value.shape, 1)
    if steps > 1 and not isinstance(value, _Raw) and value.shape == (steps, *tensor.shape):
        return np.stack([_stored(tensor, source, v, real) for v in value])
    if isinstance(value, _Raw):
        stored = np.dtype(BY_SHORT[tensor.dtype].numpy or "uint8")
        size = math.prod(tensor.shape) * stored.itemsize
        if len(value) != size:
            raise OpdbError(f"{where}: {counted(len(value), 'byte')}; {describe(tensor)} has {size}")
        return np.frombuffer(value, stored).reshape(tensor.shape)
    if value.shape != tensor.shape:
        raise OpdbError(f"{where}: the shape is {list(tensor.shape)}, the file has {list(value.shape)}")
    if real:
        value = to_stored(tensor, value, where)
    return array(value, tensor.dtype, tensor.shape, where)
