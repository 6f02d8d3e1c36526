"""Whole validators of random rules: the templates, defaults, named expressions, witnesses and `got` texts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from configs import CONTEXTS, Maker
from isolated import isolated
from random_ops import Generated, generate, random_op
from test_inference import flat
from test_python_equals_c import plain

from opdb.runtime import native
from opdb.runtime.binding import Context
from opdb.runtime.checks import Undecidable
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

OPS, RULES, CONFIGS = 4, 30, 300
PROBE = "probe HTP 2.47.0"
#: The libraries of two backends do not check the derived and written rules here, one of them not even the ranks.
OPEN: dict[str, Any] = {
    "op": "Open",
    "summary": "Rules that a backend does not check.",
    "inputs": {
        "x": ["S...", "N", "C"],
        "w": {"shape": ["K", "C"], "static": True},
        "b": {"shape": ["K"], "optional": True, "dtype": "f32"},
    },
    "params": {"n": "u32 = N + 1", "m": "u32 = 2"},
    "let": {"half": "K // m"},
    "outputs": {"y": ["S...", "N", "K"]},
    "constraints": {
        "C1": "n % m == 1",
        "C2": {"when": "present(b)", "require": "half > 0 and all(d < 4 for d in S)"},
        "C3": {"expect": "n < 5"},
    },
    "backends": {
        "HTP": {
            "constraints": {"H1": "len(S) < 2", "H2": "soc_model != 43", "H3": "K < 4"},
            "unchecked": {
                **dict.fromkeys(("RANK_x", "SHAPE_w", "SHAPE_b", "DTYPE_b", "STATIC_w", "C2"), PROBE),
                "RANK_w": {"source": PROBE, "since": "2.47"},
                "SHAPE_y": {"source": PROBE, "until": "2.30"},
            },
        },
        "CPU": {
            "unchecked": {
                "UNKNOWN_PARAMS": {"source": PROBE, "since": "2.30"},
                "SHAPE_y": {"source": "probe CPU 2.47.0", "since": "2.30", "until": "2.50"},
            }
        },
    },
    "samples": [
        {"x": [2, 3], "w": [4, 3], "b": [4]},
        {"x": [5, 2, 3], "w": [4, 3], "n": 5, "m": 0},
        {"x": [2, 2, 2, 2], "w": [1, 2], "b": [1], "m": 1},
    ],
}  # fmt: skip


def agreement(
    catalog: Catalog, made: Generated, contexts: tuple[Context, ...]
) -> tuple[list[str], Counter[str]]:
    """Differences between the generated Python and C of each op, and counts of the compared results."""
    native.ffi, native.lib, native.validators = made.ffi, made.lib, made  # type: ignore[assignment]
    found: list[str] = []
    counts: Counter[str] = Counter()
    for name, module in made.modules.items():
        maker = Maker(catalog.compiled(name), random.Random(name), module.infer)
        for config in maker.stream(CONFIGS):
            for context in contexts:
                want, got = plain(module.validate(config, context)), plain(native.validate(config, context))
                counts.update(
                    "undecidable" if v[4] else "warning" if v[5] != "require" else "broken" for v in want
                )
                counts.update(f"{context.backend} {context.sdk} {v[0]} {v[5] != 'require'}" for v in want)
                if want != got:
                    differ = [(a, b) for a, b in zip(want, got, strict=False) if a != b]
                    found.append(f"{name} {config} in {context}: {differ[:1] or (want, got)}")
            try:
                shapes = flat(module, module.infer(config))
            except Undecidable:
                shapes = None
            counts["inferred"] += shapes is not None
            if shapes != native.infer(config):
                found.append(f"{name} {config}: Python infers {shapes}, C {native.infer(config)}")
    return found[:3], counts


def test_random_ops_give_the_same_verdicts(catalog: Catalog, tmp_path: Path) -> None:
    own = {f"Random{i}": random_op(f"Random{i}", 31 * i + 5, RULES, i % 2 == 0) for i in range(OPS)}
    random_catalog = replace(catalog, own=own, bases={}, families={})
    made = generate(random_catalog, tmp_path)
    found, counts = isolated(lambda: agreement(random_catalog, made, (CONTEXTS[0], CONTEXTS[4])))
    assert found == []
    assert counts["broken"] > 5_000 and counts["undecidable"] > 2_000 and counts["warning"] > 200, counts


def test_rules_a_backend_does_not_check_are_warnings(catalog: Catalog, tmp_path: Path) -> None:
    """This holds only in its SDKs; a free rank leaves the rules that read it undecidable."""
    own = replace(catalog, own={"Open": OpDef.model_validate(OPEN)}, bases={}, families={})
    made = generate(own, tmp_path)
    found, counts = isolated(lambda: agreement(own, made, CONTEXTS))
    assert found == []
    warned: dict[tuple[str, int], set[str]] = {}
    required: dict[tuple[str, int], set[str]] = {}
    for line, n in counts.items():
        match line.split():
            case [backend, sdk, rule, expected] if n:
                side = warned if expected == "True" else required
                side.setdefault((backend, int(sdk)), set()).add(rule.removeprefix("Open."))
    always = {"RANK_x", "SHAPE_w", "SHAPE_b", "DTYPE_b", "STATIC_w", "C2", "C3"}
    assert warned == {
        ("None", 0): {"C3"},
        ("CPU", 2025): {"C3"},
        ("CPU", 2047): {"C3", "SHAPE_y", "UNKNOWN_PARAMS"},
        ("HTP", 2025): always | {"SHAPE_y"},
        ("HTP", 2047): always | {"RANK_w"},
    }
    everywhere = {"INPUTS", "PARAMS", "OUTPUTS", "UNKNOWN_PARAMS", "C1"}
    own_rules = everywhere | (always - {"C3"}) | {"RANK_w", "SHAPE_y"}
    assert required[("None", 0)] == required[("CPU", 2025)] == own_rules
    assert required[("CPU", 2047)] == own_rules - {"SHAPE_y", "UNKNOWN_PARAMS"}
    assert required[("HTP", 2025)] == everywhere | {"H1", "H2", "H3", "RANK_w"}
    assert required[("HTP", 2047)] == everywhere | {"H1", "H3", "SHAPE_y"}
