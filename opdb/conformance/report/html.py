"""The conformance page: one HTML file without any other file or network, for people.

``render`` takes rows as ``opdb query evidence`` gives them (plus ``config``, the op config as JSON) and puts
them into the page as data; the page's own script draws matrix, filters and cases.  Run ``page_rows`` for what
each row holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

#: The five statuses, in the order in which one needs the other; never merged.
STATUSES = ("declared", "validates", "finalizes", "executes", "matches")
MARK = "/*DATA*/"
#: Of each row, what the page shows; the rest stays in SQL.
FIELDS = (
    "executor", "executor_version", "op", "type_row", "backend", "soc", "sdk", "case", "kind", "expected", "rules",
    *STATUSES, "outcome", "why", "code", "code_name", "log", "error_max", "ulp", "seconds", "detail", "config",
)  # fmt: skip
#: A vendor's log can be long; the page keeps what matters.
LOG_LINES, LOG_WIDTH = 12, 300


def page_rows(rows: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Each row as a list in the order of FIELDS; ``log`` cut to its warnings and errors, ``config`` to a sentence."""
    return [[_shown(name, row.get(name)) for name in FIELDS] for row in rows]


def _shown(name: str, value: Any) -> Any:
    if name == "log":
        lines = str(value or "").splitlines()
        loud = [line for line in lines if line.startswith(("error", "warning", "fatal"))] or lines
        return "\n".join(line[:LOG_WIDTH] for line in loud[-LOG_LINES:])
    if name == "config":
        return config_sentence(json.loads(value) if isinstance(value, str) else value or {})
    if isinstance(value, float) and value != value:  # NaN is not JSON
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def config_sentence(config: Mapping[str, Any]) -> str:
    """One line; ex) x FLOAT_32[2, 3, 4], gamma FLOAT_32[4] | axes = [2] | y FLOAT_32[2, 3, 4]."""

    def tensor(t: Mapping[str, Any]) -> str:
        if t.get("type") == "NULL":
            return f"{t.get('name') or 'tensor'} omitted"
        static = " static" if t.get("type") == "STATIC" else ""
        return f"{t.get('name', '')} {t.get('dtype')}{list(t.get('shape', []))}{static}".strip()

    def param(name: str, p: Mapping[str, Any]) -> str:
        return f"{name} = {p.get('value', p.get('data'))}"

    inputs = ", ".join(tensor(t) for t in config.get("inputs", []))
    params = ", ".join(param(n, p) for n, p in config.get("params", {}).items())
    outputs = ", ".join(tensor(t) for t in config.get("outputs", []))
    return " | ".join(part for part in (inputs, params, outputs) if part)


def render(
    run: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The page.  ``run``: started, opdb_version, catalog_hash, seed, command; ``gaps``: rules without a case."""
    document = {
        "run": dict(run),
        "fields": FIELDS,
        "statuses": STATUSES,
        "rows": page_rows(rows),
        "gaps": [dict(g) for g in gaps],
    }
    # "</" would end the script element.
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":"), default=str).replace("</", "<\\/")
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    before, mark, after = template.partition(MARK)
    assert mark, "page.html has no place for the data"
    return before + data + after
