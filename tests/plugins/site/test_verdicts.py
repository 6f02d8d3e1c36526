"""The validators in WebAssembly, in Chromium, against the compiled C: 10,000 configs of all ops, on all targets."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from configs import CONTEXTS, OTHERS, Maker

from opdb.catalog.targets.target import Target
from opdb.core.op_config import ConfigError, OpConfig, from_json, to_json
from opdb.generated import validators
from opdb.judge.errata.policy import excludes
from opdb.judge.nearest import nearest
from opdb.judge.validate import check
from opdb.runtime import native
from opdb.runtime.binding import Context
from opdb.spec.catalog import Catalog

pytestmark = [
    pytest.mark.native,
    pytest.mark.browser,
    pytest.mark.skipif("OPDB_TEST_CHROMIUM" not in os.environ, reason="tools/with-chromium sets it"),
    pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="clang and wasm-ld are not installed"),
    pytest.mark.slow,
]
CONFIGS = 10_000
MEMBERS = [f.name for f in fields(Context)]


def literal(value: Any) -> str:
    """JSON, with whole numbers that a double does not hold as BigInt."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(literal, value)) + "]"
    if type(value) is int and abs(value) > 2**53:
        return f"{value}n"
    return json.dumps(value)  # NaN and Infinity are JavaScript's, too


def values(context: Context) -> dict[str, Any]:
    backend = -1 if context.backend is None else validators.BACKENDS.index(context.backend)
    return {m: backend if m == "backend" else int(getattr(context, m)) for m in MEMBERS} | {
        "name": context.backend
    }


def page(site: Path, op: str, script: str) -> Path:
    """A page with the scripts of the op's own one, and ``script``."""
    text = (site / "op" / f"{op}.html").read_text(encoding="utf-8")
    data = text.partition('id="op-data">')[2].partition("</script>")[0]
    scripts = "".join(
        f'<script src="../assets/{name}.js"></script>'
        for name in ("targets", "verdict", "nearest", f"wasm/{op}")
    )
    path = site / "op" / f"test-{op}.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8">{scripts}<script type="application/json" id="op-data">{data}</script>'
        f"<script>const DATA = JSON.parse(document.getElementById('op-data').textContent); {script}</script>",
        encoding="utf-8",
    )
    return path


def answers(driver: Any, site: Path, op: str, script: str) -> Any:
    """What the expression ``script`` gives for ``validator``."""
    made = page(site, op, f"const answer = Validator.open(WASM, DATA).then(async validator => {script});")
    try:
        driver.get(made.as_uri())
        found = driver.execute_async_script(
            "const done = arguments[0]; answer.then(x => done({ok: x}), e => done({failed: String(e) + e.stack}))"
        )
    finally:
        made.unlink()
    assert "ok" in found, found
    return found["ok"]


def plain(config: OpConfig, context: Context) -> list[list[Any]]:
    return [
        [v.rule, v.sentence, v.got, v.why, v.erratum, v.effect, v.undecidable, v.strength]
        for v in native.validate(config, context)
    ]


def cases(catalog: Catalog, op: str, count: int) -> list[tuple[OpConfig, Context]]:
    compiled, rng = catalog.compiled(op), random.Random(f"wasm {op}")
    contexts = (*CONTEXTS, *(c for c in OTHERS if c.backend in compiled.definition.backends))
    found: list[tuple[OpConfig, Context]] = []
    for drawn in Maker(compiled, rng).stream(10 * count):
        with suppress(ConfigError):  # e.g. a parameter that is given twice: no op config in JSON
            found.append((from_json(to_json(drawn)), rng.choice(contexts)))
        if len(found) == count:
            return found
    raise AssertionError(f"{op}: too few configs")


def test_verdicts_equal_those_of_c(driver: Any, site: Path, catalog: Catalog) -> None:
    each = -(-CONFIGS // len(catalog.ops))
    asked = 0
    verdicts: Counter[bool] = Counter()
    for op in catalog.ops:
        mine = cases(catalog, op, each)
        text = literal([[to_json(config), values(context)] for config, context in mine])
        fields_ = "[v.rule, v.sentence, v.got, v.why, v.erratum, v.effect, v.undecidable, v.strength]"
        got = answers(
            driver, site, op, f"{text}.map(([c, t]) => validator.violations(read(c), t).map(v => {fields_}))"
        )
        for (config, context), found in zip(mine, got, strict=True):
            assert found == plain(config, context), (op, to_json(config), context)
            verdicts[bool(found)] += 1
        shapes = answers(driver, site, op, f"{text}.map(([c, t]) => validator.infer(read(c), t))")
        assert shapes == [native.infer(config) for config, _ in mine], op
        asked += len(mine)
    assert asked >= CONFIGS
    assert min(verdicts.values()) > CONFIGS / 20, verdicts


def tensor(dtype: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), **more}


def config_of(op: str, inputs: list[Any], outputs: list[Any], **params: Any) -> OpConfig:
    return from_json({"op": op, "inputs": inputs, "params": params, "outputs": outputs})


EIGHTH = {"encoding": "SCALE_OFFSET", "scale": 0.125}
UNIT = {"encoding": "SCALE_OFFSET", "scale": 2**-8}
SIX = (1, 1, 2, 3, 4, 5)
AXES = {"axes": {"dtype": "u32", "data": [3]}, "epsilon": {"dtype": "f32", "value": 1e-5}}
#: Refused configs that people write, with their SDK on HTP SM8650; "" is the CPU.
REFUSED: tuple[tuple[OpConfig, str], ...] = (
    (
        config_of(
            "Softmax",
            [tensor("uq8", 1, 8, quant=EIGHTH)],
            [tensor("uq8", 1, 8, quant=UNIT)],
            axis={"dtype": "u32", "value": 0},
        ),
        "2.47",
    ),
    (config_of("Softmax", [tensor("f32", 1, 8)], [tensor("f16", 1, 8)]), "2.47"),
    (config_of("Relu", [tensor("f32", 4)], [tensor("f32", 5)]), ""),
    (
        config_of("LayerNorm", [tensor("f16", 2, 3, 4), tensor("f16", 4)], [tensor("f16", 2, 3, 4)], **AXES),
        "2.47",
    ),
    (config_of("MatMul", [tensor("f32", 2, 3), tensor("f32", 3, 4)], [tensor("f32", 2, 5)]), "2.51"),
    (
        config_of(
            "Transpose", [tensor("f16", 2, 3)], [tensor("f16", 3, 2)], perm={"dtype": "u32", "data": [0, 2]}
        ),
        "2.47",
    ),
    (config_of("Cast", [tensor("f64", 4)], [tensor("f32", 4)]), "2.47"),
    (config_of("Tanh", [tensor("f16", *SIX)], [tensor("f16", *SIX)]), "2.47"),
)


def of_javascript(driver: Any, site: Path, config: OpConfig, target: Target) -> Any:
    context = literal(values(target.context()))
    script = f"new Nearest(validator, {context}).find(read({literal(to_json(config))}))"
    return answers(
        driver,
        site,
        config.op,
        f"(n => n && {{changes: n.changes, advice: n.advice, left: n.left, config: written(n.config)}})({script})",
    )


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_the_nearest_config_is_that_of_python(driver: Any, site: Path, number: int) -> None:
    config, sdk = REFUSED[number]
    target = Target("HTP", "SM8650", sdk) if sdk else Target("CPU", None, "2.47")
    want, got = nearest(config, target), of_javascript(driver, site, config, target)
    assert want is not None and got is not None
    assert sorted(got["changes"]) == sorted(c.text for c in want.changes)


def test_the_nearest_config_is_accepted_by_c(driver: Any, site: Path, catalog: Catalog) -> None:
    """One change from an accepted config: JavaScript finds an accepted one wherever Python does, mostly as near."""
    target = Target("HTP", "SM8650", "2.47")
    found: Counter[str] = Counter()
    for op in catalog.ops:
        module = validators.module(op)
        assert module is not None
        if "HTP" not in module.DOCUMENTED:
            continue
        maker = Maker(catalog.compiled(op), random.Random(f"nearest {op}"))
        for _ in range(200):
            with suppress(ConfigError):
                config = from_json(to_json(maker.damaged(maker.valid())))
                if (
                    check(config, target).verdict == "reject"
                    and (want := nearest(config, target)) is not None
                ):
                    break
        else:
            continue
        got = of_javascript(driver, site, config, target)
        if got is None:
            found["none"] += 1
            continue
        verdict = check(from_json(got["config"]), target)
        assert verdict.verdict == "accept", (to_json(config), got)
        faults = [v.erratum for v in verdict.violations if excludes(v, target)]
        assert faults == got["left"], (to_json(config), got)
        found["as near" if len(got["changes"]) <= len(want.changes) else "farther"] += 1
    assert found["none"] <= 0.05 * sum(found.values()), found
    assert found["as near"] >= 0.8 * sum(found.values()), found
