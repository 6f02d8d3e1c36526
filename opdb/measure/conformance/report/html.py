"""The conformance page: one self-contained HTML file, for people.

Python puts the data in; the page's own script (page.html) draws matrix, filters and cases from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opdb.core.version import __version__
from opdb.core import pages
from opdb.measure.conformance.cases import read_config
from opdb.measure.conformance.judge import OUTCOMES
from opdb.measure.conformance.report.plain import gaps_data, summary
from opdb.measure.conformance.report.rows import Row
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.catalog.query.table import HEADER, agreement_cells
from opdb.catalog.schema import STATUS_COLUMNS, STATUSES
from opdb.catalog.targets.target import half

if TYPE_CHECKING:
    from opdb.measure.conformance.gaps import Gaps

#: The fields of a case and of an answer on the page, in this order.
CASE = (
    "id",
    "op",
    "kind",
    "type_row",
    "backend",
    "soc",
    "expected",
    "dtypes",
    "inputs",
    "params",
    "outputs",
    "config",
)
RESULT = (
    "case",
    "place",
    "statuses",
    "outcome",
    "reason",
    "rules",
    "code",
    "code_name",
    "log",
    "error_max",
    "ulp",
    "seconds",
    "detail",
)
#: A vendor's log can be long; the page keeps its end, preferring warnings and errors.
LOG_LINES, LOG_WIDTH = 12, 300


def page(
    rows: Sequence[Row],
    runs: Sequence[Mapping[str, Any]],
    gaps: Gaps | None = None,
    agreement: Sequence[Mapping[str, Any]] = (),
    *,
    home: str = "",
    about: str = "",
) -> str:
    """Returns the whole page as text.  ``home`` and ``about``: HTML above the title, and below the cases."""
    parts = {
        "STYLE": pages.style(pages.resource("style.css", __package__)),
        "HOME": home,
        "ABOUT": about,
        "AGREEMENT": agreement_section(agreement),
        "DATA": pages.embedded(data(rows, runs, gaps)),
        "FALLBACK": _fallback(rows),
    }
    return pages.filled(pages.resource("page.html", __package__), parts)


def data(rows: Sequence[Row], runs: Sequence[Mapping[str, Any]], gaps: Gaps | None = None) -> dict[str, Any]:
    """The data of the page: cases once, answers by the numbers of their case and executor."""
    seeds = {r["uid"]: int(r["seed"] or 0) for r in runs}
    cases: dict[str, int] = {}
    case_rows: list[list[Any]] = []
    places: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.case not in cases:
            cases[row.case] = len(case_rows)
            case_rows.append(_case(row, seeds.get(row.run, 0)))
        places.setdefault(row.place, _place(row))
    numbers = {p: i for i, p in enumerate(places)}
    return {
        "version": __version__,
        "runs": [dict(r) for r in runs],
        "statuses": STATUS_COLUMNS,
        "values": STATUSES,
        "outcomes": OUTCOMES,
        "places": list(places.values()),
        "case_fields": CASE,
        "cases": case_rows,
        "result_fields": RESULT,
        "results": [_result(r, cases[r.case], numbers[r.place]) for r in rows],
        "gaps": None if gaps is None else gaps_data(gaps),
    }


def _place(row: Row) -> dict[str, Any]:
    return {
        "name": row.place,
        "executor": row.executor,
        "version": row.executor_version,
        "backend": row.backend,
        "soc": row.soc,
        "sdk": row.sdk,
        "emulated": row.emulated,
        "about": _about(row),
    }


#: The role of an executor that is not a backend's library; libraries are named by their version alone.
_DOES = {"python": "validators", "c": "validators, kernels", "torch": "the judge", "onnx.reference": "onnx"}


def _about(row: Row) -> str:
    """Describes the executor in a few words, for a heading."""
    if row.backend:
        return f"QNN {row.backend} {row.sdk}{', emulated' if row.emulated else ''}"
    return f"{_DOES.get(row.executor, '')} {row.executor_version}".strip()


def _result(row: Row, case: int, place: int) -> list[Any]:
    statuses = "".join(str(STATUSES.index(getattr(row, c))) for c in STATUS_COLUMNS)
    log = "" if row.outcome == "pass" and not row.code else _log(row.log)
    return [
        case, place, statuses, OUTCOMES.index(row.outcome), row.reason, list(row.rules), row.code, row.code_name,
        log, _number(row.error_max), _number(row.ulp), _number(row.seconds), row.detail,
    ]  # fmt: skip


def _number(value: float | None) -> float | str | None:
    if value is None or value == value and abs(value) != float("inf"):
        return None if value is None else float(f"{value:.6g}")
    return str(value)


def _log(log: str) -> str:
    lines = log.splitlines()
    loud = [line for line in lines if line.startswith(("error", "warning", "output"))] or lines
    return "\n".join(line[:LOG_WIDTH] for line in loud[-LOG_LINES:])


def _case(row: Row, seed: int) -> list[Any]:
    config = read_config(row.config)
    given = [t for t in (*config.inputs, *config.outputs) if t.type != "NULL"]
    ranges = _ranges(row, config, seed)
    return [
        row.case, row.op, row.kind, row.type_row, row.case_backend, row.case_soc, list(row.expected),
        sorted({t.dtype for t in given}),
        [_tensor(t, r) for t, r in zip(config.inputs, ranges, strict=True)],
        [_param(p) for p in config.params],
        [_tensor(t, "") for t in config.outputs],
        row.config,
    ]  # fmt: skip


def _ranges(row: Row, config: OpConfig, seed: int) -> list[str]:
    """The value range of each input, which follows from the case's id.  4-bit types have no arrays."""
    if row.kind != "positive" or any(BY_SHORT[t.dtype].numpy is None for t in config.inputs):
        return [""] * len(config.inputs)
    from opdb.measure.conformance import data as numbers

    ident = row.case if seed == 0 else f"{row.case}#{seed}"
    arrays = numbers.inputs(ident, config, half=half(row.case_backend))
    out = []
    for tensor, array in zip(config.inputs, arrays, strict=True):
        if array is None or not array.size:
            out.append("")
            continue
        real = numbers.real(array, tensor)
        first = ", ".join(f"{float(v):.4g}" for v in real.ravel()[:4])
        more = ", ..." if array.size > 4 else ""
        out.append(f"{first}{more} in {float(real.min()):.4g} to {float(real.max()):.4g}")
    return out


def _tensor(tensor: TensorConfig, values: str) -> str:
    """Formats a tensor on one line; e.g. x f32[2, 3, 4] STATIC SCALE_OFFSET 0.0312 -128: 0.1, 2.3, ... in -1 to 3."""
    if tensor.type == "NULL":
        return f"{tensor.name} omitted"
    parts = [f"{tensor.name} {tensor.dtype}{list(tensor.shape)}"]
    if tensor.type == "STATIC":
        parts.append("STATIC")
    if tensor.quant is not None:
        q = tensor.quant
        axis = "" if q.axis is None else f" axis {q.axis}"
        parts.append(
            f"{q.encoding}{axis} {q.scale[0] if q.scale else 1:.4g} {q.offset[0] if q.offset else 0}"
        )
    return " ".join(parts) + (f": {values}" if values else "")


def _param(param: ParamConfig) -> str:
    value = param.value if param.shape is None else list(param.value)
    return f"{param.name} {param.dtype} = {value}"


def _fallback(rows: Sequence[Row]) -> str:
    """The matrix as a plain table, for readers without scripts."""
    lines = summary(rows)
    return pages.table(list(lines[0]), [[str(v) for v in line.values()] for line in lines])


def agreement_section(rows: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts of the last sweeps beside opdb's; "" if there were none."""
    if not rows:
        return ""
    title = "Verdicts of libraries and of these rules on generated configs"
    head = f'<h2 id="h-agreement">{title}</h2>'
    table = pages.table(HEADER, agreement_cells(rows))
    return f'<section aria-labelledby="h-agreement">{head}<div class="scroll">{table}</div></section>'
