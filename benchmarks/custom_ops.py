"""The example ops of the package OpdbCustom in each executor: a table of op, data type and executor.

    python benchmarks/custom_ops.py [OP ...]

Each sample of an op in each data type of its kernel runs as: PyTorch's formula in float64 (the reference); the C kernel
called from Python; the QNN CPU package; the HTP package on each installed version of QNN for three chips; the custom op in
ONNX Runtime, on the CPU and through the QNN execution provider; the package for Cloud AI, as the host's kernel, as the card's
kernel in four threads, and as the card's kernel for Hexagon under QEMU (``tools/with-hexagon`` brings the compiler and QEMU).
A cell says "equal" if the bytes equal those of the C called from Python, "near" for the reference if the difference is
within the spec's tolerance, else the reason.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from package_ops import ONNX_TYPES, as_held, judged, of_onnx

from opdb.catalog.store import read_catalog
from opdb.codegen.packages import of_catalog, types
from opdb.core import c_compiler
from opdb.core.errors import OpdbError
from opdb.core.graph import single
from opdb.core.settings import specs_folder
from opdb.execute.libraries import onnx_runtime
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.judge.samples import kernel_types, sample_config
from opdb.measure.conformance import tolerance
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.data import inputs as data_of
from opdb.measure.conformance.executors.torch_oracle import compute
from opdb.plugins.cloud_ai import aic_package, conformance
from opdb.plugins.cloud_ai.card import HexagonCard
from opdb.plugins.cloud_ai.codegen import aic
from opdb.plugins.packages import ort_package
from opdb.runtime import native
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

PACKAGE = "OpdbCustom"
SOCS = ("SM8350", "SM8650", "SM8750")
API = "1.21"  # of Cloud AI's interface
#: Runs a case in one executor: the outcome in a word, and the reason if it is neither equal nor near.
Executor = Callable[[Case], tuple[str, str]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    asked = parser.parse_args()
    catalog = read_catalog(specs_folder())
    ops = [n for n in of_catalog(catalog)[PACKAGE] if not asked.ops or n in asked.ops]
    with tempfile.TemporaryDirectory() as folder:
        return table(catalog, ops, Path(folder))


def table(catalog: Catalog, ops: list[str], folder: Path) -> int:
    """Prints a line for each op, data type and executor; returns 1 if a result is wrong."""
    bad = 0
    for name, executor, close in executors(catalog, ops, folder):
        for op in ops:
            for dtype in catalog.ops[op].kernel.dtypes:  # type: ignore[union-attr]
                found = [executor(case) for case in cases(catalog, op, dtype)]
                words = sorted({word for word, _ in found})
                why = next((text for _, text in found if text), "")
                bad += any(word in ("wrong", "failed") for word in words)
                print(
                    f"{op:14} {dtype:5} {name:24} {len(found)} {', '.join(words)}{': ' * bool(why)}{why}",
                    flush=True,
                )
        close()
    return 1 if bad else 0  # fmt: skip


def cases(catalog: Catalog, op: str, dtype: str) -> list[Case]:
    """Each sample with ``dtype`` as the type of the first input."""
    compiled = catalog.compiled(op)
    made = []
    for sample in range(len(compiled.definition.samples)):
        config = sample_config(compiled, sample, kernel_types(compiled, dtype))
        made.append(Case(f"{op}-sample{sample}-{dtype}", config, "positive"))
    return made


def executors(
    catalog: Catalog, ops: list[str], folder: Path
) -> Iterator[tuple[str, Executor, Callable[[], object]]]:
    """Name, executor, and the function that closes it."""
    yield "PyTorch, float64", partial(referred, catalog), lambda: None
    built = {
        backend: package.build(package.write(catalog, ops, folder / backend, backend=backend))
        for backend in ("CPU", "HTP")
    }
    for backend, soc, found in places():
        worker = VendorWorker(backend, soc, libraries=found.folder, op_packages=[built[backend]])
        run = partial(packed, catalog, backend, worker)
        yield f"QNN {found.qnn_version()} {backend} {soc or ''}".rstrip(), run, worker.close
    yield from in_onnx_runtime(catalog, ops, folder, built["HTP"])
    yield from on_cloud_ai(catalog, ops, folder / "aic")


def in_onnx_runtime(
    catalog: Catalog, ops: list[str], folder: Path, htp: Path
) -> Iterator[tuple[str, Executor, Callable[[], object]]]:
    root, _ = ort_package.write(catalog, ops, "examples", folder / "ort", domain="com.opdb")
    library = ort_package.build(root, "examples")
    shown = frozenset(ONNX_TYPES)
    on_cpu = onnx_runtime.on_cpu([library])
    yield "ONNX Runtime", lambda case: of_onnx(case, on_cpu, shown), lambda: None
    on_qnn = {op: onnx_runtime.on_qnn([op], [htp], custom_ops=[library]) for op in ops}
    both = shown & set(types(catalog.backends["HTP"]))
    yield "ONNX Runtime, QNN EP", lambda case: of_onnx(case, on_qnn[case.op], both), lambda: None


def on_cloud_ai(
    catalog: Catalog, ops: list[str], folder: Path
) -> Iterator[tuple[str, Executor, Callable[[], object]]]:
    aic_package.write(catalog, ops, aic.Choice(API), folder)
    c_compiler.make(folder, "the package for Cloud AI", "all", "card")
    rows = {op: aic.rows(catalog.compiled(op)) for op in ops}

    def on_this_machine(case: Case, card: bool) -> conformance.Ran:
        of = conformance.Package(folder, API, case.op)
        run = of.on_card if card else of.on_host
        return run(as_held(case.config), data_of(case.id, case.config))

    def child(case: Case, card: bool) -> conformance.Ran:
        return conformance.in_child(on_this_machine, case, card)

    def executor(run: Callable[[Case], conformance.Ran]) -> Executor:
        return partial(of_cloud_ai, conformance.entries(folder), rows, run)

    yield "Cloud AI, host", executor(partial(child, card=False)), lambda: None
    yield "Cloud AI, four threads", executor(partial(child, card=True)), lambda: None
    cards: dict[str, HexagonCard] = {}

    def on_hexagon(case: Case) -> conformance.Ran:
        if case.op not in cards:
            cards[case.op] = HexagonCard(folder, API, case.op, folder / f"{case.op}.elf")
        return cards[case.op].run(as_held(case.config), data_of(case.id, case.config))

    yield "Cloud AI, QEMU", executor(on_hexagon), lambda: [card.close() for card in cards.values()]


def of_cloud_ai(
    entries: Mapping[str, conformance.Entry],
    rows: Mapping[str, Sequence[dict[str, str]]],
    run: Callable[[Case], conformance.Ran],
    case: Case,
) -> tuple[str, str]:
    if why := conformance.unfit(entries[case.op], rows[case.op], as_held(case.config)):
        return "not possible", why
    try:
        ran = run(case)
    except OpdbError as error:
        return "failed", str(error)
    wanted: list[np.ndarray] = native.run(as_held(case.config), data_of(case.id, case.config))
    return judged(list(zip(ran.outputs, wanted, strict=True)))


def places() -> Iterator[tuple[str, str | None, libraries.Libraries]]:
    """Backend, chip and libraries."""
    seen: set[tuple[str, str]] = set()
    for found in libraries.discover([]):
        for backend, socs in (("CPU", (None,)), ("HTP", SOCS)):
            if backend in found.present and (backend, found.qnn_version()) not in seen:
                seen.add((backend, found.qnn_version()))
                yield from ((backend, soc, found) for soc in socs)


def referred(catalog: Catalog, case: Case) -> tuple[str, str]:
    inputs = data_of(case.id, case.config)
    made = native.run(as_held(case.config), inputs)
    wanted = compute(as_held(case.config), inputs)
    found = tolerance.compare(case.config, wanted, made, tolerance.bounds(catalog, case.config))
    if not found.matches:
        return "wrong", found.detail
    return ("equal" if found.ulp <= 0.5 else "near"), ""


def packed(catalog: Catalog, backend: str, worker: VendorWorker, case: Case) -> tuple[str, str]:
    """Runs a graph of the one op from its package."""
    given = {t.dtype for t in (*case.config.inputs, *case.config.outputs)}
    if hidden := given - set(types(catalog.backends[backend])):
        return "not possible", f"{backend} shows op packages no {', '.join(sorted(hidden))}"
    inputs = data_of(case.id, case.config)
    graph = single(replace(case.config, package=PACKAGE), inputs)
    said = worker.run(graph, {n: inputs[int(n)] for n, t in graph.tensors.items() if t.type == "APP_WRITE"})
    if said.verdict != "yes":
        return "failed", f"{said.stage} {said.verdict} {said.code}: {' '.join(said.log)[:120]}"
    wanted: list[np.ndarray] = native.run(as_held(case.config), inputs)
    return judged(list(zip((said.outputs[t.name] for t in graph.outputs), wanted, strict=True)))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OpdbError as error:
        sys.exit(f"custom_ops.py: {error}")
