"""Results of each op of opdb's delegates in a run: time, cycles, source line, module, and difference from PyTorch.

The figures come from ExecuTorch's ETDump, read by its Inspector with the ETRecord kept when the model was lowered
(docs/reference/executorch-delegate.md, "Debugging").
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor
from opdb.plugins.executorch.delegate import graph_read
from opdb.plugins.executorch.delegate.module import Module
from opdb.plugins.executorch.delegate.trace import Call, Inputs, calls, positional
from opdb.plugins.executorch.pte_file import Program, read
from opdb.runtime.qnn import real_numbers

Array = np.ndarray[Any, Any]
#: The tolerated difference of an op from PyTorch's value, relative to its largest value.
TOLERANCE = 0.01
#: Bytes for the values of all ops of a run, at most.  All of the buffer is written to a file and read again.
ROOM = 1 << 30
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)')


@dataclass(frozen=True)
class OpRow:
    """One op of one delegate.

    ``instruction``: index in the method of the call to the delegate; ``place``: the op's index in it.  ``torch``: the operators behind it.
    ``source``: the innermost line of the user's module, ``code``: its text; ``module``: the path of its module, "" for
    the outermost.  ``ms``: average of the runs.  ``cycles``: None if the backend does not count them.  ``gap``: the largest
    difference from PyTorch's value, relative to the largest value; None if ``note`` says why there is none.
    """

    instruction: int
    place: int
    name: str
    op: str
    torch: tuple[str, ...]
    source: str
    code: str
    module: str
    ms: float | None
    cycles: int | None
    gap: float | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """``backends``: of the delegates, by instruction.  ``rows``: in execution order."""

    method: str
    runs: int
    tolerance: float
    backends: Mapping[int, str]
    rows: tuple[OpRow, ...]

    @property
    def first(self) -> OpRow | None:
        """The first op that departs from PyTorch by more than the tolerance."""
        return next((r for r in self.rows if r.gap is not None and not r.gap <= self.tolerance), None)


def debug(
    pte: Path,
    etrecord: Path,
    inputs: Sequence[Any] | Path | None = None,
    *,
    method: str = "forward",
    runs: int = 3,
    tolerance: float = TOLERANCE,
    timeout: float = 600,
    progress: Callable[[str], None] = lambda stage: None,
) -> Report:
    """Runs ``method`` in a child process and compares its values with PyTorch's.

    ``inputs``: tensors, or a file of torch.save; by default the example inputs of the export.  ``progress`` is called with
    each stage.  Raises OpdbError for files of different lowerings, a program without a delegate of opdb's, and a failed run,
    with the backend's reason.
    """
    program = read(pte)
    found = calls(program, method)
    if not found:
        raise OpdbError(f"{pte}: {method} calls no delegate of opdb's; lower the model with OpdbPartitioner")
    with tempfile.TemporaryDirectory(prefix="opdb-debug-") as name:
        folder = Path(name)
        given = _inputs(inputs, etrecord, method, folder)
        progress("run")
        modules = {call.instruction: _module(program, call) for call in found}
        room = _room(program, method, modules.values())
        _trace(pte, given, method, runs, folder, timeout, room)
        progress("compute in PyTorch")
        edge = _edge(_record(etrecord), method, etrecord)
        expected = _expected(edge, given.tensors())
        progress("compare")
        times = _events(Path(folder, "times"), etrecord, None)
        values = _events(Path(folder, "values"), etrecord, Path(folder, "values.values"))
    rows = [
        _row(
            instruction,
            place,
            module,
            times.get((instruction, place)),
            values.get((instruction, place)),
            expected,
        )
        for instruction, module in modules.items()
        for place in range(len(module.graph.ops))
    ]
    backends = {i: m.identity.backend or "C kernels" for i, m in modules.items()}
    return Report(method, runs, tolerance, backends, tuple(rows))


def _inputs(inputs: Sequence[Any] | Path | None, etrecord: Path, method: str, folder: Path) -> Inputs:
    """The inputs as a file: the given one, or one in ``folder``.

    Example inputs come straight from the ETRecord's archive where it has them as a file: to read all of it takes ten seconds.
    """
    if isinstance(inputs, Path):
        if not inputs.is_file():
            raise OpdbError(f"{inputs}: no such file")
        return Inputs(str(inputs))
    file, saved = folder / "inputs", _saved_example(etrecord, method)
    if inputs is None and saved is not None:
        file.write_bytes(saved)
        return Inputs(str(file), str(etrecord))
    import torch

    if inputs is None:
        inputs = positional(_edge(_record(etrecord), method, etrecord).example_inputs, str(etrecord))
    torch.save(list(inputs), file)
    return Inputs(str(file))


def _saved_example(etrecord: Path, method: str) -> bytes | None:
    """What torch.save made of a method's example inputs; None if the ETRecord has no such file.  Raises OpdbError for no ETRecord."""
    try:
        with zipfile.ZipFile(etrecord) as archive:
            name = f"edge_dialect_exported_program/{method}_example_inputs"
            return archive.read(name) if name in archive.namelist() else None
    except OSError as error:
        raise OpdbError(f"{etrecord}: {error.strerror}") from None
    except zipfile.BadZipFile as error:
        raise OpdbError(f"{etrecord}: no ETRecord that this ExecuTorch reads: {error}") from None


def _record(path: Path) -> Any:
    from executorch.devtools.etrecord import parse_etrecord

    try:
        return parse_etrecord(str(path))
    except Exception as error:  # errors of its zip and its parts
        raise OpdbError(f"{path}: no ETRecord that this ExecuTorch reads: {error}") from None


def _edge(record: Any, method: str, path: Path) -> Any:
    edge = record.edge_dialect_program
    if isinstance(edge, Mapping):
        edge = edge.get(method)
    if edge is None:
        raise OpdbError(
            f"{path}: it holds no edge program of {method}; lower with generate_etrecord=True and save "
            "to_executorch().get_etrecord()"
        )
    return edge


def _room(program: Program, method: str, modules: Iterable[Module]) -> int:
    """Bytes that the values of a run take: what the ops of delegates and the method's own operators make, with room to spare."""
    outputs = (m.graph.tensors[name] for m in modules for op in m.graph.ops for name in op.outputs)
    elements = program.elements(method) + sum(math.prod(t.shape) for t in outputs)
    return min(ROOM, (1 << 20) + 32 * elements)


def _trace(
    pte: Path, inputs: Inputs, method: str, runs: int, folder: Path, timeout: float, room: int = ROOM
) -> None:
    """Runs the program in a child process, which writes its traces to ``folder``; with all of ROOM if ``room`` does not do."""
    names = {name: str(folder / name) for name in ("times", "values", "result")}
    request = {
        "pte": str(pte),
        "inputs": astuple(inputs),
        "method": method,
        "runs": runs,
        "room": room,
        **names,
    }
    asked = folder / "request.json"
    asked.write_text(json.dumps(request), encoding="utf-8")
    command = [sys.executable, "-m", "opdb.plugins.executorch.delegate.trace", str(asked)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise OpdbError(f"{pte}: the run took more than {timeout:g} s; --timeout gives it longer") from None
    result = folder / "result"
    if not result.is_file() and room < ROOM:
        _trace(pte, inputs, method, runs, folder, timeout)
        return
    if not result.is_file():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise OpdbError(f"{pte}: the process that ran it ended with {done.returncode}: {last[0]}")
    answer = json.loads(result.read_text(encoding="utf-8"))
    if "error" in answer:
        raise OpdbError(f"{pte}: {answer['reason'] or answer['error']}")


def _events(etdump: Path, etrecord: Path, values: Path | None) -> dict[tuple[int, int], Any]:
    """The Inspector's events for ops of delegates, by instruction and place."""
    from executorch.devtools import Inspector

    inspector = Inspector(
        etdump_path=str(etdump),
        etrecord=str(etrecord),
        debug_buffer_path=None if values is None else str(values),
    )
    return {
        (event._instruction_id, event.delegate_debug_identifier): event
        for block in inspector.event_blocks
        for event in block.events
        if event.is_delegated_op and isinstance(event.delegate_debug_identifier, int)
    }


def _module(program: Program, call: Call) -> Module:
    return graph_read.read(call.blob, program.named_data, f"the blob of instruction {call.instruction}")


def _expected(edge: Any, inputs: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """The results of each node in PyTorch, by debug handle."""
    import torch

    found: dict[int, tuple[Any, ...]] = {}

    class Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # untyped base
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            handle = n.meta.get("debug_handle")
            if n.op == "call_function" and isinstance(handle, int):
                each = value if isinstance(value, (tuple, list)) else (value,)
                found[handle] = tuple(v.detach() if isinstance(v, torch.Tensor) else None for v in each)
            return value

    with torch.no_grad():
        Interpreter(edge.module()).run(*inputs)
    return found


def _row(
    instruction: int,
    place: int,
    module: Module,
    timed: Any,
    valued: Any,
    expected: Mapping[int, tuple[Any, ...]],
) -> OpRow:
    op = module.graph.ops[place]
    event = timed if timed is not None else valued
    node, (source, code) = "", ("", "")
    if event is not None and event.stack_traces:
        node = list(event.stack_traces)[-1]
        source, code = _place(event.stack_traces[node] or "")
    gap, note = _gap(module, op, valued, expected)
    return OpRow(
        instruction,
        place,
        op.name,
        op.op,
        tuple(event.op_types) if event is not None else (),
        source,
        code,
        _module_of(event, node),
        float(timed.perf_data.avg) if timed is not None and timed.perf_data is not None else None,
        _cycles(timed),
        gap,
        note,
    )


def _place(trace: str) -> tuple[str, str]:
    """The innermost line outside of PyTorch: FILE:LINE, and its text."""
    frames = _FRAME.findall(trace)
    own = [f for f in frames if "/site-packages/torch/" not in f[0]] or frames
    return (f"{own[-1][0]}:{own[-1][1]}", own[-1][3].strip()) if own else ("", "")


def _module_of(event: Any, node: str) -> str:
    stack = (event.module_hierarchy or {}).get(node) if event is not None else None
    return str(list(stack.values())[-1][0]) if stack else ""


def _cycles(event: Any) -> int | None:
    """The cycles of the last run, on the emulation or a chip, as counted by the library."""
    told = [
        json.loads(m).get("cycles")
        for m in (event.delegate_debug_metadatas if event is not None else ())
        if m
    ]
    return int(told[-1]) if told and told[-1] is not None else None


def _gap(
    module: Module, op: GraphOp, event: Any, expected: Mapping[int, tuple[Any, ...]]
) -> tuple[float | None, str]:
    handles = module.handles.get(op.name, ())
    wanted = expected.get(handles[-1]) if handles else None
    if wanted is None:
        return None, "no node of PyTorch"
    if _maker(module, handles[-1]) != op.name:
        return None, "on the way to the value of the node"
    values = [] if event is None else list(_logged(event))
    if not values:
        return None, "inside the graph; Options(results='all') shows it"
    tensors = [module.graph.tensors[name] for name in op.outputs]
    worst = 0.0
    for tensor, value, reference in zip(tensors, values, wanted, strict=False):
        if reference is None:
            return None, "no tensor in PyTorch"
        gap = _distance(_real(tensor, value), reference.float().numpy())
        if gap is None:
            return None, f"another form: {list(tensor.shape)}, in PyTorch {list(reference.shape)}"
        worst = gap if math.isnan(gap) else max(worst, gap)
    return worst, ""


def _maker(module: Module, handle: int) -> str:
    """The op that makes the value of a node: the last of the ops that the node became."""
    return [op.name for op in module.graph.ops if module.handles.get(op.name, ())[-1:] == (handle,)][-1]


def _logged(event: Any) -> Iterator[Array]:
    for value in event.debug_data:
        if value is not None:
            yield value.detach().cpu().numpy() if value.dtype.is_floating_point else value.cpu().numpy()


def _real(tensor: GraphTensor, value: Array) -> Array:
    """The real numbers that a tensor's stored values represent."""
    real = real_numbers.to_real(tensor, value.reshape(tensor.shape), f"the tensor {tensor.name}")
    return np.asarray(real, np.float32)


def _distance(found: Array, wanted: Array) -> float | None:
    """The largest difference relative to the largest wanted value; None if neither layout has the shape."""
    forms = [found] if found.shape == wanted.shape else []
    if found.ndim >= 3 and (moved := np.moveaxis(found, -1, 1)).shape == wanted.shape:
        forms.append(moved)  # channels last, QNN's image layout
    if not forms and [d for d in found.shape if d != 1] == [d for d in wanted.shape if d != 1]:
        forms = [found.reshape(wanted.shape)]
    if not forms:
        return None
    if not wanted.size:
        return 0.0
    largest = float(np.abs(wanted).max())
    return min(float(np.abs(form - wanted).max()) for form in forms) / (largest or 1.0)
