"""Random op configs and buffers through the generated C: validate for every backend, infer, scratch, run.

    make fuzz [CONFIGS=1000000]

The C is compiled with AddressSanitizer and UBSan, so an access outside of a buffer and undefined behavior end the process.
Each batch of configs of one op runs in a child: a child that dies is a finding, whose config, buffer seed and last change
are written to build/fuzz, and the batch continues after it.  Progress is kept there, too: the same command resumes.
The C may rely on the requirements that opdb/runtime.h puts on callers: dense data of the shapes and types claimed by each
tensor, and as much scratch as ``scratch`` returns.  Less scratch has to be refused.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import random
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI
from changes import Changer
from configs import CONTEXTS, OTHERS, Maker
from isolated import isolated

from opdb.catalog.store import read_catalog
from opdb.core.dtypes import BY_SHORT
from opdb.core.files import write_atomically
from opdb.core.op_config import OpConfig, TensorConfig, from_json, to_json
from opdb.core.settings import specs_folder
from opdb.generated import validators
from opdb.runtime import native
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "fuzz"
BATCH = 250
#: Changes of one field of the C structures of each config, each of which counts as a config.
CHANGES = 9
#: Maximum bytes of all tensors of a config, and of scratch, for running it.
LARGEST = 1 << 18
#: Time limit for one config in seconds, after which its process is killed.
SECONDS = 30
Tell = Callable[[str], None]
REPORT, SHAPES = native.ffi.new("opdb_report *"), native.ffi.new("opdb_shapes *")
FILLS = ("bytes", "zeros", "small", "indices", "floats")


@dataclass(frozen=True)
class Case:
    """One config and the way it is run; ``seed`` determines the data."""

    config: OpConfig
    context: Any
    runs: bool
    fill: str
    seed: int
    short: bool  # one byte of scratch less than it needs


def batch(compiled: CompiledOp, seed: int, number: int) -> Iterator[Case]:
    """The cases of a batch, which depend only on the op's spec, ``seed`` and ``number``."""
    rng = random.Random(f"fuzz {compiled.name} {seed} {number}")
    contexts = (*CONTEXTS, *(c for c in OTHERS if c.backend in compiled.definition.backends))
    for drawn in Maker(compiled, rng).stream(BATCH):
        groups = {g: tuple(encoded(t, rng) for t in getattr(drawn, g)) for g in ("inputs", "outputs")}
        config = replace(drawn, **groups)
        size = sum(bytes_of(t) for t in (*config.inputs, *config.outputs) if t.type != "NULL")
        yield Case(
            config, rng.choice(contexts), size <= LARGEST, rng.choice(FILLS), rng.getrandbits(32),
            rng.random() < 0.1,
        )  # fmt: skip


def encoded(tensor: TensorConfig, rng: random.Random) -> TensorConfig:
    """``tensor``, randomly with a scale for each slice along the axis of its encoding, and with a number of bits."""
    quant = tensor.quant
    if quant is None or rng.random() < 0.3:
        return tensor
    axis = quant.axis
    if axis is not None and axis < len(tensor.shape) and tensor.shape[axis] <= 64:
        count = tensor.shape[axis]
        offsets = tuple(rng.choice((0, 0, -3, -128)) for _ in range(count))
        quant = replace(quant, scale=quant.scale[:1] * count, offset=offsets)
    if quant.encoding.startswith("BW"):
        quant = replace(quant, bits=rng.choice((1, 2, 4, 8, 16, 31)))
    return replace(tensor, quant=quant)


def bytes_of(tensor: TensorConfig) -> int:
    return math.prod(tensor.shape) * max(BY_SHORT[tensor.dtype].bits // 8, 1)


def buffer(tensor: TensorConfig, fill: str, rng: np.random.Generator) -> Any:
    """The data of a tensor in exactly as many bytes, so that an access beyond them is detected."""
    size = bytes_of(tensor)
    kind = np.dtype(BY_SHORT[tensor.dtype].numpy or "uint8")
    count = size // kind.itemsize
    if fill == "bytes":
        return np.frombuffer(rng.bytes(size), np.uint8).copy()
    if fill == "zeros":
        return np.zeros(size, np.uint8)
    if fill == "floats" and kind.kind == "f":
        made = rng.standard_normal(count).astype(kind)
    elif fill == "indices":
        made = rng.integers(-1 if kind.kind in "if" else 0, 6, count).astype(kind)
    else:
        made = rng.integers(0, 2, count).astype(kind)
    return made.view(np.uint8)


def known(tensor: TensorConfig, data: Any) -> TensorConfig:
    """A short static tensor of integers with its values, which rules read."""
    kind = np.dtype(BY_SHORT[tensor.dtype].numpy or "float32")
    if tensor.type != "STATIC" or kind.kind not in "iu" or data.size > 64 * kind.itemsize:
        return tensor
    return replace(tensor, data=data.view(kind).tolist())


class Arena(native.Arena):
    """Structs allocated by malloc, each surrounded by AddressSanitizer's red zones; Python's would be adjacent."""

    libc = FFI()
    libc.cdef("void *calloc(size_t, size_t); void free(void *);")
    own = libc.dlopen(None)
    allocate = staticmethod(
        native.ffi.new_allocator(
            lambda size: Arena.own.calloc(1, size),
            lambda p: Arena.own.free(p),
            should_clear_after_alloc=False,
        )
    )

    def new(self, type_: str, value: Any = None) -> Any:
        made = self.allocate(type_, value)
        self.keep.append(made)
        return made


def ask(case: Case, tell: Tell = lambda what: None) -> Counter[str]:
    """The C code's results for a case and for CHANGES others, each with one field of the C structures changed.

    ``tell`` receives each change before its call.
    """
    config = case.config
    arena, arrays, results = Arena(), None, None
    if case.runs:
        rng = np.random.default_rng(case.seed)
        arrays = [None if t.type == "NULL" else buffer(t, case.fill, rng) for t in config.inputs]
        results = [None if t.type == "NULL" else buffer(t, "bytes", rng) for t in config.outputs]
        config = replace(config, inputs=tuple(map(known, config.inputs, arrays)))
    op, said = arena.op(config, arrays, results), Counter[str]()
    tell("")
    _ask(case, op, said)
    changer = Changer(op, random.Random(case.seed))
    for _ in range(CHANGES):
        what, undo = changer.change()
        tell(what)
        _ask(case, op, said)
        undo()
    return said


def _ask(case: Case, op: Any, said: Counter[str]) -> None:
    entry, context, report = native._entry(case.config.op), case.context, REPORT
    backend = -1 if context.backend is None else validators.BACKENDS.index(context.backend)
    target = native.ffi.new("opdb_target *", asdict(context) | {"backend": backend})
    report.n = report.dropped = 0
    entry.validate(op, target, report)
    refused = any(report.v[i].strength == native.lib.OPDB_REQUIRE for i in range(report.n))
    said["configs"] += 1
    said["refused" if refused else "accepted"] += 1
    report.n = report.dropped = 0
    said["inferred"] += entry.infer(op, SHAPES, report) == native.lib.OPDB_OK
    if case.runs:
        said[_run(case, entry, op)] += 1


def _run(case: Case, entry: Any, op: Any) -> str:
    REPORT.n = REPORT.dropped = 0
    needed = int(entry.scratch(op))
    if needed > LARGEST * 64:
        return "too large"
    short = case.short and needed > 0
    scratch = np.empty(needed - short, np.uint8)
    op.scratch_size = scratch.size
    op.scratch = native.ffi.cast("void *", scratch.ctypes.data) if scratch.size else native.ffi.NULL
    status = native.STATUS[entry.run(op, REPORT)]
    if short and status == "ok":
        raise AssertionError(f"it ran with {scratch.size} bytes of scratch, and asked for {needed}")
    return f"run: {status}"


# -- batches in children, and their results


class State:
    """The progress, in a file written after each batch."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / f"state-{seed}.json"
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.done: int = kept.get("done", 0)
        self.seconds: float = kept.get("seconds", 0.0)
        self.batches: dict[str, int] = kept.get("batches", {})
        self.findings: list[str] = kept.get("findings", [])
        self.counts = {op: Counter(counts) for op, counts in kept.get("counts", {}).items()}

    def save(self) -> None:
        kept = {k: v for k, v in vars(self).items() if k != "path"}
        write_atomically(self.path, json.dumps(kept, indent=1, sort_keys=True))


PLACE = struct.Struct("q200s")  # the number of the current case, and the change made in it


def through(cases: list[Case], start: int, place: mmap.mmap) -> Counter[str]:
    """Runs the cases from ``start`` on; ``place`` records the current one."""
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for i in range(start, len(cases)):
        signal.alarm(SECONDS)
        counts += ask(cases[i], lambda what, i=i: PLACE.pack_into(place, 0, i, what.encode()))  # type: ignore[misc]
    signal.alarm(0)
    return counts


def do_batch(compiled: CompiledOp, seed: int, number: int, state: State) -> None:
    """Runs all cases of a batch; each one that kills its process is written to a file."""
    cases, place = list(batch(compiled, seed, number)), mmap.mmap(-1, PLACE.size)
    counts = state.counts.setdefault(compiled.name, Counter())
    start = 0
    while start < len(cases):
        begun = start

        def work(begun: int = begun) -> Counter[str]:
            return through(cases, begun, place)

        try:
            counts.update(isolated(work))
            break
        except AssertionError as error:
            found, changed = PLACE.unpack_from(place, 0)
            path = state.path.parent / f"{compiled.name}-{seed}-{number}-{found}.json"
            write_atomically(path, json.dumps(document(cases[found], changed, str(error)), indent=1))
            state.findings.append(path.name)
            print(f"finding: {path}: {str(error).strip().splitlines()[-1][:300]}", flush=True)
            counts["findings"] += 1
            start = found + 1
    state.batches[compiled.name] = number + 1
    state.done += len(cases) * (1 + CHANGES)


def document(case: Case, changed: bytes, said: str) -> dict[str, Any]:
    return {
        "changed": changed.rstrip(b"\0").decode(),
        "config": to_json(case.config),
        "context": vars(case.context),
        "runs": case.runs,
        "fill": case.fill,
        "seed": case.seed,
        "short": case.short,
        "said": said,
    }


def replay(path: Path) -> None:
    """Runs the case of a finding in this process."""
    kept = json.loads(path.read_text())
    context = type(CONTEXTS[0])(**kept["context"])
    config = from_json(kept["config"])
    print(dict(ask(Case(config, context, kept["runs"], kept["fill"], kept["seed"], kept["short"]))))


def fuzz(catalog: Catalog, ops: list[str], configs: int, seed: int, folder: Path = FOLDER) -> State:
    """Runs batches of each op in turn until ``configs`` of ``ops`` together are done."""
    folder.mkdir(parents=True, exist_ok=True)
    state = State(folder, seed)
    shown = begun = time.monotonic()
    before, already = state.seconds, state.done
    while state.done < configs:
        for op in sorted(ops, key=lambda o: state.batches.get(o, 0)):
            do_batch(catalog.compiled(op), seed, state.batches.get(op, 0), state)
            now = time.monotonic()
            state.seconds = before + now - begun
            state.save()
            if now - shown > 60 or state.done >= configs:
                speed = (state.done - already) / (now - begun)
                found = len(state.findings)
                print(f"{state.done} of {configs} configs, {speed:.0f}/s, {found} findings", flush=True)
                shown = now
            if state.done >= configs:
                break
    return state


COLUMNS = ("configs", "accepted", "refused", "inferred", "run: ok", "run: invalid", "run: unsupported",
           "run: too small", "run: an index lies outside of its tensor", "too large", "findings")  # fmt: skip


def table(state: State) -> str:
    """A line for each op, tab-separated, and the sums."""
    total: Counter[str] = Counter()
    lines = ["\t".join(("op", *COLUMNS))]
    for op, counts in sorted(state.counts.items()):
        total.update(counts)
        lines.append("\t".join((op, *(str(counts[c]) for c in COLUMNS))))
    lines.append("\t".join(("all", *(str(total[c]) for c in COLUMNS))))
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Random op configs and buffers through the generated C.")
    parser.add_argument("--configs", type=int, default=1_000_000, help="how many in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="only this op; may be repeated")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="ask again about the config of a finding")
    given = parser.parse_args()
    if given.replay:
        replay(given.replay)
        return 0
    catalog = read_catalog(specs_folder())
    state = fuzz(catalog, given.op or list(catalog.ops), given.configs, given.seed)
    text = table(state)
    write_atomically(state.path.with_suffix(".tsv"), text)
    print(text.splitlines()[0], text.splitlines()[-1], sep="\n")
    print(f"{state.done} configs in {state.seconds:.0f} s; by op: {state.path.with_suffix('.tsv')}")
    for name in state.findings:
        print(f"finding: {state.path.parent / name}")
    return int(bool(state.findings))


if __name__ == "__main__":
    sys.exit(main())
