"""Lowers the programs of ExecuTorch's shared operator suite: ops for each program, target and policy on errata.

    python benchmarks/candidates_table.py -o now.json [--only REGEX] [--policy NAME ...]
    python benchmarks/candidates_table.py --page docs/results/candidates.md before.json now.json

The first command exports every module that the suite (``executorch/backends/test/suite/operators``) lowers in floats, lowers its
nodes for each target of TARGETS and writes the ops with their forms.  Nothing is compiled or run.  The second compares two
of these files.  A test has one program for each module that it lowers, which is a subtest of the suite.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import itertools
import json
import pkgutil
import re
import sys
import unittest
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import candidates_page
import pytest
import torch

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import read_program
from opdb.core.errors import OpdbError
from opdb.lower.select import lower
from opdb.programs.torch.export import export
from opdb.runtime.forms import Lowered

TARGETS = {"HTP": ("HTP", "SM8650"), "HTP v68": ("HTP", "SM8350"), "CPU": ("CPU", None), "GPU": ("GPU", None)}
#: "before": for a checkout without errata, whose Target does not know these arguments.
POLICIES: dict[str, dict[str, str]] = {
    "before": {},
    "device": {"execution": "device"},
    "emulator": {"execution": "emulator"},
    "ignore": {"errata": "ignore"},
}
SDK = "2.47"
SUITE = "executorch.backends.test.suite.operators"
#: program -> target -> policy -> its nodes, each with its ATen target, its ops (None: rejected) and the errata avoided.
Node = dict[str, Any]
Table = dict[str, dict[str, dict[str, list[Node]]]]


class Recorder:
    """Replaces the suite's runner: records the modules that a test would lower."""

    _flow = SimpleNamespace(quantize=False)  # read by tests from the suite's flow

    def __init__(self) -> None:
        self.programs: list[tuple[Any, tuple[Any, ...]]] = []

    def lower_and_run_model(self, model: Any, inputs: Any, *unused: Any, **more: Any) -> None:
        self.programs.append((model, tuple(inputs)))


def programs(only: str) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Every program of the suite: test, number within the test."""
    package = importlib.import_module(SUITE)
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{SUITE}.{info.name}")
        for name, test in sorted(vars(module).items()):
            if not name.startswith("test_") or not inspect.isfunction(test) or not re.search(only, name):
                continue
            for values in _parameters(test):
                torch.manual_seed(0)
                recorder = Recorder()
                with contextlib.suppress(unittest.SkipTest, pytest.skip.Exception):
                    test(recorder, **values)
                for i, (model, inputs) in enumerate(recorder.programs):
                    given = "".join(f"[{v}]" for v in values.values())
                    yield f"{name}{given}#{i}", model, inputs


def _parameters(test: Any) -> Iterator[dict[str, Any]]:
    """The parameter combinations with which pytest would call a test."""
    marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    names = [[n.strip() for n in m.args[0].split(",")] for m in marks]
    for values in itertools.product(*(m.args[1] for m in marks)):
        pairs = zip(names, values, strict=True)
        yield {
            n: v
            for keys, value in pairs
            for n, v in zip(keys, value if len(keys) > 1 else [value], strict=True)
        }


def measure(only: str, policies: Sequence[str]) -> Table:
    found: Table = {}
    for name, model, inputs in programs(only):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = read_program(export(model.eval(), inputs, name))
        except OpdbError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        found[name] = {
            label: {
                p: [_node(v, Target(*where, SDK, **POLICIES[p])) for v in program.nodes] for p in policies
            }
            for label, where in TARGETS.items()
        }
    return found


def _node(view: Any, target: Target) -> Node:
    made = lower(view, target)
    if not isinstance(made, Lowered):
        return {"target": view.target, "ops": None, "avoided": []}
    return {
        "target": view.target,
        "ops": [op.op for op in made.ops],
        "avoided": list(getattr(made, "avoided", ())),  # missing in a checkout without errata
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", default="", help="regular expression of test names")
    parser.add_argument(
        "--policy", action="append", choices=tuple(POLICIES), help="all but before by default"
    )
    parser.add_argument("--page", type=Path, help="the page to write; needs two files")
    parser.add_argument("compared", nargs="*", type=Path, metavar="FILE", help="before.json now.json")
    asked = parser.parse_args()
    if asked.page:
        before, now = (json.loads(p.read_text()) for p in asked.compared)
        asked.page.write_text(candidates_page.page(before, now))
        return
    table = measure(asked.only, asked.policy or [p for p in POLICIES if p != "before"])
    text = json.dumps(table, indent=0)
    if asked.output is None:
        print(text)
    else:
        asked.output.write_text(text)
        print(f"{asked.output}: {len(table)} programs")


if __name__ == "__main__":
    main()
