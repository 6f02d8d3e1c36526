#!/usr/bin/env python3
"""Writes opdb/programs/operators.json: what each operator of ONNX and TensorFlow Lite becomes when opdb reads it.

    .venv/bin/python tools/operators.py           # rewrites the file; two minutes
    .venv/bin/python tools/operators.py --check   # exit 1 if it is not what the operators become today

The PyTorch operators of an ONNX operator are those that run when opdb computes ONNX's own tests of nodes, and the models of
tests/programs/onnx; the ONNX operators of TensorFlow Lite's are the nodes that opdb writes for the files of tests/programs/tflite.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "corpus" / "operators"):
    sys.path.insert(0, str(folder))

import onnx_cases  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from opdb.core.errors import OpdbError  # noqa: E402
from opdb.programs.onnx.metadata import OPERATOR  # noqa: E402
from opdb.programs.onnx.modules import Operation  # noqa: E402
from opdb.programs.onnx.operators import OF_DOMAINS  # noqa: E402
from opdb.programs.tflite import operators as tflite_operators  # noqa: E402
from opdb.programs.tflite.model import to_onnx  # noqa: E402

FILE = ROOT / "opdb" / "programs" / "operators.json"
#: Tests with models of operators that ONNX has no tests of.
MODELS = (
    "test_quantized.py",
    "test_quantized_files.py",
    "test_transformers.py",
    "test_graph.py",
    "test_qdq.py",
)
#: The oldest opset that opdb reads.
OLDEST = 7
#: Bookkeeping of PyTorch; nothing that a model computes.
NOT_OPERATORS = (
    "aten.detach",
    "aten.lift_fresh",
    "aten._local_scalar_dense",
    "aten.is_",
    "aten.sym_",
    "prim",
    "_c10d",
    "profiler",
)
#: Domains in the names of operators; those of chains are joined by opdb itself.
DOMAINS = {domain: f"{domain}." if domain else "" for domain in OF_DOMAINS if not domain.startswith("opdb")}
BY_FUNCTION = {
    id(operator.function): f"{prefix}{name}"
    for domain, prefix in DOMAINS.items()
    for name, operator in OF_DOMAINS[domain].items()
}


class Seen(TorchDispatchMode):
    """The operators of PyTorch that run."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if name.startswith("aten.") and not name.startswith(NOT_OPERATORS):
            self.names.add(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def recorded(found: dict[str, set[str]]) -> Iterator[None]:
    """Adds to ``found`` the operators that run inside each node of an ONNX model."""
    forward: Callable[..., Any] = Operation.forward

    def watched(self: Any, *given: Any) -> Any:
        name = BY_FUNCTION.get(id(self.function), self.node.op)
        if name not in found:
            return forward(self, *given)
        with Seen(found[name]):
            return forward(self, *given)

    Operation.forward = watched
    try:
        yield
    finally:
        Operation.forward = forward


def of_onnx() -> dict[str, Any]:
    """For each operator its PyTorch operators, null if no test has computed it, and if it runs on the CPU because opdb cannot read it."""
    known = [f"{prefix}{name}" for domain, prefix in DOMAINS.items() for name in OF_DOMAINS[domain]]
    found: dict[str, set[str]] = {name: set() for name in known}
    readable = set(known)
    computed: set[str] = set()
    expanded: dict[str, set[str]] = {}
    with recorded(found):
        for case in onnx_cases.cases():
            nodes = case.model.graph.node
            name = f"{nodes[0].domain}.{nodes[0].op_type}" if nodes[0].domain else nodes[0].op_type
            if len(nodes) != 1 or nodes[0].domain.startswith("ai.onnx"):
                continue  # machine learning's and training's own
            whole = expanded.setdefault(name, set())
            for opset in case.model.opset_import:
                opset.version = max(opset.version, OLDEST)  # the same operator, in a version that opdb reads
            try:
                module, given = onnx_cases.read(case)
                readable.add(name)
                with torch.no_grad(), Seen(whole):
                    module(*given)
                computed.add(name)
            except (OpdbError, RuntimeError, ValueError, IndexError, TypeError, AttributeError):
                continue  # a form of the operator that opdb does not read
        pytest.main(
            [
                "-q",
                "-n",
                "0",
                "-m",
                "",
                *(str(ROOT / "tests" / "programs" / "onnx" / name) for name in MODELS),
            ]
        )
    made = {n: sorted(found.get(n) or expanded.get(n, ())) for n in sorted({*found, *expanded})}
    return {
        n: {"host": n not in readable, "torch": names if names or n in computed else None}
        for n, names in made.items()
    }


def of_tflite() -> dict[str, Any]:
    """For each operator the ONNX operators that opdb writes for it."""
    found: dict[str, set[str]] = {name: set() for name in tflite_operators.OPERATORS}
    for file in sorted((ROOT / "tests" / "programs" / "tflite" / "files").glob("*.tflite")):
        for node in to_onnx(str(file)).graph.node:
            place = {p.key: p.value for p in node.metadata_props}.get(OPERATOR, "")
            name = place.split()[-1].rstrip(":") if place else ""
            if name in found and not node.domain:
                found[name].add(node.op_type)
    return {name: {"onnx": sorted(ops)} for name, ops in sorted(found.items())}


def main() -> int:
    parser = argparse.ArgumentParser(description="What operators of ONNX and TensorFlow Lite become.")
    parser.add_argument("--check", action="store_true", help="exit 1 if the file is not current")
    check = parser.parse_args().check
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {"onnx": of_onnx(), "tflite": of_tflite()}
    lines = [
        f'"{kind}": {{\n'
        + ",\n".join(f"{json.dumps(n)}: {json.dumps(about)}" for n, about in operators.items())
        + "\n}"
        for kind, operators in made.items()
    ]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if check:
        return int(FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    print(
        f"{FILE.relative_to(ROOT)}: {len(made['onnx'])} operators of ONNX, {len(made['tflite'])} of TensorFlow Lite"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
