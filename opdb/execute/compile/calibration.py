"""Calibration data in the command line's notation: samples of a model's inputs, by name, as real numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.execute.compile.inputs import archive, archive_names, describe, drawn

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Array = np.ndarray[Any, Any]
#: One value for each input, by its name.
Sample = dict[str, Array]
FORMS = "FILE.npz, a folder of .npz files, module:callable, example or random[:SEED]"
#: The number of samples that `random` draws.
DRAWN = 8


def check_source(spec: str) -> None:
    """Raises OpdbError if ``spec`` names nothing that ``read_samples`` could read; asks neither the model nor the user's code."""
    word, colon, seed = spec.partition(":")
    if word == "random":
        if colon and not (seed.isascii() and seed.isdigit()):
            raise OpdbError(f"--data {spec}: a seed is a whole number from 0; e.g. random:0")
        return
    path = Path(spec)
    if spec == "example":
        return
    if path.is_dir():
        if not any(path.glob("*.npz")):
            raise OpdbError(f"--data {spec}: the folder has no .npz file")
    elif spec.endswith(".npz"):
        archive_names(spec)
    elif path.is_file() and spec.endswith(".npy"):
        raise OpdbError(
            f"--data {spec}: .npy has no names for inputs; save it with numpy.savez(FILE.npz, INPUT=array) and give FILE.npz"
        )
    elif path.is_file():
        raise OpdbError(f"--data {spec}: not one of {FORMS}")
    elif ":" in spec:
        from opdb.programs.callables import check_callable

        check_callable(spec)
    else:
        raise OpdbError(f"--data {spec}: no such file or folder; give one of {FORMS}")


def read_samples(
    spec: str,
    inputs: Sequence[GraphTensor],
    *,
    example: Sequence[Any] | None = None,
    found: Callable[[str], Callable[[], Any]] | None = None,
) -> list[Sample]:
    """Returns the samples in ``spec``, checked against ``inputs`` (names, shapes, data types); at least one.

    ``FILE.npz``: an array for each input, of its shape, or with an additional leading axis: one sample each.  A folder:
    its .npz files, sorted by name.  ``module:callable`` (``found`` imports it): returns an iterable of samples,
    each a mapping by input name, a tuple in the order of the inputs, or for a single input its array.  ``example``: the
    model's own example inputs.  ``random[:SEED]``: normally distributed numbers, for trying things out.
    Raises OpdbError that names the file, the sample and the input.
    """
    samples: list[Sample] = []
    for where, given in _sources(spec, inputs, example, found):
        samples += _split(where, _named(where, given, inputs), inputs)
    if not samples:
        raise OpdbError(f"--data {spec}: no sample in it; give one of {FORMS}")
    return samples


def named_samples(data: str, inputs: Sequence[GraphTensor], program: ExportedProgram) -> list[Sample]:
    """Calls ``read_samples`` for a program: ``inputs`` in the program's order, with its example inputs."""
    from opdb.programs.callables import named_callable

    example = None if program.example_inputs is None else [x.numpy() for x in program.example_inputs[0]]
    return read_samples(data, inputs, example=example, found=named_callable)


def program_samples(
    data: str, program: ExportedProgram, names: Sequence[str] | None = None
) -> list[tuple[Array, ...]]:
    """Returns the samples as argument tuples for the program; ``names``: its file's names for the inputs."""
    found = named_samples(data, program_inputs(program, names), program)
    return [tuple(sample.values()) for sample in found]


def program_inputs(program: ExportedProgram, names: Sequence[str] | None = None) -> list[GraphTensor]:
    """The inputs of a program, named by ``names`` (from its file) or by its own names; 64-bit integers as i32."""
    from opdb.programs.torch.tensors import DTYPES

    given = program.graph_signature.user_inputs
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    values = [nodes[str(name)].meta["val"] for name in given]
    return [
        GraphTensor(str(name), DTYPES[value.dtype], tuple(map(int, value.shape)), "APP_WRITE")
        for name, value in zip(names or given, values, strict=True)
    ]


def _sources(
    spec: str,
    inputs: Sequence[GraphTensor],
    example: Sequence[Any] | None,
    found: Callable[[str], Callable[[], Any]] | None,
) -> Iterable[tuple[str, Any]]:
    word, _, seed = spec.partition(":")
    if word == "random":
        check_source(spec)
        generator = np.random.default_rng(int(seed or 0))
        return [(spec, {t.name: drawn(t, generator) for t in inputs}) for _ in range(DRAWN)]
    if spec == "example":
        if example is None:
            raise OpdbError("--data example: this model has no example inputs; give FILE.npz or a folder")
        return [(spec, tuple(example))]
    path = Path(spec)
    if path.is_dir():
        return [(str(p), archive(str(p))) for p in sorted(path.glob("*.npz"))]
    if spec.endswith(".npz"):
        return [(spec, archive(spec))]
    if ":" in spec and found is not None:
        return _called(spec, found(spec))
    raise OpdbError(f"--data {spec}: no such file or folder; give one of {FORMS}")


def _called(spec: str, make: Callable[[], Any]) -> Iterable[tuple[str, Any]]:
    try:
        for number, sample in enumerate(make(), 1):
            yield f"{spec}: sample {number}", sample
    except OpdbError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise OpdbError(f"--data {spec}: {type(error).__name__}: {error}") from error


def _named(where: str, given: Any, inputs: Sequence[GraphTensor]) -> Sample:
    """Returns one value for each input: from a mapping by name, a tuple in order, or the array of a single input."""
    names = [t.name for t in inputs]
    if not isinstance(given, Mapping):
        values = tuple(given) if isinstance(given, tuple | list) else (given,)
        if len(values) != len(names):
            raise OpdbError(
                f"--data {where}: {counted(len(values), 'value')} for {counted(len(names), 'input')} ({', '.join(names)})"
            )
        given = dict(zip(names, values, strict=True))
    if missing := [n for n in names if n not in given]:
        told = ", ".join(map(str, given)) or "nothing"
        raise OpdbError(f"--data {where}: no values for the input {missing[0]}; it has {told}")
    return {name: np.asarray(given[name]) for name in names}


def _split(where: str, values: Sample, inputs: Sequence[GraphTensor]) -> list[Sample]:
    """Returns one sample, or several if all inputs have an additional leading axis."""
    stacked: set[int | None] = set()
    for tensor in inputs:
        value = values[tensor.name]
        if value.shape == () and tensor.shape == (1,):  # QNN has no tensor without dimensions
            value = values[tensor.name] = value.reshape(1)
        if value.shape == tensor.shape:
            stacked.add(None)
        elif value.shape[1:] == tensor.shape:
            stacked.add(len(value))
        else:
            raise OpdbError(
                f"--data {where}: {tensor.name} has the shape {list(value.shape)}, the input is {describe(tensor)} "
                "(samples may be stacked along one more axis in front)"
            )
        values[tensor.name] = _typed(where, tensor, value)
    if len(stacked) > 1:
        counts = ", ".join(f"{t.name} {list(values[t.name].shape)}" for t in inputs)
        raise OpdbError(f"--data {where}: its inputs have different numbers of samples: {counts}")
    count = next(iter(stacked), None)
    return [values] if count is None else [{n: v[i] for n, v in values.items()} for i in range(count)]


def _typed(where: str, tensor: GraphTensor, value: Array) -> Array:
    kind = BY_SHORT[tensor.dtype]
    real = kind.qnn.startswith(("FLOAT", "BFLOAT"))
    if value.dtype.kind not in ("fiub" if real else "iub"):
        raise OpdbError(f"--data {where}: {tensor.name} has values of {value.dtype}; the input is {kind.qnn}")
    if real and not np.isfinite(value).all():
        raise OpdbError(f"--data {where}: {tensor.name} has a value that is not finite")
    return value.astype(np.float32 if real else kind.numpy)
