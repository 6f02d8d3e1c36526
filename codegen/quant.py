"""Generates constants/quant.py: the rules for the encodings of each op's tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from typing import Any

from opdb.codegen import pieces
from opdb.codegen.artifact import Artifact, all_specs, sorted_ops
from opdb.codegen.environment import render
from opdb.core.quant_rules import QuantRules
from opdb.spec.catalog import Catalog


def python(catalog: Catalog) -> Iterable[Artifact]:
    """Renders one table for all ops."""
    rules = [
        (name, pieces.of_op("quant", name, partial(_of_op, catalog, name))) for name in sorted_ops(catalog)
    ]
    pointwise = [name for name in sorted_ops(catalog) if _pointwise(catalog, name)]
    text = render("quant.py.j2", rules=rules, pointwise=pointwise)
    yield Artifact("generated/python/constants/quant.py", text, all_specs(catalog), "python")


def _of_op(catalog: Catalog, name: str) -> str:
    return _rules(catalog.compiled(name).quant)


def _pointwise(catalog: Catalog, name: str) -> bool:
    kernel = catalog.ops[name].kernel
    return kernel is not None and kernel.each is not None


def _rules(rules: QuantRules) -> str:
    slots = [f"{name!r}: ({', '.join(map(_short, own))},)" for name, own in rules.slots.items()]
    given = [f"shared={rules.shared!r}"] if rules.shared else []
    given += [f"stored={rules.stored!r}"] if rules.stored else []
    given += [f"slots={{{', '.join(slots)}}}"] if slots else []
    return f"QuantRules({', '.join(given)})"


def _short(rule: Any) -> str:
    """The call that constructs a dataclass, without fields that have their default."""
    given = {f.name: getattr(rule, f.name) for f in fields(rule) if getattr(rule, f.name) != f.default}
    return f"{type(rule).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"
