"""Measures how well the op configs of these tests distinguish a spec from a slightly wrong one.

Three specs are damaged, one change at a time: a comparison flipped, a rule deleted, two dims of a shape swapped, a
number incremented.  The samples detect a mutant if it refuses one or infers another shape, the verdicts if one of the
corpus (tests/property/configs.py, and the derived broken cases) differs from the unchanged spec's, and the rules if
other rules are broken somewhere in the corpus, even in addition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any

import pytest
from configs import CONTEXTS, OTHERS, Maker
from test_inference import flat

from opdb.catalog.targets.target import Target
from opdb.codegen import validators
from opdb.core.op_config import OpConfig
from opdb.measure.conformance.cases import CaseSet
from opdb.runtime.checks import Undecidable
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

pytestmark = [pytest.mark.slow, pytest.mark.by_op]

CONFIGS = 500
#: A chip of each Hexagon version; number 88 is the one with BF16.
NEWER = tuple(
    Target("HTP", soc, sdk).context()
    for soc, sdk in (("SM8750", "2.25"), ("SM8850", "2.25"), ("SC8480XP", "2.47"))
)
TARGETS = (*CONTEXTS, *OTHERS, *NEWER)
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
Data = dict[str, Any]


def mutants(definition: OpDef) -> Iterator[tuple[str, Data]]:
    """(the change, the data of the changed definition)."""
    base: Data = definition.model_dump(mode="json")
    yield from _rules(base, ("constraints",))
    for backend in base.get("backends", {}):
        if "constraints" in base["backends"][backend]:
            yield from _rules(base, ("backends", backend, "constraints"))
    for name, text in base.get("let", {}).items():
        for what, changed in _texts(str(text)):
            yield f"let {name} {what}", _with(base, ("let", name), changed)
    for group in ("inputs", "outputs"):
        for name, slot in base[group].items():
            at = (group, name, "shape") if isinstance(slot, dict) else (group, name)
            shape = slot.get("shape") if isinstance(slot, dict) else slot
            if isinstance(shape, list):
                for i in range(len(shape) - 1):
                    if not str(shape[i]).endswith("..."):
                        swapped = [*shape[:i], shape[i + 1], shape[i], *shape[i + 2 :]]
                        yield f"{name}: dims {i} and {i + 1} swapped", _with(base, at, swapped)
            elif isinstance(shape, str) and shape != "any":
                for what, changed in _texts(shape):
                    yield f"{name} {what}", _with(base, at, changed)


def _rules(base: Data, at: tuple[str, ...]) -> Iterator[tuple[str, Data]]:
    rules = base
    for step in at:
        rules = rules[step]
    for ident, rule in rules.items():
        fewer = _with(base, at, {k: v for k, v in rules.items() if k != ident})
        yield f"{ident} deleted", _without(fewer, ident)
        parts = rule if isinstance(rule, dict) else {"": rule}
        for key, text in parts.items():
            if key in ("", "when", "require"):
                place = (*at, ident, key) if key else (*at, ident)
                for what, changed in _texts(str(text)):
                    yield f"{ident} {key} {what}".replace("  ", " "), _with(base, place, changed)


def _texts(text: str) -> Iterator[tuple[str, str]]:
    for number, match in enumerate(re.finditer(r"[<>]=?|[=!]=", text)):
        flipped = FLIPPED[match[0]]
        again = f" ({number + 1})" if number else ""
        yield f"{match[0]} -> {flipped}{again}", text[: match.start()] + flipped + text[match.end() :]
    for match in re.finditer(r"(?<![\w.])\d+(?![\w.])", text):
        yield f"{match[0]} + 1", f"{text[: match.start()]}{int(match[0]) + 1}{text[match.end() :]}"


def _with(base: Data, at: tuple[str, ...], value: Any) -> Data:
    if not at:
        return value
    return {**base, at[0]: _with(base[at[0]], at[1:], value)}


def _without(base: Data, rule: str) -> Data:
    """The definition without a rule of the op that a backend lists as unchecked."""
    backends = {}
    for name, part in base.get("backends", {}).items():
        unchecked = {k: v for k, v in part.get("unchecked", {}).items() if k != rule}
        backends[name] = {**part, "unchecked": unchecked}
    return {**base, "backends": backends}


def module_of(catalog: Catalog, definition: OpDef) -> ModuleType:
    changed = replace(catalog, own={definition.op: definition}, families={})
    (artifact,) = validators.python(changed, definition.op)
    module = ModuleType(definition.op)
    exec(compile(artifact.text, artifact.path, "exec"), module.__dict__)
    return module


def inferred(module: ModuleType, config: OpConfig) -> list[list[int]] | None:
    try:
        return flat(module, module.infer(config))
    except Undecidable:
        return None


def judged(module: ModuleType, configs: list[OpConfig]) -> list[tuple[str, frozenset[str]]]:
    """The inferred shapes of each config, and for each config and target the verdict and the broken rules."""
    out = []
    for config in configs:
        out.append((str(inferred(module, config)), frozenset[str]()))
        for context in TARGETS:
            violations = module.validate(config, context)
            broken = [v for v in violations if not v.warning]
            verdict = (
                "reject" if any(not v.undecidable for v in broken) else "unknown" if broken else "accept"
            )
            out.append((verdict, frozenset(v.rule for v in violations)))
    return out


@pytest.mark.parametrize(
    "op",
    [
        "LayerNorm",
        pytest.param("Conv2d", marks=pytest.mark.sweep),
        pytest.param("Split", marks=pytest.mark.breadth),
    ],
)
def test_mutants_are_detected(
    catalog: Catalog,
    case_set: Callable[[str], CaseSet],
    op: str,
    record_property: Callable[[str, object], None],
) -> None:
    maker = Maker(catalog.compiled(op), Random(f"mutants {op}"))
    corpus = list(maker.stream(CONFIGS))
    corpus += dict.fromkeys(c.config for c in case_set(op).cases if c.kind == "negative")
    each = 1 + len(TARGETS)
    samples = [i for i in range(CONFIGS * each) if i // each % 5 == 0]  # the undamaged ones of the stream
    sound = module_of(catalog, catalog.own[op])
    want = judged(sound, corpus)
    score = dict.fromkeys(("mutants", "samples", "verdicts", "rules"), 0)
    survivors = set()
    for what, data in mutants(catalog.own[op]):
        score["mutants"] += 1
        module = module_of(catalog, OpDef.model_validate(data))
        got = judged(module, corpus)
        differ = [i for i in range(len(want)) if got[i][0] != want[i][0]]
        score["samples"] += any(i in differ for i in samples)
        score["verdicts"] += bool(differ)
        score["rules"] += got != want
        if got == want:
            survivors.add(f"{op}: {what}")
    record_property("score", score)  # in the JUnit report
    assert survivors == set(), score
    assert score["mutants"] >= 20 and score["verdicts"] >= 0.5 * score["mutants"], score
