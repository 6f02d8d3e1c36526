"""The derived cases: deterministic, complete, and judged alike by the Python and the C validators."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest

from opdb.codegen import validators as generator
from opdb.generated import validators
from opdb.judge.validate import check
from opdb.measure.conformance.cases import CaseSet, broken_rules, cases, past, read_config
from opdb.measure.conformance.executors.validators import CExecutor, PythonExecutor
from opdb.measure.conformance.expressions import in_force, reader
from opdb.measure.conformance.judge import Seen, outcome
from opdb.runtime import native
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

pytestmark = [pytest.mark.native, pytest.mark.by_op]
Cases = Callable[[str], CaseSet]


def test_both_validators_agree_with_each_case(op: str, case_set: Cases) -> None:
    """Positive cases break no rule; the others break exactly their rules, with the same messages and values."""
    wrong = []
    for case in case_set(op).cases:
        python = check(case.config, case.target)
        c = native.validate(case.config, case.target.context())
        reported = tuple(dict.fromkeys(v.rule for v in python.violations))
        if reported != case.rules or (python.verdict == "accept") != (case.kind == "positive"):
            wrong.append(f"{case.id}: {python.verdict} {reported}, expected {case.rules}")
        if [(v.rule, v.message, v.strength) for v in c] != [
            (v.rule, v.message, v.strength) for v in python.violations
        ]:
            wrong.append(f"{case.id}: C says {c}, Python {python.violations}")
    assert not wrong, "\n".join(wrong)


def test_every_rule_has_a_positive_and_a_negative_case(op: str, catalog: Catalog, case_set: Cases) -> None:
    compiled, made = catalog.compiled(op), case_set(op)
    every = {f"{op}.{i}" for i in compiled.rule_ids()} - past(compiled)
    force = in_force(compiled)
    good = [c for c in made.cases if c.kind == "positive"]
    kept = {r for c in good for r in force(c.config, c.target.context()) - set(c.rules)}
    alone = {r for c in made.cases for r in c.broken if len(c.broken) == 1}
    implied = {i.rule for i in made.implications}
    assert made.unbroken == ()
    assert every - kept == set(), "no accepted case that the rule says something about"
    assert not every - alone - implied, "no case breaks the rule alone, and none implies it"
    assert not alone & implied
    broken = {r for c in made.cases for r in c.broken} - past(compiled)
    assert every == broken, "an implied rule is broken by a case too, together with others"
    assert {i.implied_by for i in made.implications} <= every


def test_a_case_can_be_restored_from_data(op: str, case_set: Cases) -> None:
    made = case_set(op).cases
    assert len({c.id for c in made}) == len(made)
    for case in made:
        record = case.record()
        assert read_config(record.config) == case.config, case.id
        assert f'"id": "{case.id}"' in record.config


def test_every_sample_and_type_row_is_a_case(op: str, catalog: Catalog, case_set: Cases) -> None:
    compiled = catalog.compiled(op)
    ids = {c.id for c in case_set(op).cases}
    for backend, rows in compiled.type_rows.items():
        chip = "-SM8650" if catalog.backends[backend].per_soc else ""
        missing = [
            f"{op}-sample{s}-{r.id}{chip}"
            for r in rows
            for s in range(len(compiled.definition.samples))
            if f"{op}-sample{s}-{r.id}{chip}" not in ids
        ]
        # A sample that the op itself refuses in every combination of a row is no case of it.
        assert len(missing) <= len(rows) * len(compiled.definition.samples) / 2, missing


def test_each_soc_has_its_own_cases(catalog: Catalog) -> None:
    made = cases(catalog, "Relu", ("SM8650", "SM8750")).cases
    chips = {c.soc for c in made if c.backend == "HTP"}
    assert {"SM8650", "SM8750"} <= chips
    for case in made:
        assert broken_rules(case.config, case.backend, case.soc) == case.broken


def _digest(catalog: Catalog, op: str) -> str:
    text = "\n".join(repr(c.record()) + c.note for c in cases(catalog, op).cases)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_cases_do_not_depend_on_the_hash_seed(hash_seed: str, catalog: Catalog) -> None:
    """Derives the cases in another process with another hash seed."""
    code = (
        "import hashlib; from opdb.core import settings; from opdb.catalog.store import read_catalog\n"
        "from opdb.measure.conformance.cases import cases\n"
        "c = read_catalog(settings.specs_folder())\n"
        "t = '\\n'.join(repr(x.record()) + x.note for x in cases(c, 'LayerNorm').cases)\n"
        "print(hashlib.sha256(t.encode()).hexdigest())\n"
    )
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == _digest(catalog, "LayerNorm")


def test_an_unchecked_rule_has_a_negative_and_a_positive_case(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A negative case for the op definition, and a positive one for the backend, which is validated but not computed."""
    spec = catalog.own["Transpose"].model_dump(mode="json")
    spec["backends"]["HTP"]["unchecked"] = {"SHAPE_y": "probe HTP 2.47.0"}
    changed = replace(catalog, own={**catalog.own, "Transpose": OpDef.model_validate(spec)})
    (artifact,) = generator.python(changed, "Transpose")
    module, known = ModuleType("transpose"), validators.module
    exec(compile(artifact.text, artifact.path, "exec"), module.__dict__)
    monkeypatch.setattr(validators, "module", lambda op: module if op == "Transpose" else known(op))
    made = [c for c in cases(changed, "Transpose").cases if c.rules == ("Transpose.SHAPE_y",)]
    assert [c.id for c in made if c.kind == "positive"] == ["Transpose-SHAPE_y-unchecked-HTP-SM8650"]
    (taken,) = [c for c in made if c.kind == "positive"]
    assert (taken.backend, taken.type_row, taken.settled, taken.runs) == ("HTP", "", False, False)
    assert {c.backend for c in made if c.kind == "negative"} == {""}
    assert check(taken.config, taken.target).verdict == "accept"
    assert check(taken.config).verdict == "reject"
    said = PythonExecutor().answer(taken, [])
    assert (said.kind, said.rules, said.computed) == ("ok", taken.rules, False)
    assert CExecutor().answer(replace(taken, backend="", soc=""), []).kind == "violation"
    seen = Seen(
        taken.id,
        "positive",
        "qnn-htp",
        "yes",
        "unknown",
        "unknown",
        "unknown",
        frozenset(),
        frozenset(taken.rules),
    )
    assert outcome(seen) == ("pass", "")
    assert outcome(replace(seen, validates="no"))[0] == "finding"


def test_slots_may_have_names_used_by_generated_code(catalog: Catalog) -> None:
    """Gather's `indices` is such a name; expressions still read the tensor."""
    compiled = catalog.compiled("Gather")
    rule = next(r for r in compiled.rules if "indices" in r.text)
    read = reader(compiled, {"it": rule.require})
    case = next(c for c in cases(catalog, "Gather").cases if c.kind == "positive")
    assert read(case.config, case.target.context()) == {"it": True}
