"""Every op that has a kernel, as an op package of QNN's CPU and HTP backends or a custom op of ONNX Runtime, next to the
same kernel called from Python.  EP: ONNX Runtime's QNN execution provider, with the package for HTP.

    python benchmarks/package_ops.py [OP ...] [--backend CPU|HTP|ORT|EP] [--qnn 2.47] [--soc SM8650] [--folder DIR] [--cases N]

One package of the ops is written and compiled; with --folder it has all ops, is kept there, and is reused by other runs, EP
and HTP sharing one.  Then each case of ``opdb conformance`` about the op definition alone runs in a graph of one node: with
--cases the first N of each op that are not hidden.  Both run the same C, so the results are compared bit by bit.  Prints for
each op the number of equal cases, the reasons of the others, and at the end the totals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from opdb.catalog.store import read_catalog
from opdb.codegen import packages
from opdb.codegen.constants import PACKAGE
from opdb.core.errors import OpdbError
from opdb.core.graph import single
from opdb.core.op_config import OpConfig, ParamConfig
from opdb.core.settings import specs_folder
from opdb.execute.libraries import onnx_runtime
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.measure.conformance.cases import Case, cases
from opdb.measure.conformance.data import inputs as data_of
from opdb.plugins.packages import ort_package
from opdb.plugins.packages.codegen import ort
from opdb.runtime import native
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

NAME = "OpdbAll"
#: The types that numpy has too.
ONNX_TYPES = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool8": 9, "f16": 10, "f64": 11,
              "u32": 12, "u64": 13}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--backend", default="HTP", choices=("CPU", "HTP", "ORT", "EP"))
    parser.add_argument("--qnn", help="default 2.47; of EP the newest")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cases", type=int, default=10_000, help="the most cases of an op that run")
    asked = parser.parse_args()
    catalog = read_catalog(specs_folder())
    every = [n for n, op in catalog.ops.items() if op.kernel and op.package == PACKAGE]
    chosen = [n for n in asked.ops or every if n in every]
    packed = every if asked.folder else chosen
    with tempfile.TemporaryDirectory() as spare:
        folder = asked.folder or Path(spare)
        if asked.backend in ("ORT", "EP"):
            return in_onnx_runtime(catalog, chosen, packed, folder, asked)
        library = built(catalog, packed, folder, asked.backend)
        found = libraries.find(asked.qnn or "2.47")
        with VendorWorker(
            asked.backend,
            None if asked.backend == "CPU" else asked.soc,
            libraries=found.path(asked.backend).parent,
            op_packages=[library],
        ) as worker:
            totals: Counter[str] = Counter()
            for name in chosen:
                totals += told(
                    catalog, name, asked.cases, lambda case: said(catalog, case, worker, asked.backend)
                )
    print(
        f"{asked.backend} {asked.qnn or '2.47'}{'' if asked.backend == 'CPU' else f' {asked.soc}'}: "
        + ", ".join(f"{n} {kind}" for kind, n in totals.most_common())
    )
    return 1 if totals["wrong"] or totals["failed"] else 0


def built(catalog: Catalog, ops: list[str], folder: Path, backend: str) -> Path:
    """The library of a QNN package, compiled if it does not exist."""
    made = package.write(catalog, ops, folder / backend.lower(), package=NAME, backend=backend, force=True)
    return made.library if made.library.exists() else package.build(made)


def in_onnx_runtime(
    catalog: Catalog, chosen: list[str], packed: list[str], folder: Path, asked: argparse.Namespace
) -> int:
    """Runs ``chosen`` as custom ops from a library of ``packed``; ops that do not fit are left out."""
    fitting = [n for n in packed if not ort.unfit(catalog.compiled(n))]
    chosen = [n for n in chosen if n in fitting]
    ort_package.write(catalog, fitting, "all", folder / "ort", domain="com.opdb", force=True)
    there = folder / "ort" / ort.library("all")
    library = there if there.exists() else ort_package.build(folder / "ort", "all")
    settings = {name: onnx_runtime.on_cpu([library], [name]) for name in chosen}
    shown = frozenset(ONNX_TYPES)
    if asked.backend == "EP":
        shown &= set(packages.types(catalog.backends["HTP"]))
        of_htp = built(catalog, packed, folder, "HTP")
        first = onnx_runtime.on_qnn(chosen[:1], [of_htp], custom_ops=[library], soc=asked.soc, qnn=asked.qnn)
        settings = {name: of_another(first, chosen[0], settings[name], name) for name in chosen}
    totals: Counter[str] = Counter()
    for name in chosen:
        totals += told(catalog, name, asked.cases, lambda case: of_onnx(case, settings[case.op], shown))
    print(f"{asked.backend}: " + ", ".join(f"{n} {kind}" for kind, n in totals.most_common()))
    return 1 if totals["wrong"] or totals["failed"] else 0


def of_another(
    settings: onnx_runtime.Settings, first: str, on_cpu: onnx_runtime.Settings, op: str
) -> onnx_runtime.Settings:
    """Derives the settings of op ``op`` from those of the package's ``first`` op.  ``on_cpu``: settings of ``op`` on the CPU."""
    options = dict(settings.provider_options)
    options["op_packages"] = op + options["op_packages"].removeprefix(first)
    return replace(settings, provider_options=options, config={**settings.config, **on_cpu.config})


def of_onnx(case: Case, settings: onnx_runtime.Settings, shown: frozenset[str]) -> tuple[str, str]:
    """The outcome of a case as a model of one node; types as in ``said``."""
    import onnx
    import onnxruntime

    given = [t for t in (*case.config.inputs, *case.config.outputs) if t.type != "NULL"]
    if hidden := {t.dtype for t in given} - shown:
        return "hidden", f"no {', '.join(sorted(hidden))} in ONNX, numpy, or what HTP shows op packages"
    if any(p.shape is not None and 0 in p.shape for p in case.config.params):
        return "hidden", "an empty list counts as not given"
    if any(t.type == "NULL" and "[" in t.name for t in case.config.inputs):
        return "hidden", "ONNX leaves no tensor out of those of a variadic slot"
    if settings.provider_library and any(t.type == "NULL" for t in case.config.inputs):
        return "hidden", "the provider does not survive a node that leaves out an input before a given one"
    if settings.provider_library and any(t.shape == () for t in given):
        return "hidden", "the provider makes [1] of a tensor without dimensions"
    inputs = data_of(case.id, case.config)
    try:
        wanted = native.run(as_held(case.config), inputs)
    except OpdbError as error:
        return "no kernel", str(error)
    make, names = onnx.helper, [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(len(case.config.outputs))]
    attributes = {p.name: list(p.value) if p.shape is not None else p.value for p in case.config.params}
    attributes = {n: int(v) if isinstance(v, bool) else v for n, v in attributes.items()}
    node = make.make_node(case.op, names, outputs, domain="com.opdb", **attributes)
    graph = make.make_graph(
        [node],
        "graph",
        [
            make.make_tensor_value_info(n, ONNX_TYPES[t.dtype], t.shape)
            for n, t in zip(names, case.config.inputs, strict=True)
            if n
        ],
        [
            make.make_tensor_value_info(n, ONNX_TYPES[t.dtype], None)
            for n, t in zip(outputs, case.config.outputs, strict=True)
        ],
    )
    opsets = [make.make_opsetid("", 17), make.make_opsetid("com.opdb", 1)]
    model = make.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    given_inputs = {n: a for n, a in zip(names, inputs, strict=True) if n and a is not None}
    try:
        if settings.provider_library:  # a process each: QNN may crash in a second session
            with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
                file.write(model)
                file.flush()
                made = list(onnx_runtime.run(Path(file.name), settings, given_inputs).values())
        else:
            options = settings.session_options()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            made = session.run(None, given_inputs)
    except Exception as error:  # its own classes, by message
        return "failed", str(error)[:300]
    return judged(list(zip(made, wanted, strict=True)))


def told(catalog: Catalog, name: str, most: int, ask: Callable[[Case], tuple[str, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    why: dict[str, str] = {}
    for case in of_definition(catalog, name):
        kind, text = ask(case)
        counts[kind] += 1
        if kind != "equal":
            why.setdefault(kind, f"{case.id}: {text}")
        if counts.total() - counts["hidden"] - counts["no kernel"] == most:
            break
    print(f"{name:28} " + ", ".join(f"{n} {kind}" for kind, n in counts.items()), flush=True)
    for kind, text in why.items():
        print(f"    {kind}: {text[:200]}", flush=True)
    return counts


def of_definition(catalog: Catalog, name: str) -> Iterator[Case]:
    """Cases that run and whose inputs are in the op's order: a graph gives them by position, not by name."""
    places = {s.name: i for i, s in enumerate(catalog.compiled(name).inputs)}

    def ordered(case: Case) -> bool:
        found = [(places.get(t.name, i), i) for i, t in enumerate(case.config.inputs) if t.name]
        return all(place == i for place, i in found)

    yield from (c for c in cases(catalog, name).cases if not c.backend and c.runs and ordered(c))


def said(catalog: Catalog, case: Case, worker: VendorWorker, backend: str) -> tuple[str, str]:
    """The outcome of a case: equal, wrong, no kernel, hidden types, failed."""
    shown = packages.types(catalog.backends[backend])
    hidden = {t.dtype for t in (*case.config.inputs, *case.config.outputs) if t.type != "NULL"} - set(shown)
    if hidden:
        return "hidden", f"{backend} shows op packages no {', '.join(sorted(hidden))}"
    inputs = data_of(case.id, case.config)
    try:
        wanted = native.run(as_held(case.config), inputs)
    except OpdbError as error:
        return "no kernel", str(error)
    graph = single(replace(case.config, package=NAME), inputs)
    given = {n: inputs[int(n)] for n, t in graph.tensors.items() if t.type == "APP_WRITE"}
    try:
        answer = worker.run(graph, given)
    except OpdbError as error:
        return "unsupported", str(error)
    if answer.verdict != "yes":
        why = [line.partition("error: ")[2] for line in answer.log if line.startswith("error: ")]
        return "failed", f"{answer.stage} {answer.verdict} {answer.code}: {' | '.join(why[:2])}"
    return judged(list(zip((answer.outputs[t.name] for t in graph.outputs), wanted, strict=True)))


def as_held(config: OpConfig) -> OpConfig:
    """Rounds float32 parameters to float32, as the C struct that a package gets does."""

    def held(p: ParamConfig) -> ParamConfig:
        if p.dtype != "f32":
            return p
        value = (
            float(np.float32(p.value)) if p.shape is None else tuple(float(np.float32(v)) for v in p.value)
        )
        return replace(p, value=value)

    return replace(config, params=tuple(map(held, config.params)))


def judged(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[str, str]:
    if all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in map(flat, pairs)):
        return "equal", ""
    worst = next(i for i, (a, b) in enumerate(map(flat, pairs)) if not np.array_equal(a, b))
    return "wrong", f"output {worst}"


def flat(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.ascontiguousarray(p).reshape(-1) for p in pair)
    return a, b


if __name__ == "__main__":
    sys.exit(main())
