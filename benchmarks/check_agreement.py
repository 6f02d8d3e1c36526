"""``opdb check --executorch`` beside ExecuTorch's own QnnPartitioner: agreement by node, and time.

    python benchmarks/check_agreement.py [NAME ...] [--json FILE]

Each model goes through ExecuTorch's Qualcomm flow for SM8650 with opdb's builders registered.  Where the flow
partitions, the same edge program is first predicted, then partitioned by QnnPartitioner with the vendor's library;
nothing is compiled.  Times are CPU times, the shortest of three (check) and two (partition) without cached verdicts.
Names are models of _check_models.py, or prefixes of their names; default all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOC = "SM8650"
CHUNK = 6  # models to a child process: its imports take longer than most models
TIMEOUT = 600.0  # seconds for each of them


@dataclass
class Outcome:
    """``disagreements``: (node, target, predicted, our reasons, ExecuTorch's answer)."""

    model: str
    nodes: int = 0
    delegated: int = 0
    agreeing: int = 0
    partitions: tuple[int, int] = (0, 0)  # predicted, real
    check_seconds: float = 0.0  # verdicts, reasons, costs, graphs
    nearest_seconds: float = 0.0  # repeated, including proposals of accepted configs for rejected nodes
    partition_seconds: float = 0.0
    disagreements: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    unmapped: dict[str, int] = field(default_factory=dict)  # ATen targets that no spec maps
    taken_by_stock: dict[str, int] = field(
        default_factory=dict
    )  # the subset that ExecuTorch's builders express
    stopped: dict[str, str] = field(default_factory=dict)  # nodes at which the stock partitioner raises
    error: str = ""


# -- in the child


def measure(names: list[str]) -> list[Outcome]:
    """The entry point for ``opdb.plugins.executorch.process.call``."""
    _import_all()
    return [_measured(name) for name in names]


def _import_all() -> None:
    """Imports all generated modules up front: once per process instead of within a model's time."""
    from importlib import import_module

    from opdb.generated import validators
    from opdb.generated.builders import TARGETS

    for op in validators.MODULES:
        validators.module(op)
    for module in {form.module for forms in TARGETS.values() for form in forms}:
        import_module(f"opdb.generated.builders.{module}")


def _measured(name: str) -> Outcome:
    import torch
    from _check_models import MODELS

    out = Outcome(name)
    try:
        torch.manual_seed(0)
        module, inputs = MODELS[name]()
        with torch.no_grad():
            _through_the_flow(module.eval(), inputs, out)
    except Exception as error:  # the model does not build, or the flow refuses it before it partitions
        traceback.print_exc()
        text = str(error).strip().splitlines()
        out.error = f"{type(error).__name__}: {text[0][:160] if text else ''}"
    return out


class _Partitioned(Exception):
    """Raised after partitioning, so that nothing is compiled."""


def _through_the_flow(module: Any, inputs: Any, out: Outcome) -> None:
    from executorch.backends.qualcomm.partition.qnn_partitioner import QnnPartitioner
    from executorch.backends.qualcomm.serialization.qc_schema import QcomChipset
    from executorch.backends.qualcomm.utils import utils as qnn

    import opdb.plugins.executorch
    from opdb.catalog.targets.target import Target
    from opdb.plugins.executorch.edge import compiler_specs

    target = Target("HTP", SOC, execution="emulator")
    stock = QnnPartitioner.partition

    def partition(partitioner: Any, program: Any) -> Any:
        _compare(lambda: stock(partitioner, program), program, target, out)
        raise _Partitioned

    opdb.plugins.executorch.register(target=target)
    QnnPartitioner.partition = partition
    try:
        qnn.to_edge_transform_and_lower_to_qnn(module, inputs, compiler_specs(QcomChipset[SOC]))
    except _Partitioned:
        return
    finally:
        QnnPartitioner.partition = stock
        opdb.plugins.executorch.unregister()
    raise AssertionError("ExecuTorch did not partition")


def _compare(partition: Any, program: Any, target: Any, out: Outcome) -> None:
    import operator

    import opdb.plugins.executorch
    from opdb.lower.candidates import mapped
    from opdb.lower.violations import violations
    from opdb.plugins.executorch.tools.predict import STOCK, Predictor

    def timed(call: Any) -> tuple[float, Any]:
        violations.cache_clear()  # forget the verdicts of other runs
        start = time.process_time()
        found = call()
        return time.process_time() - start, found

    runs = [timed(Predictor(program, target, nearest=False).coverage) for _ in range(3)]
    coverage = runs[0][1]
    out.check_seconds = min(seconds for seconds, _ in runs)
    out.nearest_seconds = timed(Predictor(program, target).coverage)[0]
    seconds = []
    for _ in range(2):
        for node in program.graph.nodes:  # a tag means a graph that is built, to opdb's builders
            node.meta.pop("delegation_tag", None)
        seconds.append(timed(partition)[0])
    out.partition_seconds = min(seconds)
    nodes = {n.name: n for n in program.graph.nodes if n.op == "call_function"}
    tags = {n.meta["delegation_tag"] for n in nodes.values() if "delegation_tag" in n.meta}
    out.partitions = (coverage.partitions, len(tags))
    said = opdb.plugins.executorch.reasons()
    for row in coverage.rows:
        node = nodes[row.node]
        assert node.target is not operator.getitem
        real, predicted = "delegation_tag" in node.meta, row.verdict == "supported"
        out.nodes += 1
        out.delegated += real
        out.agreeing += real == predicted
        if not mapped(row.target):
            out.unmapped[row.target] = out.unmapped.get(row.target, 0) + 1
            if row.form == STOCK:
                out.taken_by_stock[row.target] = out.taken_by_stock.get(row.target, 0) + 1
        if real != predicted:
            ours = (
                "; ".join(f"{q['rule']}: {q['message']}" for q in row.reasons)
                or f"accepted as {', '.join(row.ops)}"
            )
            theirs = "; ".join(f"{q.rule}: {q.message}" for q in said.get(row.node, ()))
            theirs = "delegated" if real else theirs or "refused by the vendor's validator"
            out.disagreements.append((row.node, row.target, row.verdict, ours[:400], theirs[:400]))


def compare(names: list[str], environment: Any) -> list[Outcome]:
    """An outcome for each model, in child processes; a model that crashes its process is measured alone."""
    from opdb.plugins.executorch import process

    try:
        found: list[Outcome] = process.call(
            "check_agreement:measure",
            names,
            environment=environment,
            path=[HERE],
            timeout=TIMEOUT * len(names),
        )
    except process.ChildError as error:
        if len(names) == 1:
            return [Outcome(names[0], error=str(error).splitlines()[0])]
        return [o for name in names for o in compare([name], environment)]
    return found


HEAD = f"{'model':44} {'nodes':>6} {'deleg.':>6} {'agree':>7} {'graphs':>8} {'check':>9} {'nearest':>9} {'partition':>10} {'times':>6}"


def line(o: Outcome) -> str:
    if o.error:
        return f"{o.model:44} {o.error}"
    graphs = "/".join(map(str, o.partitions))
    return (
        f"{o.model:44} {o.nodes:6} {o.delegated:6} {_percent(o.agreeing, o.nodes):>7} {graphs:>8} "
        f"{1000 * o.check_seconds:6.0f} ms {1000 * o.nearest_seconds:6.0f} ms {1000 * o.partition_seconds:7.0f} ms "
        f"{o.partition_seconds / o.check_seconds:6.1f}"
    )


def total(outcomes: list[Outcome]) -> str:
    whole = [o for o in outcomes if not o.error]
    nodes, agreeing = sum(o.nodes for o in whole), sum(o.agreeing for o in whole)
    check, partition = sum(o.check_seconds for o in whole), sum(o.partition_seconds for o in whole)
    return (
        f"{len(whole)} models, {nodes} nodes: {agreeing} agree ({_percent(agreeing, nodes)}); "
        f"check {check:.2f} s, QnnPartitioner.partition {partition:.2f} s"
        + (f": {partition / check:.1f} times" if check else "")
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "-"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="models, or beginnings of their names; default all")
    parser.add_argument("--json", type=Path, help="write all that was found to this file")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from _check_models import MODELS

    from opdb.plugins.executorch import env

    names = [n for n in MODELS if not options.names or any(n.startswith(p) for p in options.names)]
    outcomes: list[Outcome] = []
    environment = env.prepare()
    print(HEAD)
    for i in range(0, len(names), CHUNK):
        outcomes += compare(names[i : i + CHUNK], environment)
        if options.json:
            options.json.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
        for outcome in outcomes[i:]:
            print(line(outcome), flush=True)
    print(total(outcomes))
    for o in outcomes:
        for node, target, verdict, ours, theirs in o.disagreements:
            print(f"{o.model}: {node} ({target}) predicted {verdict}: {ours}\n    ExecuTorch: {theirs}")
    print("without a mapping:", _counted(outcomes, "unmapped"))
    print("of these by ExecuTorch's builders:", _counted(outcomes, "taken_by_stock"))
    print(
        "at these ExecuTorch's partitioner stops:",
        Counter(t for o in outcomes for t in o.stopped.values()).most_common(),
    )
    return 0


def _counted(outcomes: list[Outcome], name: str) -> str:
    total: Counter[str] = Counter()
    for o in outcomes:
        total.update(getattr(o, name))
    return ", ".join(f"{t} {n}" for t, n in total.most_common()) or "none"


if __name__ == "__main__":
    raise SystemExit(main())
