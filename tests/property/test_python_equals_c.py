"""Python = C: random expressions through both emitters, and op configs through both generated validators.

The C runs under UBSan with -fno-sanitize-recover, in a child process: undefined behavior fails the test
with the sanitizer's own message.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from configs import CONTEXTS, OTHERS, Maker
from evaluate import Case, build, disagreements
from expressions import SCOPE, TYPES, batch
from isolated import isolated

from opdb.codegen.emit_c import Block
from opdb.generated import validators
from opdb.measure.conformance.cases import CaseSet
from opdb.runtime import native
from opdb.runtime.binding import Context
from opdb.runtime.checks import Violation
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp
from opdb.spec.lang.nodes import INT, Node, walk
from opdb.spec.lang.printer import MULTIPLY

pytestmark = [pytest.mark.slow, pytest.mark.by_op]

EXPRESSIONS, ARGUMENTS = 210, 150
CONFIGS = 400  # for each op, each in all contexts, and in one of each other backend that has a document of it
MAX_GOT = 383  # bytes of `got` that C keeps (OPDB_MAX_GOT)

#: Expressions that once disagreed or were undefined in C, and edges of the arithmetic.
KNOWN = (
    ("int", "7 // [2, 3][m]"),  # after a failed look-up, a plain division by 0
    ("int", "3 * 2147483647"),  # two literals: C's int is too small
    ("int", "(3 if p else 2) * 2147483647"),
    ("int", "-9223372036854775808 // m"),
    ("int", "-(-9223372036854775808) + n"),
    ("int", "n % m"),
    ("int", "len(L) * 1152921504606846976"),
    ("bool", "0 > m > sum(e for e in L)"),  # the last term is read only if the first comparison holds
    ("bool", "0 > m > prod(L) > len(cat(L, L))"),
    ("bool", "m in (1, prod(L), n // m)"),  # all choices are read
    ("bool", "n not in (L[0], L[1])"),
    ("ints", "reduced(L[:m], [], true)"),
    ("ints", "reduced(L, [0], p)"),
    ("ints", "expand(L, 65)"),
    ("ints", "[e // m for e in L if e % 2 == 1]"),
    ("float", "min(max(1.0, f / g), min(0.5, h))"),
    ("bool", "any(y.dtype == x.dtype and e > 0 for y in xs for e in y.shape)"),
    ("int", "sum(1 for y in xs for e in S)"),  # unused loop variables
    ("bool", "present(w) and w.rank == 2 or not present(axes)"),
    ("ints", "(w if p else x).shape[:-1]"),
)


def test_random_expressions_give_the_same_values(tmp_path: Path) -> None:
    cases = [Case.of(type_, text) for type_, text in (*KNOWN, *batch(EXPRESSIONS, 20, TYPES))]
    kinds = {n.kind for case in cases for n in walk(case.node)}
    assert kinds == {"const", "name", "attr", "index", "slice", "call", "neg", "not", "arith", "and", "or",
                     "compare", "in", "if", "list", "comp"}  # fmt: skip
    library = build(cases, tmp_path)
    found, counts = isolated(lambda: disagreements(cases, library, ARGUMENTS, seed=7))
    assert found == []
    assert sum(counts.values()) == len(cases) * ARGUMENTS > 20_000
    assert min(counts.values()) > 2_000, counts


class Truncating(Block):
    """A wrong emitter: C's own / and % where the language rounds down."""

    def _arith(self, node: Node) -> tuple[str, int]:
        left, right = node.args
        if node.type == INT and node.value == "//":
            divisor = f"({self.expression(right)})"
            self.put(f"if ({divisor} == 0 || {divisor} == -1) ok = false;")
            return f"{self.expression(left, MULTIPLY)} / ({divisor} == 0 ? 1 : {divisor})", MULTIPLY
        return super()._arith(node)


def test_a_planted_bug_is_detected(tmp_path: Path) -> None:
    cases = [Case.of("int", text) for text in ("m // 2", "(m - 1) // (d + 1)", "d // 2", "m + d")]
    found, _ = disagreements(cases, build(cases, tmp_path, Truncating), ARGUMENTS, seed=7)
    assert {f.partition(":")[0] for f in found} == {"m // 2", "(m - 1) // (d + 1)"}


def test_the_scope_has_every_type() -> None:
    types = {known.type for known in SCOPE.names.values()}
    assert types == {"int", "float", "bool", "ints", "rows", "tensor", "tensors", "enum:mode"}
    assert any(k.let for k in SCOPE.names.values()) and any(k.sure for k in SCOPE.names.values())


def kept(text: str) -> str:
    """A text as stored by C."""
    return text if len(text) <= MAX_GOT else text[: MAX_GOT - 3] + "..."


def plain(violations: tuple[Violation, ...]) -> list[tuple[str, str, str, str, bool, str, str, str]]:
    return [
        (v.rule, v.sentence, v.why, kept(v.got), v.undecidable, v.strength, v.erratum, v.effect)
        for v in violations
    ]


def judge(
    compiled: CompiledOp, derived: CaseSet, module: Any
) -> tuple[list[str], Counter[str], Counter[str]]:
    """Disagreements, verdicts and broken rules over random configs of one op and its derived cases."""
    native.ffi, native.lib = module.ffi, module.lib  # in the child only
    name = compiled.name
    python = validators.module(name)
    assert python is not None
    found: list[str] = []
    verdicts: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    drawn = Maker(compiled, random.Random(f"python = C {name}")).stream(CONFIGS)
    contexts = (*CONTEXTS, *(c for c in OTHERS if c.backend in compiled.definition.backends))
    asked = [(config, context) for config in drawn for context in contexts]
    asked += [(case.config, case.target.context()) for case in derived.cases]
    for config, context in asked:
        want = python.validate(config, context)
        got = native.validate(config, context)
        if plain(want) != plain(got):
            found.append(f"{config} in {context}:\n  Python {plain(want)}\n  C      {plain(got)}")
        broken = [v for v in want if not v.warning]
        undecided = broken and all(v.undecidable for v in broken)
        verdicts["unknown" if undecided else "invalid" if broken else "valid"] += 1
        verdicts["cut"] += any(len(v.got) > MAX_GOT for v in want)
        rules.update({v.rule.partition(".")[2] for v in want})
    return found[:5], verdicts, rules


@pytest.mark.parametrize("op", list(validators.MODULES))
def test_validators_give_the_same_verdicts(
    catalog: Catalog, native_module: Any, case_set: Callable[[str], CaseSet], op: str
) -> None:
    compiled, derived = catalog.compiled(op), case_set(op)
    found, verdicts, rules = isolated(lambda: judge(compiled, derived, native_module))
    assert found == []
    assert min(verdicts["valid"], verdicts["invalid"]) > 80, verdicts
    # Every rule was broken by some config, so that the messages of Python and C were compared, too.
    assert set(compiled.rule_ids()) - set(rules) == set()


def test_enough_configs_and_targets_are_compared() -> None:
    assert CONFIGS * len(validators.MODULES) >= 20_000
    assert [c.backend for c in CONTEXTS] == [None, "CPU", "CPU", "HTP", "HTP", "HTP", "HTP"]
    assert [c.arch for c in CONTEXTS if c.backend == "HTP"] == [68, 73, 75, 73]
    assert {(c.backend, c.sdk) for c in CONTEXTS[1:]} == {
        (b, s) for b in ("CPU", "HTP") for s in (2025, 2047)
    }


def test_a_too_long_text_ends_in_dots(catalog: Catalog, native_module: Any) -> None:
    def longest() -> list[tuple[str, str]]:
        native.ffi, native.lib = native_module.ffi, native_module.lib
        maker = Maker(catalog.compiled("LayerNorm"), random.Random(1))
        base = maker.valid()
        out = []
        for count in range(90, 200):
            axes = tuple(range(count))
            params = tuple(
                p if p.name != "axes" else type(p)("axes", "u32", axes, (count,)) for p in base.params
            )
            config = type(base)(base.op, base.inputs, params, base.outputs)
            module = validators.module("LayerNorm")
            assert module is not None
            pairs = zip(module.validate(config, Context()), native.validate(config), strict=True)
            out += [(a.got, b.got) for a, b in pairs]
        return out

    pairs = isolated(longest)
    lengths = {len(a) for a, _ in pairs}
    assert min(lengths) <= MAX_GOT < max(lengths)
    assert [b for _, b in pairs] == [kept(a) for a, _ in pairs]
