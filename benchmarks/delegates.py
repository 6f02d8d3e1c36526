"""Models through opdb's delegate, next to ExecuTorch's Qualcomm backend, XNNPACK and its own kernels: one run of all.

    python benchmarks/delegates.py [MODEL ...] [--way WAY] [--runs N] [--json FILE]

One line for each model, way and method: nodes in delegates and outside, seconds of lowering, bytes held by the delegates, ms
to load the program, ms of a run (the median), and the distance from PyTorch relative to the largest number.  Ways: opdb's C kernels,
QNN CPU, HTP (SM8650, fp16, on Qualcomm's emulation), ``qnn``: ExecuTorch's QnnBackend with its own builders on the same emulation,
``xnnpack`` and ``portable``: ExecuTorch alone.  Each runs in a separate process.  Times of the emulation say nothing about a chip.  Needs
executorch and a C++ compiler; weights are random.  Exit 1 if
something failed or is far from PyTorch.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOC = "SM8650"
SECONDS = 10.0
#: Allowed distance from PyTorch in fp16; float32 ways have the default.
NEAR = {"htp": 2e-2, "qnn": 2e-2}
OPDB = ("kernels", "cpu", "htp")
WAYS = (*OPDB, "qnn", "xnnpack", "portable")
MODELS = ("mobilenet", "bert", "decoder")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--way", action="append", choices=WAYS, help="all by default")
    parser.add_argument(
        "--runs", type=int, default=10, help="timed runs of a method, for 10 s at most; 10 by default"
    )
    parser.add_argument("--json", type=Path, help="file that gets a line for each model and way")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(*asked.one, asked.runs)))
        return 0
    for name in asked.models:
        if name not in MODELS:
            parser.error(f"no model {name!r}; one of {', '.join(MODELS)}")
    print(
        f"{'model':10} {'way':9} {'method':8} {'nodes':>9} {'lowering s':>10} {'blob kB':>8} {'load ms':>8}"
        f" {'run ms':>8}  distance"
    )
    bad = 0
    for model in asked.models or MODELS:
        for way in asked.way or WAYS:
            found = child(model, way, asked.runs)
            bad += not told(model, way, found)
            if asked.json:
                with asked.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"model": model, "way": way, **found}) + "\n")
    return int(bad > 0)


def child(model: str, way: str, runs: int) -> dict[str, Any]:
    """The result of ``one`` in a separate process, with QNN's libraries where ExecuTorch looks for them."""
    environment = dict(os.environ)
    if way == "qnn":
        from opdb.plugins.executorch import env

        environment = env.prepare().child()
    command = [sys.executable, __file__, "--one", model, way, "--runs", str(runs)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, errors="replace"
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[-1] if lines else f"exit code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def told(model: str, way: str, found: Mapping[str, Any]) -> bool:
    """Prints the lines of a model and way; returns True if all is well."""
    if "error" in found:
        print(f"{model:10} {way:9} {found['error'][:150]}", flush=True)
        return False
    fine = True
    for i, (method, row) in enumerate(found["methods"].items()):
        fine &= row["distance"] <= NEAR.get(way, 1e-3)
        nodes = f"{row['inside']}+{row['outside']}"
        first = (f"{found['lowering']:.1f}", f"{found['blobs'] / 1000:.0f}", f"{found['load'] * 1000:.0f}")
        lowering, blobs, load = first if i == 0 else ("", "", "")
        print(
            f"{model:10} {way:9} {method:8} {nodes:>9} {lowering:>10} {blobs:>8} {load:>8}"
            f" {row['run'] * 1000:8.2f}  {row['distance']:.1e}",
            flush=True,
        )
    return fine


def one(model: str, way: str, runs: int) -> dict[str, Any]:
    """Lowers and runs one model in one way, in this process."""
    sys.path.insert(0, str(HERE))
    import torch
    from _delegate_models import MODELS as MADE

    torch.set_num_threads(1)
    methods = MADE[model]()
    begun = time.perf_counter()
    edge = qnn(methods) if way == "qnn" else lowered(methods, way)
    lowering = time.perf_counter() - begun
    rows = {name: counted(edge.exported_program(name).graph_module) for name in methods}
    blobs = held_bytes(edge, methods)
    begun = time.perf_counter()
    program = loaded(serialized(edge), way)
    load = 0.0
    for name, (_, inputs) in methods.items():
        begun = time.perf_counter()
        program.run_method(name, tuple(inputs))  # the first call loads the method
        load += time.perf_counter() - begun
    program = loaded(serialized(edge), way)  # buffers as they were
    for name, (module, inputs) in methods.items():
        found = [t.clone() for t in program.run_method(name, tuple(inputs))]
        with torch.no_grad():
            wanted = copy.deepcopy(module)(*inputs)
        rows[name]["distance"] = distance(found, wanted if isinstance(wanted, tuple) else (wanted,))
        rows[name]["run"] = timed(program, name, inputs, runs)
    return {"lowering": lowering, "blobs": blobs, "load": load, "methods": rows}


def lowered(methods: Mapping[str, Any], way: str) -> Any:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge, to_edge_transform_and_lower

    from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner
    from opdb.plugins.executorch.delegate.specs import KERNELS, Options

    options = {
        "kernels": Options(KERNELS),
        "cpu": Options("CPU"),
        "htp": Options("HTP", soc=SOC, execution="emulator"),
    }
    programs = {name: torch.export.export(copy.deepcopy(m), inputs) for name, (m, inputs) in methods.items()}
    if (
        way == "xnnpack"
    ):  # to_edge_transform_and_lower ends at the view behind attention with this partitioner
        return to_edge(programs).to_backend(XnnpackPartitioner())
    partitioners = [OpdbPartitioner(options[way])] if way in options else []
    return to_edge_transform_and_lower(programs, partitioner=partitioners)


def qnn(methods: Mapping[str, Any]) -> Any:
    """Lowers with ExecuTorch's own flow and builders."""
    from executorch.backends.qualcomm.utils import utils

    from opdb.plugins.executorch.edge import compiler_specs, exporting
    from opdb.plugins.executorch.env import chipset

    modules = {name: copy.deepcopy(m) for name, (m, _) in methods.items()}
    inputs = {name: given for name, (_, given) in methods.items()}
    specs = {name: compiler_specs(chipset(SOC)) for name in methods}
    with exporting():
        return utils.to_edge_transform_and_lower_to_qnn(modules, inputs, specs, skip_mutable_buffer=True)


def counted(module: Any) -> dict[str, Any]:
    """Counts the nodes of a method inside and outside delegates."""
    inside = outside = 0
    for node in module.graph.nodes:
        held = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if hasattr(held, "original_module"):
            inside += sum(map(calls, held.original_module.graph.nodes))
        elif "executorch_call_delegate" not in str(node.target):
            outside += calls(node)
    return {"inside": inside, "outside": outside}


def calls(node: Any) -> bool:
    return node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"


def held_bytes(edge: Any, methods: Mapping[str, Any]) -> int:
    """The size in bytes of all methods' blobs and of the data stored beside them; equal data is in the program once."""
    sizes: dict[str, int] = {}
    for name in methods:
        module = edge.exported_program(name).graph_module
        for node in module.graph.nodes:
            held = getattr(module, str(node.target), None) if node.op == "get_attr" else None
            if hasattr(held, "processed_bytes"):
                sizes[hashlib.sha256(held.processed_bytes).hexdigest()] = len(held.processed_bytes)
            store = getattr(held, "named_data_store_output", None)
            if store is not None:
                sizes |= {key: len(store.buffers[e.buffer_index]) for key, e in store.pte_data.items()}
    return sum(sizes.values())


def serialized(edge: Any) -> bytes:
    import torch
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    made = copy.deepcopy(edge)  # to_executorch changes the programs
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass([""])], segment_alignment=4096)
    with torch.no_grad():  # the copied tensors require gradients, and buffers are written in place
        return bytes(made.to_executorch(config).buffer)


def loaded(pte: bytes, way: str) -> Any:
    if way == "qnn":
        import executorch.backends.qualcomm  # noqa: F401  loads the backend's libraries
    if way in OPDB:
        from opdb.plugins.executorch.delegate import library

        library.load()
    from executorch.extension.pybindings import portable_lib

    KEPT.append(pte)  # the program holds no reference
    return portable_lib._load_for_executorch_from_buffer(pte)


KEPT: list[bytes] = []


def timed(program: Any, name: str, inputs: Any, runs: int) -> float:
    """The median of ``runs``, or of fewer if they take longer than SECONDS in total."""
    times: list[float] = []
    while len(times) < runs and sum(times) < SECONDS:
        begun = time.perf_counter()
        program.run_method(name, tuple(inputs))
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def distance(found: Any, wanted: Any) -> float:
    parts = zip(found, wanted, strict=True)
    return float(max((a - b).abs().max() / b.abs().max() for a, b in parts))


if __name__ == "__main__":
    sys.exit(main())
