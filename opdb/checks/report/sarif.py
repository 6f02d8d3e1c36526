"""Coverages as SARIF 2.1.0, which code hosts show as annotations of a pull request.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, sections 3.13 to 3.58.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from opdb.checks.coverage import Coverage, Row
from opdb.checks.report.source_lines import place_of
from opdb.checks.report.plain import summary, told
from opdb.checks.side_by_side import labels

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The rule for a node that no spec maps.
UNMAPPED = "unmapped-operator"


def sarif(coverages: Sequence[Coverage], model: str) -> str:
    """A run for each target, in it a result for each node that falls back to the CPU (error) and each warning (warning).

    With several targets each message and each run's id (3.17.2) names its target.
    """
    heads = [f"on {label}: " for label in labels(coverages)] if len(coverages) > 1 else [""]
    runs = [_run(coverage, model, head) for coverage, head in zip(coverages, heads, strict=True)]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, indent=2, ensure_ascii=False)


def _run(coverage: Coverage, model: str, head: str) -> dict[str, Any]:
    from opdb.core.version import __version__

    results = [r for row in coverage.rows for r in _results(row, model, head)]
    rules = {r["ruleId"]: {"id": r["ruleId"]} for r in results}
    place = [p for p in (coverage.backend, coverage.soc, coverage.sdk) if p]
    return {
        "tool": {"driver": {"name": "opdb check", "version": __version__, "rules": list(rules.values())}},
        **({"automationDetails": {"id": f"opdb check/{'/'.join(place)}/"}} if head else {}),
        "results": results,
        "columnKind": "unicodeCodePoints",
        "properties": {
            "model": model,
            "backend": coverage.backend,
            "soc": coverage.soc,
            **({"sdk": coverage.sdk} if head else {}),
            "summary": list(summary(coverage)),
        },
    }


def _results(row: Row, model: str, head: str) -> Iterator[dict[str, Any]]:
    if row.verdict != "supported":
        rule = next((r["rule"] for r in row.reasons if r["rule"]), UNMAPPED)
        text = "; ".join(told(row)) or "opdb does not map this operator"
        yield _result(row, model, rule, "error", f"{head}{row.node} ({row.target}) falls back to the CPU: {text}")
    for warning in row.warnings:
        text = f"{head}{row.node} ({row.target}): {warning['brief']}"
        yield _result(row, model, warning["rule"] or row.form, "warning", text)


def _result(row: Row, model: str, rule: str, level: str, text: str) -> dict[str, Any]:
    path, line = place_of(row, model)
    uri = Path(path).as_uri() if Path(path).is_absolute() else quote(path)
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line is not None:
        place["region"] = {"startLine": line}
    names = [{"name": row.node, "kind": "function", "fullyQualifiedName": f"{row.module or model}/{row.node}"}]
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": place, "logicalLocations": names}],
        "partialFingerprints": _fingerprint(rule, row.module, row.target, row.node),
    }


def _fingerprint(*parts: str) -> Mapping[str, str]:
    """A hash that stays the same for the same finding in the next commit, even on another line."""
    return {"opdb/v1": sha256("\0".join(parts).encode()).hexdigest()[:32]}
