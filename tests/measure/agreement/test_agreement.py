"""Measures how often ``opdb validate`` agrees with the real libraries, on configs generated independently of the specs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opdb.catalog.targets.target import Target
from opdb.generated import validators
from opdb.judge.nearest import nearest
from opdb.judge.validate import check

from .blind import MINIMAL, configs
from .measure import Agreement, measure, table, total

pytestmark = pytest.mark.slow

#: The least agreement over all ops, in percent.  It may only be raised.
FLOOR = {"CPU": 99.0, "HTP": 99.0}
#: The minimum for each op, if there are enough configs to tell.
FLOOR_OF_AN_OP = 95.0
#: Minimum percentage of configs that both accept: a generator of rubbish would agree with anyone who refuses.
ACCEPTED = 20.0
TARGETS = {"CPU": Target("CPU", None, "2.47"), "HTP": Target("HTP", "SM8650", "2.47")}
#: Ops that HTP 2.47 supports in no form, according to the specs: the library lists the op and refuses every config.
REFUSED = ("ArgbToRgb", "GroupQueryAttention", "HeatMapMaxKeyPoint", "ImageProjectionTransform", "Nv21ToRgb")
ROOT = Path(__file__).parents[3]
vendor = pytest.mark.vendor


def ops(backend: str) -> list[str]:
    """The ops with a validator, a document for the backend, and a minimal config."""
    return [n for n in validators.MODULES if n in MINIMAL and backend in validators.module(n).DOCUMENTED]


def judged(rows: dict[str, Agreement], backend: str) -> None:
    found = total(rows)
    assert found.percent >= FLOOR[backend], f"\n{table(rows)}"
    assert 100 * found.counts["accept", "accept"] / found.n >= ACCEPTED, f"\n{table(rows)}"


@vendor
@pytest.mark.parametrize("backend", TARGETS)
def test_verdicts_agree_with_the_libraries(backend: str, libraries: object) -> None:
    rows = measure(TARGETS[backend], ops(backend), n=25, seed=1)
    assert len(rows) >= 100
    judged(rows, backend)


@pytest.mark.parametrize("backend", TARGETS)
def test_a_refusal_names_its_rule_and_nearest_variant(backend: str) -> None:
    """At most 2% lack one; an op that the target supports in no form has no variant."""
    refused = without = 0
    target = TARGETS[backend]
    for op in ops(backend):
        for config in configs(op, f"{backend}_{target.sdk}.0", seed=5, n=6):
            verdict = check(config, target)
            if verdict.verdict == "reject":
                refused += 1
                assert all(v.rule and v.sentence for v in verdict.violations)
                found = nearest(config, target)
                without += found is None and op not in REFUSED
                assert found is None or (check(found.config, target).verdict == "accept" and found.text)
    assert refused > 400
    assert without <= 0.02 * refused, f"{without} of {refused}"


@vendor
@pytest.mark.sweep
@pytest.mark.parametrize("backend", TARGETS)
def test_verdicts_agree_on_100000_configs(backend: str, libraries: object) -> None:
    """Writes the table to build/, the worst op first."""
    names = ops(backend)
    rows = measure(TARGETS[backend], names, n=-(-105_000 // len(names)), seed=2)
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / f"agreement-{backend}.txt").write_text(table(rows))
    assert sum(r.n for r in rows.values()) >= 100_000
    judged(rows, backend)
    assert all(r.percent >= FLOOR_OF_AN_OP for r in rows.values()), f"\n{table(rows)}"


def test_the_generator_is_blind() -> None:
    """Generating configs loads nothing that learns or probes, and reads no spec."""
    code = (
        "import sys, pathlib\n"
        "opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append(str(a[0])) if e == 'open' else None)\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import blind\n"
        "for op in ('Conv2d', 'Softmax'): list(blind.configs(op, 'HTP_2.47.0', 1, 50))\n"
        "print([m for m in sys.modules if m.startswith(('opdb.execute.libraries', 'opdb.judge.samples',"
        " 'opdb.spec.catalog', 'opdb.generated', 'opdb.measure.conformance', 'opdb.catalog.store', 'opdb.spec.definitions'))])\n"
        "print([f for f in opened if '/specs/' in f])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


@pytest.mark.parametrize("op", ["Conv2d", "Concat", "Reshape", "Lstm"])
def test_the_same_seed_gives_the_same_configs(op: str) -> None:
    one, two, other = (list(configs(op, "CPU_2.47.0", seed, 60)) for seed in (1, 1, 2))
    assert len(one) == 60 and one == two != other
    assert len(set(map(str, one))) > 45


def test_an_agreement_counts_verdicts() -> None:
    row = Agreement("Relu")
    row.counts.update({("accept", "accept"): 6, ("reject", "reject"): 1, ("accept", "reject"): 1})
    row.counts.update({("unknown", "accept"): 2, ("reject", "crashed"): 5})
    assert (row.n, row.both, row.percent) == (10, 7, 70.0)
    both = total({"Relu": row, "Elu": row})
    assert (both.n, both.percent) == (20, 70.0)
    assert row.counts["accept", "accept"] == 6  # summing does not change it
    assert table({"Relu": row}).splitlines()[1].split() == [
        "Relu",
        "10",
        "6",
        "1",
        "1",
        "0",
        "2",
        "5",
        "70.00",
    ]
