"""What the programs of ExecuTorch's shared operator suite become: ops for each program and target.

    python benchmarks/candidates_table.py -o now.json [--only REGEX] [--errata avoid|warn|ignore] [--execution device|emulator]
    python benchmarks/candidates_table.py --compare before.json now.json

The first exports every module that the suite (``executorch/backends/test/suite/operators``) lowers, lowers its nodes for
each target of TARGETS and writes the ops with their forms.  Nothing is compiled or run.  The second prints, for each test, the
ops before and after where they differ, and the totals.  A test has one program for each module that it lowers.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.coverage.check import read_program
from opdb.coverage.load import export
from opdb.errors import OpdbError
from opdb.lowering.select import lower
from opdb.runtime.lowering import Lowered
from opdb.targets.target import Target

TARGETS = {"HTP": ("HTP", "SM8650"), "HTP v68": ("HTP", "SM8350"), "CPU": ("CPU", None), "GPU": ("GPU", None)}
SDK = "2.47"
SUITE = "executorch.backends.test.suite.operators"
#: program -> target -> the forms with their ops, node by node; None for a node that is rejected.
Table = dict[str, dict[str, list[tuple[str, list[str]] | None]]]


class Recorder:
    """In place of the suite's runner: keeps the modules that a test would lower."""

    _flow = None  # of the suite's older tests

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
    """The combinations that pytest would call a test with."""
    marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    names = [[n.strip() for n in m.args[0].split(",")] for m in marks]
    for values in itertools.product(*(m.args[1] for m in marks)):
        pairs = zip(names, values, strict=True)
        yield {
            n: v
            for keys, value in pairs
            for n, v in zip(keys, value if len(keys) > 1 else [value], strict=True)
        }


def measure(only: str, **policy: Any) -> Table:
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
            label: [_lowered(view, Target(backend, soc, SDK, **policy)) for view in program.nodes]
            for label, (backend, soc) in TARGETS.items()
        }
    return found


def _lowered(view: Any, target: Target) -> tuple[str, list[str]] | None:
    made = lower(view, target)
    return (made.form, [op.op for op in made.ops]) if isinstance(made, Lowered) else None


def compare(before: Table, after: Table) -> Iterator[str]:
    """Markdown: totals by target, then the tests whose ops differ."""
    both = sorted(before.keys() & after.keys())
    yield f"{len(both)} programs."
    yield ""
    yield "| target | ops before | ops after | nodes rejected before | after |"
    yield "|---|---|---|---|---|"
    for label in TARGETS:
        old, new = ([n for p in both for n in table[p][label]] for table in (before, after))
        yield f"| {label} | {_ops(old)} | {_ops(new)} | {old.count(None)} | {new.count(None)} |"
    yield ""
    yield "| test | target | programs | before | after |"
    yield "|---|---|---|---|---|"
    changed: dict[tuple[str, str, str, str], int] = {}
    for p in both:
        for label in TARGETS:
            old_ops, new_ops = (_spelled(table[p][label]) for table in (before, after))
            if old_ops != new_ops:
                key = (p.partition("#")[0].partition("[")[0], label, old_ops, new_ops)
                changed[key] = changed.get(key, 0) + 1
    for (test, label, old_ops, new_ops), count in sorted(changed.items()):
        yield f"| {test} | {label} | {count} | {old_ops} | {new_ops} |"


def _ops(nodes: list[Any]) -> int:
    return sum(len(n[1]) for n in nodes if n is not None)


def _spelled(nodes: list[Any]) -> str:
    return "; ".join("rejected" if n is None else ", ".join(n[1]) for n in nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", default="", help="regular expression of test names")
    parser.add_argument("--errata", choices=("avoid", "warn", "ignore"))
    parser.add_argument("--execution", choices=("device", "emulator"))
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    asked = parser.parse_args()
    if asked.compare:
        before, after = (json.loads(p.read_text()) for p in asked.compare)
        print("\n".join(compare(before, after)))
        return
    policy = {k: v for k in ("errata", "execution") if (v := getattr(asked, k)) is not None}
    table = measure(asked.only, **policy)
    text = json.dumps(table, indent=0)
    if asked.output is None:
        print(text)
    else:
        asked.output.write_text(text)
        print(f"{asked.output}: {len(table)} programs")


if __name__ == "__main__":
    main()
