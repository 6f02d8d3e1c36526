"""Gives opdb's verdict by the current definitions, even if their validators have not been generated.

validators = validators_of(catalog, ["Relu"])
judge(validators["Relu"].module, config, Target("HTP", "SM8650"))
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from opdb.codegen import rules_python
from opdb.codegen.environment import render
from opdb.core.op_config import OpConfig
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp


@dataclass(frozen=True)
class Validator:
    """The validator of one op, with the text that would be generated; can be sent to another process."""

    compiled: CompiledOp
    source: str

    @property
    def op(self) -> str:
        return self.compiled.name

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()

    @cached_property
    def module(self) -> Any:
        """The module that ``import`` would give: SIGNATURE, DOCUMENTED, ``validate``, ``infer``."""
        made = ModuleType(f"validator of {self.op}")
        exec(compile(self.source, f"<{made.__name__}>", "exec"), made.__dict__)
        return made

    def infer(self, config: OpConfig) -> dict[str, Any]:
        """Infers output shapes like ``opdb.judge.validate.infer``."""
        shapes: dict[str, Any] = self.module.infer(config)
        return shapes

    def __reduce__(self) -> tuple[type[Validator], tuple[CompiledOp, str]]:
        return Validator, (self.compiled, self.source)


def validators_of(catalog: Catalog, ops: Iterable[str] | None = None) -> dict[str, Validator]:
    """Makes the validators of ``ops`` (None: all) from the catalog.  Raises KeyError for an unknown op."""
    out = {}
    for name in catalog.ops if ops is None else ops:
        compiled = catalog.compiled(name)
        out[name] = Validator(compiled, render("validator.py.j2", **rules_python.view(compiled)))
    return out
