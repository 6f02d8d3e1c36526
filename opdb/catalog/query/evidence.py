"""Questions about measurements: support, evidence, runs, agreement, coverage of the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from opdb.catalog.evidence.status import refusal, status
from opdb.catalog.query.definitions import type_rows
from opdb.catalog.query.rows import Row, View
from opdb.catalog.query.sql import Sql, among, begins, compared, either, is_
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store.support import MEASURED_SDKS, sdk_number
from opdb.core.sdk import same_sdk, version

#: Columns of support about a measurement, besides its statuses.
_BESIDE = (
    "counts",
    "furthest",
    "stopped",
    "code_name",
    "reason",
    "library",
    "measured",
    "execution",
)


def _asked(view: View) -> list[Sql]:
    """The filters as conditions on columns of the same names; a torch op filter becomes a condition on ``op``."""
    f = view.filters
    wanted = {name: list(f.many(name)) for name in ("op", "backend", "soc") if f.many(name)}
    if f.many("torch_op"):
        wanted["op"] = view.wanted_ops()
    if f.many("sdk"):
        wanted["sdk"] = _sdks(view)
    return [among(name, values) for name, values in wanted.items()]


def _sdks(view: View) -> list[str]:
    """The recorded SDKs that the filter matches, plus the filter's own values."""
    on_record = (("library", "sdk"), ("evidence_run", "sdk"), ("conformance_case", "sdk"), ("source", "version"), ("type_config", "since"),
                 ("op_backend", "since"))  # fmt: skip
    found = view.reader.rows(" UNION ".join(f"SELECT {c} AS sdk FROM {table}" for table, c in on_record))
    known = {str(r["sdk"]) for r in found if r["sdk"]}
    return sorted({s for s in known if view.wants_sdk(s)} | set(view.filters.many("sdk")))


def runs(view: View) -> Iterator[Row]:
    """Every measurement: probes, then conformance runs, each in the order of recording.

    With ``disagree``, only disagreements that the last probe sweeps over each op found.
    """
    conditions = _asked(view)
    rows = {(r["op"], r["type_row"]) for r in type_rows(view)} if view.dtypes else None
    if view.filters.disagree:
        conditions += [is_("disagrees", "TRUE"), is_("latest", "TRUE")]
    for kind in ("probe",) if view.filters.disagree else ("probe", "conformance"):
        for r in view.stream("v_runs", compared("kind", "=", kind), *conditions, order=("id",)):
            if rows is None or (r["op"], r["type_row"]) in rows:
                yield r


def agreement(view: View) -> list[Row]:
    """Counts how often the last sweeps over each op agree with us, per library and SoC."""
    rows = view.read("v_agreement", *_asked(view))
    return sorted(rows, key=lambda r: (r["op"], r["backend"], r["soc"] or "", version(r["sdk"])))


def census(view: View) -> list[Row]:
    """The configs that each library accepted per op, the furthest stage, a config that got there, and what stopped it."""
    rows = view.read("v_census", *_asked(view))
    return sorted(rows, key=lambda r: (r["op"], r["backend"], r["soc"] or "", version(r["sdk"])))


def agreement_of_runs(view: View, runs: Collection[int]) -> list[Row]:
    """The agreement of single probe runs, in the order of ``runs``."""
    found = {r["id"]: r for r in view.read("v_sweeps", among("id", runs))}
    return [{**found[i], "percent": _percent(found[i])} for i in runs if i in found]


def _percent(row: Row) -> float | None:
    return round(100 * (row["both_accept"] + row["both_reject"]) / row["n"], 2) if row["n"] else None


def support(view: View) -> Iterator[Row]:
    """The five statuses of every documented or measured (op, type row, backend, SoC, SDK).

    A filtered SDK without measurements has rows too, with the documents' declarations.
    """
    documented = bool(view.dtypes or view.filters.many("torch_op"))
    of_all = not view.filters.many("soc") and "v_support" not in view.narrowed
    for r in _of_all_chips(view) if of_all else view.stream("v_support", *_asked(view), order=_ORDER):
        if not documented or (r["cells"] is not None and view.has_dtype(r["cells"])):
            yield r
    yield from _unmeasured(view)


_ORDER = ("op", "place", "type_row", "backend", "soc", "sdk_number", "sdk")


def _of_all_chips(view: View) -> Iterator[Row]:
    """The rows of v_support for every chip, expanded from the rows of one chip per part."""
    members: dict[int, list[str]] = {}
    for r in view.reader.rows("SELECT part, soc FROM support_place ORDER BY part, soc"):
        members.setdefault(r["part"], []).append(r["soc"])
    like = {group[0]: group for group in members.values()}
    first = either([is_("soc", "NULL"), among("soc", [soc for soc in like if soc])])
    rows = view.stream("v_support", first, *_asked(view), order=_ORDER)
    for _, group in groupby(rows, key=lambda r: (r["op"], r["place"], r["type_row"], r["backend"])):
        of_chips: dict[str, list[Row]] = {}
        for row in group:
            del row["place"], row["sdk_number"]  # the rows are already ordered
            of_chips.setdefault(row["soc"] or "", []).append(row)
        for soc, found in sorted((soc, found) for first, found in of_chips.items() for soc in like[first]):
            for row in found:
                yield {**row, "soc": soc or None}


def evidence(view: View) -> list[Row]:
    """The evidence cells from files, for ops and for PyTorch operators in a whole flow."""
    f = view.filters
    wanted = {name: list(f.many(name)) for name in ("op", "backend", "soc") if f.many(name)}
    conditions = [among(name, values) for name, values in wanted.items()]
    if f.many("sdk"):
        conditions.append(among("sdk", _sdks(view)))
    if asked := f.many("torch_op"):
        conditions.append(
            either([either([compared("torch_op", "=", n), begins("torch_op", f"{n}.")]) for n in asked])
        )
    return view.read("v_evidence", *conditions, order=("kind", "op", "torch_op", "type_row", "precision", "backend",
                                                      "soc", "sdk", "execution"))  # fmt: skip


def _unmeasured(view: View) -> Iterator[Row]:
    """The documented rows for filtered SDKs that the view lacks."""
    measured: dict[str, set[str]] = {}
    for r in view.reader.rows(MEASURED_SDKS):
        measured.setdefault(r["backend"], set()).add(r["sdk"])
    chips = view.filters.many("soc")
    for sdk in view.filters.many("sdk"):
        wanted = {}
        for row in type_rows(view):
            there = measured.get(row["backend"]) or {row["source_version"] or row["since"] or ""}
            if not any(same_sdk(sdk, s) for s in there):
                wanted[row["op"], row["type_row"]] = row
        for r in view.reader.rows(_DECLARED, number=sdk_number(sdk)) if wanted else ():
            key = (r["op"], r["type_row"])
            if key in wanted and (not chips or r["soc"] in chips):
                row = wanted[key]
                nothing = "unknown" if r["asked"] else "not-applicable"
                word, why, _ = status(
                    "" if r["declared"] == "yes" else refusal("", row["since"], row["until"], sdk), None, ()
                )
                yield {
                    **{k: row[k] for k in ("op", "type_row", "cells", "backend")}, "soc": r["soc"] or None, "sdk": sdk,
                    "status": word, "why": why, "errata": None, "since": row["since"],
                    **dict.fromkeys(STATUS_COLUMNS, nothing), "declared": r["declared"],
                    "measurements": 0, **dict.fromkeys(_BESIDE), "source": row["source"], "place": row["place"],
                    "sdk_number": None,
                }  # fmt: skip


#: For each row and chip of its backend, "yes" if it is declared for an SDK.
_DECLARED = """
SELECT t.op, t.type_row, p.soc, b.asked, CASE WHEN d.id IS NULL THEN 'no' ELSE 'yes' END AS declared
FROM op_type_row AS t
JOIN backend AS b ON b.name = t.backend
JOIN (SELECT '' AS soc, id AS class FROM chip_class WHERE name = ''
      UNION ALL SELECT chip, chip_class_id FROM soc) AS p ON (p.soc <> '') = (COALESCE(b.context, '') LIKE '%"arch"%')
LEFT JOIN soc AS c ON c.chip = p.soc
LEFT JOIN declared AS d ON d.op_type_row_id = t.id AND d.chip_class_id = p.class AND @number BETWEEN d.first AND d.last
WHERE t.place IS NOT NULL
ORDER BY t.op, t.place, c.position"""


def coverage(view: View) -> list[Row]:
    """The cases that exercise each rule, counted by the latest result of each case.

    ``python`` and ``c``: results in which that validator reported the rule; ``positive``: accepted cases in
    which the rule was in force; ``negative``: cases made to break it; ``executed``: results of both.
    """
    conditions: list[Sql] = [among("op", view.ops)]
    if backends := view.filters.many("backend"):
        conditions.append(among("backend", backends))
    return view.read("v_coverage", *conditions, order=("op", "place"))
