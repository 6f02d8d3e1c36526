"""Whole validators of random rules: the templates, defaults, named expressions, witnesses and `got` texts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

from configs import CONTEXTS, Maker
from isolated import isolated
from random_ops import generate, random_op
from test_inference import flat
from test_python_equals_c import plain

from opdb.catalog import Catalog
from opdb.runtime import native
from opdb.runtime.checks import Undecidable

OPS, RULES, CONFIGS = 4, 30, 300


def test_random_ops(catalog: Catalog, tmp_path: Path) -> None:
    own = {f"Random{i}": random_op(f"Random{i}", 31 * i + 5, RULES, i % 2 == 0) for i in range(OPS)}
    random_catalog = replace(catalog, own=own, bases={}, decompositions={})
    made = generate(random_catalog, tmp_path)

    def compare() -> tuple[list[str], Counter[str]]:
        native.ffi, native.lib, native.validators = made.ffi, made.lib, made  # type: ignore[assignment]
        found: list[str] = []
        counts: Counter[str] = Counter()
        for name, module in made.modules.items():
            maker = Maker(random_catalog.compiled(name), random.Random(name), module.infer)
            for config in maker.stream(CONFIGS):
                for context in (CONTEXTS[0], CONTEXTS[4]):
                    want, got = (
                        plain(module.validate(config, context)),
                        plain(native.validate(config, context)),
                    )
                    counts.update("undecidable" if v[3] else "warning" if v[4] else "broken" for v in want)
                    if want != got:
                        differ = [(a, b) for a, b in zip(want, got, strict=False) if a != b]
                        found.append(f"{name} {config} in {context}: {differ[:1] or (want, got)}")
                try:
                    shapes = flat(module.infer(config))
                except Undecidable:
                    shapes = None
                counts["inferred"] += shapes is not None
                if shapes != native.infer(config):
                    found.append(f"{name} {config}: Python infers {shapes}, C {native.infer(config)}")
        return found[:3], counts

    found, counts = isolated(compare)
    assert found == []
    assert counts["broken"] > 5_000 and counts["undecidable"] > 2_000 and counts["warning"] > 200, counts
