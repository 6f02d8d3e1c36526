"""Tests a torch operator's mapping numerically: calls of the operator are lowered, run by a library, and compared with PyTorch.

Tensors have the shapes of the op's samples; values are the schema's defaults, the samples' parameters and a few
usual ones.  Calls that PyTorch refuses are skipped.  Each value of each argument is preferably in some chosen call.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.catalog.facts import AtenArgument, AtenSchema
from opdb.catalog.facts.signature import torch_schema
from opdb.codegen.constants import PACKAGE
from opdb.codegen.packages import of_catalog
from opdb.core.errors import MissingExtra, OpdbError
from opdb.execute.packages import package as op_package
from opdb.generated.constants.backends import PACKAGED
from opdb.measure.conformance.data import PLACES
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.nodes import STR, Node, walk
from opdb.spec.mapping import CompiledMapping, compile_mapping, plain_type, results_read

if TYPE_CHECKING:
    import torch

    from opdb.execute.libraries.client import VendorWorker

#: The maximum number of calls run per target, and of combinations of values considered for them.
RUN, LOOKED_AT = 12, 2000
#: The tolerance of floats compared with PyTorch: relative and absolute.
BOUND = 1e-5


@dataclass(frozen=True)
class Call:
    """One call.  ``outcome``: same, differs, refused (no form accepts it), crashed or hung; ``text`` says why."""

    target: str
    arguments: str  # e.g. self=f32[2, 3], dim=0
    outcome: str
    text: str = ""


class Calls:
    """Calls of the targets that an op maps, on QNN's CPU backend; builds an op package for ops that need one."""

    def __init__(self, catalog: Catalog) -> None:
        _torch()
        self.catalog = catalog
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._workers: dict[str, VendorWorker] = {}

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *unused: object) -> None:
        for worker in self._workers.values():
            worker.close()
        if self._folder is not None:
            self._folder.cleanup()

    def run(self, op: str, target: str) -> Iterator[Call]:
        """Yields the calls of one target.  Raises OpdbError if the op does not map it, or PyTorch has no operator of that name."""
        compiled = self.catalog.compiled(op)
        mappings = self.catalog.mappings(op)
        if target not in mappings:
            raise OpdbError(f"{op} does not map {target}; it maps {', '.join(mappings) or 'none'}")
        definition = mappings[target]
        schema = torch_schema(target, definition.signature)
        mapping = compile_mapping(compiled, target, definition, schema)
        called = operator(target)
        for arguments in sample_calls(mapping, schema):
            yield self._call(mapping, called, arguments)

    def _call(self, mapping: CompiledMapping, called: Any, arguments: dict[str, Any]) -> Call:
        from opdb.catalog.targets.target import Target
        from opdb.checks.graph import build_graph
        from opdb.checks.verdicts import check_nodes
        from opdb.programs.torch.export import export
        from opdb.programs.torch.program import Program

        target, said = mapping.target, _shown(arguments)
        tensors = [
            t for a in arguments.values() for t in (a if _is_tensors(a) else [a]) if hasattr(t, "dtype")
        ]
        produced = results_read(list(mapping.outputs.values()))
        module = _module(called, arguments, produced)
        program = Program(export(module, tuple(tensors), target))
        coverage = check_nodes(program, Target(PACKAGED, execution="emulator"))
        for row in coverage.rows:
            if row.verdict != "supported":
                return Call(target, said, "refused", "; ".join(r["message"] for r in row.reasons))
        graph = build_graph(program, coverage.lowered)
        given = {
            t.name: _held(x).numpy().reshape(t.shape) for t, x in zip(graph.inputs, tensors, strict=True)
        }
        answer = self._worker({o.package for o in graph.ops}).run(graph, given)
        if answer.verdict != "yes":
            outcome = "refused" if answer.verdict == "no" else answer.verdict
            return Call(target, said, outcome, f"{answer.stage}: {answer.explained}")
        wanted = module(*tensors)
        wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        for number, (t, truth) in enumerate(zip(graph.outputs, wanted, strict=True)):
            worst = _difference(answer.outputs[t.name], truth)
            if worst is not None:
                return Call(target, said, "differs", f"result {number}: {worst}")
        return Call(target, said, "same")

    def _worker(self, packages: set[str]) -> VendorWorker:
        from opdb.execute.libraries.client import VendorWorker

        own = sorted(packages - {PACKAGE})
        key = " ".join(own)
        if key not in self._workers:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="opdb-packages-")
            root = Path(self._folder.name)
            built = [
                op_package.build(op_package.write(self.catalog, of_catalog(self.catalog)[p], root / p))
                for p in own
            ]
            self._workers[key] = VendorWorker(PACKAGED, op_packages=built)
        return self._workers[key]


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("PyTorch", "torch") from None
    return torch


def load_library(name: str) -> None:
    """Imports the file (.py) or module that defines torch operators.  Raises OpdbError if that fails."""
    import importlib
    import importlib.util

    _torch()
    try:
        if not name.endswith(".py"):
            importlib.import_module(name)
            return
        found = importlib.util.spec_from_file_location(Path(name).stem, name)
        assert found is not None and found.loader is not None  # by the suffix
        found.loader.exec_module(importlib.util.module_from_spec(found))
    except Exception as error:  # other people's code may raise anything
        raise OpdbError(f"--torch-library {name}: {type(error).__name__}: {error}") from error


def operator(target: str) -> Any:
    """The torch operator.  Raises OpdbError if PyTorch does not know it."""
    parts = target.split(".")
    if len(parts) != 3:
        raise OpdbError(f"'{target}' is not a torch operator; e.g. aten.relu.default, mylib.my_relu.default")
    namespace, op, overload = parts
    packet = getattr(getattr(_torch().ops, namespace), op, None)
    if packet is None or overload not in packet.overloads():
        raise OpdbError(
            f"PyTorch knows no operator {target}; name the file that defines it with --torch-library"
        )
    return getattr(packet, overload)


def _is_tensors(value: Any) -> bool:
    return isinstance(value, list) and any(hasattr(v, "dtype") for v in value)


def _module(called: Any, arguments: dict[str, Any], produced: set[int] | None) -> Any:
    """A module that takes the tensors among ``arguments`` and returns the results with these numbers; None: all."""

    class OneCall(_torch().nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            left = iter(tensors)
            given = {
                n: [next(left) for _ in a] if _is_tensors(a) else next(left) if hasattr(a, "dtype") else a
                for n, a in arguments.items()
            }
            made = called(**given)
            if produced is None or not isinstance(made, (list, tuple)):
                return made
            return tuple(made[i] for i in sorted(produced))

    return OneCall()


def _held(tensor: Any) -> Any:
    """Converts 64-bit indices to 32 bits, as QNN has no 64-bit indices."""
    torch = _torch()
    return tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor


def _difference(made: Any, truth: Any) -> str | None:
    import numpy as np

    expected = truth.numpy()
    got = made.reshape(expected.shape)
    if not truth.is_floating_point():
        return None if np.array_equal(got, expected) else f"{int((got != expected).sum())} values are others"
    if np.allclose(got, expected, rtol=BOUND, atol=BOUND, equal_nan=True):
        return None
    with np.errstate(invalid="ignore"):
        return f"up to {float(np.nanmax(np.abs(got - expected))):.3g} from PyTorch's"


def _shown(arguments: dict[str, Any]) -> str:
    def one(value: Any) -> str:
        if _is_tensors(value):
            return f"[{', '.join(map(one, value))}]"
        return (
            f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            if hasattr(value, "shape")
            else repr(value)
        )

    return ", ".join(f"{n}={one(v)}" for n, v in arguments.items())


# -- the arguments


def sample_calls(
    mapping: CompiledMapping, schema: AtenSchema, dtype: torch.dtype | None = None
) -> list[dict[str, Any]]:
    """Up to RUN calls that PyTorch accepts, by argument name, with the shapes of the op's samples and random values.

    ``dtype``: for tensors whose slot takes more than indices and truth values; default float32.
    """
    free = _torch().float32 if dtype is None else dtype
    return _chosen(_candidates(mapping.op, mapping, schema, free), operator(mapping.target))


def _candidates(
    op: CompiledOp, mapping: CompiledMapping, schema: AtenSchema, dtype: torch.dtype
) -> list[dict[str, list[Any]]]:
    """The values, for each sample, that each argument may have."""
    torch = _torch()
    torch.manual_seed(0)
    words = [n.value for n in _nodes(mapping) if n.kind == "const" and n.type == STR]
    out = []
    for sample in op.definition.samples:
        shapes = _shapes(op, mapping, sample)
        values: dict[str, list[Any]] = {}
        for a in schema.arguments:
            if a.type.startswith("Tensor"):
                values[a.name] = _tensors(op, mapping, a, shapes, dtype)
            else:
                values[a.name] = _distinct(_values(a, mapping, sample, words, shapes, dtype))
        out.append(values)
    return out


def _nodes(mapping: CompiledMapping) -> Iterator[Node]:
    tops = [*mapping.inputs.values(), *mapping.params.values(), *([mapping.when] if mapping.when else [])]
    return (n for top in tops for n in walk(top))


def _shapes(op: CompiledOp, mapping: CompiledMapping, sample: Any) -> dict[str, tuple[str, Any]]:
    """Argument -> the slot that only it feeds, and the slot's shape (for a variadic slot: the shapes)."""
    alone = {names[0]: slot for slot, n in mapping.inputs.items() if len(names := free_names(n)) == 1}
    return {name: (slot, sample[slot]) for name, slot in alone.items() if sample.get(slot) is not None}


def _tensors(
    op: CompiledOp,
    mapping: CompiledMapping,
    argument: AtenArgument,
    shapes: dict[str, tuple[str, Any]],
    dtype: torch.dtype,
) -> list[Any]:
    if argument.name not in shapes:
        return [None] if argument.optional else []
    slot, shape = shapes[argument.name]
    if plain_type(argument.type)[0] == "Tensor[]":
        return [[_tensor(op, slot, s, shapes, dtype) for s in shape]]
    made = [_tensor(op, slot, tuple(shape), shapes, dtype)]
    return [*made, None] if argument.optional else made


def _tensor(
    op: CompiledOp,
    slot: str,
    shape: tuple[int, ...],
    shapes: dict[str, tuple[str, Any]],
    dtype: torch.dtype,
) -> Any:
    """Indices if the slot holds positions or takes 32-bit integers only; they are valid for every dimension."""
    torch = _torch()
    kinds = op.definition.slots[slot].dtype
    if slot in PLACES or (kinds and set(kinds) <= {"i32", "u32"}):
        dims = [d for _, s in shapes.values() for d in s if isinstance(d, int)]
        return torch.randint(0, max(1, min(dims, default=1)), shape)
    if kinds == ["bool8"] or dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return (torch.randn(shape) if dtype.is_floating_point else torch.randint(0, 8, shape)).to(dtype)


def _values(
    argument: AtenArgument,
    mapping: CompiledMapping,
    sample: Any,
    words: list[str],
    shapes: dict[str, tuple[str, Any]],
    dtype: torch.dtype,
) -> Iterator[Any]:
    kind, _ = plain_type(argument.type)
    if argument.has_default:
        yield argument.default
    if argument.optional:
        yield None
    read = [p for p, n in mapping.params.items() if argument.name in free_names(n)]
    given = [sample[p] for p in read if p in sample]
    if kind == "bool":
        yield from (True, False)
    elif kind == "str":
        yield from words
    elif kind in ("int", "SymInt"):
        yield from (v for v in given if isinstance(v, int))
        yield from (0, 1, -1)
    elif kind == "Scalar" and not dtype.is_floating_point:
        yield from (True, False) if dtype == _torch().bool else (2, 1)
    elif kind in ("float", "Scalar"):
        yield from (float(v) for v in given if isinstance(v, (int, float)))
        yield from (0.5, 2.0)
    elif kind in ("int[]", "SymInt[]"):
        length = re.search(r"\[(\d+)\]", argument.type)
        n = int(length[1]) if length else None
        yield from (v for v in given if isinstance(v, list) and all(isinstance(i, int) for i in v))
        yield from _lists(n)
        for _, shape in list(shapes.values())[:1]:
            yield from (list(shape[-k:]) for k in (1, 2) if all(isinstance(d, int) for d in shape))


def _lists(n: int | None) -> Iterable[list[int]]:
    for length in (n,) if n else (1, 2):
        yield [1] * length
        yield [0] * length
        yield [i % 3 for i in range(1, length + 1)]
        yield [-1] * length


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({repr(v): v for v in values}.values())


def _chosen(samples: list[dict[str, list[Any]]], called: Any) -> list[dict[str, Any]]:
    """Calls that PyTorch accepts; those with a value that no earlier one has come first."""
    shown: set[tuple[str, str]] = set()
    fresh: list[dict[str, Any]] = []
    more: list[dict[str, Any]] = []
    for number, values in enumerate(samples):
        for combination in itertools.islice(itertools.product(*values.values()), LOOKED_AT):
            call = dict(zip(values, combination, strict=True))
            marks = {(n, repr(v) if not hasattr(v, "shape") else f"{number}") for n, v in call.items()}
            if works(called, call):
                (fresh if marks - shown else more).append(call)
                shown |= marks
    return [*fresh, *more][:RUN]


def works(called: Any, arguments: dict[str, Any]) -> bool:
    """True if PyTorch accepts the call."""
    try:
        called(**arguments)
    except Exception:  # PyTorch may raise anything for arguments that it does not accept
        return False
    return True
