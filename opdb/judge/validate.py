"""Answers the public question: may this op run there, and if not, why?

``check(config, target)`` judges one op config by the generated validator of its op: every broken rule, with
the values that broke it.  It answers for the documents and the rules learned so far; ``opdb.execute.libraries`` asks
the libraries themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.op_config import OpConfig, from_json
from opdb.generated import validators
from opdb.runtime.checks import Violation
from opdb.runtime.errata import record_path


@dataclass(frozen=True)
class Verdict:
    """``verdict`` is accept, reject, or unknown (no rule is broken, but one cannot be evaluated)."""

    config: OpConfig
    target: Target
    verdict: str
    violations: tuple[Violation, ...] = ()

    def json(self) -> dict[str, Any]:
        """The verdict of the command-line contract; stable keys."""
        out: dict[str, Any] = {} if self.config.id is None else {"id": self.config.id}
        out |= {
            "op": self.config.op,
            "backend": self.target.backend,
            "soc": self.target.soc,
            "sdk": self.target.sdk,
        }
        out |= {"verdict": self.verdict, "violations": [_violation_json(v) for v in self.violations]}
        return out


def _violation_json(v: Violation) -> dict[str, Any]:
    op, _, rule = v.rule.partition(".")
    page = record_path(v.erratum) if v.erratum else f"generated/docs/ops/{op}.md#{rule}"
    return {
        "rule": v.rule,
        "message": v.message,
        "path": v.path,
        "got": v.got,
        "warning": v.warning,
        "finalize": v.effect == "not-finalized",
        "strength": v.strength,
        "why": v.why,
        "erratum": v.erratum or None,
        "effect": v.effect or None,
        "url": page,
    }


def validator(op: str) -> Any:
    """The generated validator of ``op``: SIGNATURE, DOCUMENTED, ``validate``, ``infer``.

    Raises OpdbError for an op without a spec.
    """
    module = validators.module(op)
    if module is None:
        hint = did_you_mean(op, validators.MODULES, lists="'opdb query ops' lists the known ones")
        raise OpdbError(f"unknown op '{op}'{hint}")
    return module


def check(config: OpConfig, target: Target | None = None) -> Verdict:
    """Validates one op config by the generated rules.  Raises OpdbError for an unknown op, backend, SoC, or SDK."""
    return judge(validator(config.op), config, _spelled(target or Target()))


def check_config(config: OpConfig | Mapping[str, Any], target: Target | None = None) -> Verdict:
    """The verdict on one op config, with every rule that it breaks; `opdb validate`.

    ``config``: an OpConfig, or the JSON object that `opdb validate` reads.  Without ``target`` only the op's definition
    is checked.

    Raises OpdbError for an unknown op, backend, chip or SDK, and ConfigError with the path of a fault in the object.

    >>> import opdb
    >>> config = {"op": "Relu", "inputs": [{"dtype": "f32", "shape": [4]}], "outputs": [{"dtype": "f32", "shape": [5]}]}
    >>> found = opdb.check_config(config, opdb.Target("CPU"))
    >>> found.verdict, [violation.message for violation in found.violations]
    ('reject', ['the shape of y must be S; got y.shape = [5], S = [4]'])
    """
    return check(config if isinstance(config, OpConfig) else from_json(config), target)


def judge(validator: Any, config: OpConfig, target: Target) -> Verdict:
    """Judges one op config by a validator, which need not be a generated file.  Raises as ``check`` does."""
    violations: tuple[Violation, ...] = validator.validate(config, target.context())
    if target.backend is not None and target.backend not in validator.DOCUMENTED:
        why = f"only the op definition was judged: the specs hold no rules of {config.op} on {target.backend}"
        violations += (Violation(f"{config.op}.TYPES_{target.backend}", why, undecidable=True),)
    broken = [v for v in violations if not v.warning]
    verdict = "accept" if not broken else "unknown" if all(v.undecidable for v in broken) else "reject"
    return Verdict(config, target, verdict, violations)


@lru_cache(256)
def _spelled(target: Target) -> Target:
    return target.spelled()


def infer(config: OpConfig) -> dict[str, list[int] | list[list[int]]]:
    """The shapes of the outputs of ``config`` by slot name.

    Raises OpdbError for an unknown op, ``opdb.runtime.checks.Undecidable`` if the shapes cannot be inferred.
    """
    shapes: dict[str, list[int] | list[list[int]]] = validator(config.op).infer(config)
    return shapes
