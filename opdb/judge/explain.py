"""One rule or one erratum in full: its sentence, reason, source, and consequences."""

from __future__ import annotations

from typing import Any

from opdb.catalog.targets.target import EXECUTIONS, Target
from opdb.codegen import errata_docs
from opdb.codegen.errata import at_run_time
from opdb.codegen.rules import rule_view
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.names import spelled
from opdb.judge.errata.policy import decide
from opdb.runtime.binding import TYPES_SENTENCE
from opdb.runtime.errata import record_path
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, CompiledRule
from opdb.spec.erratum import Erratum
from opdb.spec.lang.printer import to_text
from opdb.spec.model import unchecked_where

STRUCTURE = {
    "INPUTS": "number and presence of the inputs must be those of the definition",
    "PARAMS": "presence, data type, shape and enum values of the parameters must be those of the definition",
    "UNKNOWN_PARAMS": "every parameter must be one of the definition",
    "OUTPUTS": "number and presence of the outputs must be those of the definition",
}


def explain(catalog: Catalog, rule_id: str) -> dict[str, Any]:
    """Facts about ``rule_id`` (e.g. LayerNorm.C3) with stable keys.  Raises OpdbError with the nearest id."""
    op_name, _, rule = rule_id.partition(".")
    op_name = spelled(op_name, catalog.ops)
    if op_name not in catalog.ops:
        hint = did_you_mean(op_name, catalog.ops, "'opdb query ops' lists them")
        raise OpdbError(f"unknown op '{op_name}'{hint}")
    op = catalog.compiled(op_name)
    rule = spelled(rule, op.rule_ids())
    if rule not in op.rule_ids():
        full = [f"{op_name}.{known}" for known in op.rule_ids()]
        hint = did_you_mean(rule_id, full, f"{op_name} has {', '.join(op.rule_ids())}")
        raise OpdbError(f"unknown rule '{rule_id}'{hint}")
    facts: dict[str, Any] = {"rule": f"{op_name}.{rule}", "op": op_name, "package": op.definition.package}
    written = next(
        (
            r
            for r in (*op.ranks, *op.rules, *(x for b in op.backend_rules.values() for x in b))
            if r.id == rule
        ),
        None,
    )
    if written is not None:
        return facts | _of_rule(op, written)
    if rule in STRUCTURE:
        slots = [f"{s.name}{' (optional)' if s.optional else ''}{' (variadic)' if s.variadic else ''}"
                 for s in (op.inputs if rule == "INPUTS" else op.outputs)]  # fmt: skip
        params = [f"{p.name}: {p.definition.type}" for p in op.params]
        return facts | {
            "asks": STRUCTURE[rule],
            "unchecked": _unchecked(op, rule),
            "definition": params if "PARAMS" in rule else slots,
            "source": op.definition.source,
        }
    backend = rule.removeprefix("TYPES_")
    rows = [
        f"{r.id}: " + ", ".join(f"{s} {'|'.join(c)}" for s, c in r.cells.items())
        for r in op.type_rows[backend]
    ]
    return facts | {
        "asks": TYPES_SENTENCE.format(backend),
        "backend": backend,
        "rows": rows,
        "source": op.definition.backends[backend].source,
    }


def _of_rule(op: CompiledOp, rule: CompiledRule) -> dict[str, Any]:
    view = rule_view(op, rule)
    definition = op.definition
    backend = definition.backends[rule.backend] if rule.backend else None
    return {
        "why": rule.why,
        "asks": view.sentence,
        "strength": _strength(rule),
        "unchecked": _unchecked(op, rule.id),
        "when": to_text(rule.when) if rule.when is not None else None,
        "expression": to_text(rule.require),
        "backend": rule.backend,
        "derived": None if rule.text else "from the shapes of the definition",
        "reads": [to_text(a) for a in view.atoms],
        "source": rule.source or (backend.source if backend else None) or definition.source,
    }


def _strength(rule: CompiledRule) -> str:
    return "expected (a warning)" if rule.strength == "expect" else "required"


def _unchecked(op: CompiledOp, rule: str) -> list[str] | None:
    """The backends that do not check a rule of the op, why, and the source."""
    entries = op.unchecked(rule).items()
    return [f"{unchecked_where(name, e.since, e.until)}{f': {e.why}' if e.why else ''} ({e.source})"
            for name, e in entries] or None  # fmt: skip


def is_erratum(ident: str) -> bool:
    """True if ``ident`` has the form of an erratum's id, e.g. HTP-0042, and not of a rule's."""
    return "." not in ident and "-" in ident


def erratum_of(catalog: Catalog, ident: str) -> Erratum:
    """The record with this id, in any case.  Raises OpdbError with the nearest id."""
    found = catalog.errata.get(ident.upper())
    if found is None:
        asked = ident.upper().replace("O", "0")
        hint = did_you_mean(asked, catalog.errata, "'opdb query errata' lists them")
        raise OpdbError(f"unknown erratum '{ident}'{hint}")
    return found


def erratum_facts(catalog: Catalog, e: Erratum) -> dict[str, Any]:
    """The record of an erratum as in its file, with its condition in words, the policy by execution, and its file."""
    return e.model_dump(mode="json") | {
        "backend": e.backend,
        "occurs": errata_docs.occurs(catalog, e),
        "policy": policies(e),
        "url": record_path(e.erratum),
    }


def policies(e: Erratum) -> dict[str, str]:
    """The default policy for an erratum: execution -> avoid, warn or ignore."""
    return {x: decide(at_run_time(e), Target(e.backend, execution=x)) for x in EXECUTIONS}


def erratum_lines(catalog: Catalog, e: Erratum) -> dict[str, Any]:
    """The facts of an erratum for people: heading -> a line, or several."""
    written = [f"let {name}: {text}" for name, text in e.let.items()]
    written += [f"{name}: {text}" for name, text in (("when", e.when), ("unless", e.unless)) if text]
    reproduction = e.reproduction
    said = [] if reproduction is None else errata_docs.reproduced(reproduction)
    if reproduction is not None:
        said += [f"input {name}: {value}" for name, value in reproduction.inputs.items()]
        said += [f"expected: {reproduction.expected}"] * bool(reproduction.expected)
        said += [f"seen: {reproduction.seen}"] * bool(reproduction.seen)
    return {
        "erratum": e.erratum,
        "title": e.title,
        "detail": e.detail,
        "effect": f"{e.effect}: {errata_docs.EFFECT_WORDS[e.effect]}",
        "op": e.op,
        "pattern": e.pattern if e.conditional else None,
        "occurs": errata_docs.occurs(catalog, e),
        "written": written,
        "cause": e.cause,
        "flaky": "what memory happens to hold decides whether it shows" if e.flaky else None,
        "scope": f"{e.backend}, {errata_docs.versions(e)}, chips: {errata_docs.chips(e)};"
        f" {errata_docs.EXECUTION_WORDS[e.scope.execution]}",
        "policy": [f"{execution}: {policy}" for execution, policy in policies(e).items()],
        "workaround": f"{e.workaround}: {errata_docs.workaround(e)}",
        "cost": errata_docs.cost(e),
        "seen": errata_docs.seen(e),
        "evidence": errata_docs.evidence(e),
        "reproduction": said,
        "record": record_path(e.erratum),
    }
