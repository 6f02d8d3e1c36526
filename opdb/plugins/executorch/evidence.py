"""Evidence for PyTorch's operators in ExecuTorch's flow: a module for each, compiled with opdb's builders and run on the emulation.

The modules and the code that measures one are in corpus/operators (whole_flow.py) of a checkout of opdb.  An operator
gets the outcome of the module with the fewest other operators.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import opdb.core
from opdb.catalog.evidence import STAGES, Cell, Evidence, Key, Outcome, Run
from opdb.catalog.evidence.format import read, write
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.generated.constants.backends import DEFAULT
from opdb.measure.evidence.build import WRITE_SECONDS, Built, Progress, run_of
from opdb.measure.evidence.chips import Place
from opdb.measure.evidence.measure import HASH, Library
from opdb.plugins.executorch import env, process
from opdb.runtime.qnn.libraries import installed
from opdb.spec.catalog import Catalog

#: Name of a precision -> the recipe of whole_flow.py.
PRECISIONS = {"float": "fp16", "8a8w": "8a8w", "16a8w": "16a8w"}
#: The default chips.
SOCS = ("SM8650", "SM8750", "SM8550", "SM8450")
#: Modules per child process, and the seconds for each.
CHUNK, SECONDS = 24, 120.0
#: Outcome of a module -> its statuses; for "ends", only the text says at which stage.
STATUSES: Mapping[str, tuple[str, ...]] = {
    "right": ("yes", "yes", "yes", "yes"),
    "partly": ("no", "yes", "yes", "yes"),  # some nodes fall back to the CPU
    "wrong": ("yes", "yes", "yes", "no"),
    "ends": ("unknown", "unknown", "no", "unknown"),
    "floats": ("not-applicable",) * 4,  # nothing in it is quantized, e.g. whole numbers
}


def modules_folder(folder: Path | None = None) -> Path:
    """The folder corpus/operators of this checkout, or ``folder``.  Raises OpdbError if it has no whole_flow.py."""
    found = folder or Path(opdb.core.__file__).parents[2] / "corpus" / "operators"
    if not (found / "whole_flow.py").is_file():
        raise OpdbError(
            f"{found}: no whole_flow.py; the modules come with a checkout of opdb: name its corpus/operators with --modules"
        )
    return found


def representatives(catalog: Catalog, folder: Path) -> dict[str, str]:
    """Maps each mapped ATen operator to its module: the one with the fewest other operators, the first in a tie."""
    mapped = {target for op in catalog.ops for target in catalog.mappings(op)}
    mapped |= {target for c in catalog.candidates for target in c.torch}
    held: Mapping[str, Sequence[str]] = process.call(
        "whole_flow:operators", environment=env.prepare(), path=[folder], timeout=3600.0
    )
    found: dict[str, tuple[int, str]] = {}
    for name, targets in held.items():
        mine = [t for t in targets if t in mapped]
        for target in mine:
            if target not in found or len(mine) < found[target][0]:
                found[target] = (len(mine), name)
    return {target: name for target, (_, name) in sorted(found.items())}


def build_flow(
    catalog: Catalog,
    path: Path,
    socs: Sequence[str] = SOCS,
    precisions: Sequence[str] = tuple(PRECISIONS),
    operators: Sequence[str] | None = None,
    *,
    folder: Path | None = None,
    again: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Built:
    """Updates the file at ``path`` with the results of ExecuTorch's flow for each operator; see ``opdb.measure.evidence.build``.

    Raises OpdbError for an operator without a module, and without the extra executorch.
    """
    started = written = time.monotonic()
    modules = modules_folder(folder)
    environment = env.prepare()
    wanted = representatives(catalog, modules)
    for target in operators or ():
        if target not in wanted:
            raise OpdbError(
                f"no module with the operator {target}; there are modules of {counted(len(wanted), 'operator')}"
            )
    wanted = {t: name for t, name in wanted.items() if not operators or t in operators}
    evidence = read(path) if path.is_file() else Evidence()
    built = Built(path)
    jobs = [
        (run, precision, names[i : i + CHUNK])
        for soc in socs
        for run in [_run(soc, catalog)]
        for precision in precisions
        for names in [_missing(evidence, run, precision, wanted, again)]
        for i in range(0, len(names), CHUNK)
    ]
    built.kept = len(wanted) * len(socs) * len(precisions)
    try:
        for done, (run, precision, names) in enumerate(jobs, 1):
            lines = {
                x["name"]: x for x in _lines(modules, environment, names, PRECISIONS[precision], run.soc)
            }
            for target, name in wanted.items():
                if name in lines:
                    cell = Cell("torch", target, precision, run, _outcome(lines[name]))
                    evidence.cells[cell.key] = cell
                    built.measured += 1
                    built.kept -= 1
            now = time.monotonic()
            if now - written > WRITE_SECONDS:
                write(path, evidence)
                written = now
            if progress is not None:
                where = f"{run.flow} {precision} {run.soc}"
                progress(Progress(done, len(jobs), where, built.measured, now - started))
    finally:
        built.size = write(path, evidence)
    built.cells, built.seconds = len(evidence), time.monotonic() - started
    return built


def _run(soc: str, catalog: Catalog) -> Run:
    """The run for cells of the flow: the installed wheel's library, which ExecuTorch's environment uses."""
    libraries = installed()
    sdk = ".".join(libraries.qnn_version().split(".")[:2])
    asked = Library(DEFAULT, catalog, soc, libraries.folder)
    try:
        record = asked.library()
    finally:
        asked.close()
    flow = f"ExecuTorch {importlib.metadata.version('executorch')}"
    return replace(run_of(Place(DEFAULT, sdk, soc, libraries.folder), record, 0, 0), flow=flow)


def _missing(
    evidence: Evidence, run: Run, precision: str, wanted: Mapping[str, str], again: bool
) -> list[str]:
    """The modules of operators without a cell for the same library, flow, and module."""
    missing = []
    for target, name in wanted.items():
        cell = evidence.cells.get(
            Key("torch", target, precision, run.backend, run.sdk, run.soc, run.execution)
        )
        same = cell is not None and (cell.run.sha256, cell.run.flow, cell.outcome.spec) == (
            run.sha256,
            run.flow,
            _hash(name),
        )
        if again or not same:
            missing.append(name)
    return list(dict.fromkeys(missing))


def _lines(
    modules: Path, environment: env.Environment, names: Sequence[str], recipe: str, soc: str
) -> list[dict[str, Any]]:
    """The results of whole_flow.py for modules; if the process crashes, the list is split until the culprit is alone."""
    try:
        found: list[dict[str, Any]] = process.call(
            "whole_flow:measure", list(names), recipe, soc, environment=environment, path=[modules],
            timeout=SECONDS * len(names),
        )  # fmt: skip
    except process.ChildError as error:
        if len(names) == 1:
            return [{"name": names[0], "outcome": "ends", "left": {}, "why": str(error).splitlines()[0]}]
        half = len(names) // 2
        return [
            x
            for part in (names[:half], names[half:])
            for x in _lines(modules, environment, part, recipe, soc)
        ]
    return found


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:HASH]


def _outcome(line: Mapping[str, Any]) -> Outcome:
    statuses = STATUSES[line["outcome"]]
    passed = [stage for stage, s in zip(STAGES, statuses, strict=True) if s == "yes"]
    ended = next((f"{stage} {s}" for stage, s in zip(STAGES, statuses, strict=True) if s == "no"), "")
    left = "; ".join(f"{node}: {why}" for node, why in line["left"].items())
    off = f"up to {line['error']:g} off" if line["outcome"] == "wrong" else ""
    return Outcome(
        spec=_hash(line["name"]), cases=1, counts=tuple({s: 1} for s in statuses),
        furthest=passed[-1] if passed else "", case=line["name"] if passed else "", stopped=ended,
        stopped_case=line["name"] if ended else "",
        reason=(line.get("why") or off or left)[:200],
    )  # fmt: skip
