"""Questions about what was measured: support, quirks, evidence, agreement, coverage of the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from opdb.catalog.query.definitions import type_rows
from opdb.catalog.query.rows import Row, View
from opdb.catalog.query.sql import Sql, among, begins, compared, either, is_
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.core.sdk import declared, same_sdk, version

#: What support says of a measurement besides its statuses.
_BESIDE = (
    "counts",
    "furthest",
    "stopped",
    "code_name",
    "reason",
    "errata",
    "library",
    "measured",
    "execution",
)


def _asked(view: View) -> list[Sql]:
    """The filters as conditions on columns of the same names; ``op`` holds the ops of a torch op too."""
    f = view.filters
    wanted = {name: list(f.many(name)) for name in ("op", "backend", "soc") if f.many(name)}
    if f.many("torch_op"):
        wanted["op"] = view.wanted_ops()
    if f.many("sdk"):
        wanted["sdk"] = _sdks(view)
        wanted.setdefault("op", _ops(view))  # the indexes begin with the op
    view.inside = wanted
    return [among(name, values) for name, values in wanted.items()]


def _ops(view: View) -> list[str]:
    """Every op of the catalogue and of what was measured."""
    found = view.reader.rows("SELECT op FROM probe_run UNION SELECT op FROM conformance_case")
    return sorted({str(r["op"]) for r in found} | set(view.ops))


def _sdks(view: View) -> list[str]:
    """The SDKs on record that are asked about, and what was asked for as it was written."""
    on_record = (("library", "sdk"), ("evidence_run", "sdk"), ("conformance_case", "sdk"), ("source", "version"), ("type_config", "since"),
                 ("op_backend", "since"))  # fmt: skip
    found = view.reader.rows(" UNION ".join(f"SELECT {c} AS sdk FROM {table}" for table, c in on_record))
    known = {str(r["sdk"]) for r in found if r["sdk"]}
    return sorted({s for s in known if view.wants_sdk(s)} | set(view.filters.many("sdk")))


def evidence(view: View) -> Iterator[Row]:
    """Everything that was measured: probes, then conformance runs, each in the order in which it was recorded.

    With ``disagree`` what the last sweeps over each op found, of probes alone.
    """
    conditions = _asked(view)
    rows = {(r["op"], r["type_row"]) for r in type_rows(view)} if view.dtypes else None
    if view.filters.disagree:
        conditions += [is_("disagrees", "TRUE"), is_("latest", "TRUE")]
    for kind in ("probe",) if view.filters.disagree else ("probe", "conformance"):
        for r in view.stream("v_evidence", compared("kind", "=", kind), *conditions, order=("id",)):
            if rows is None or (r["op"], r["type_row"]) in rows:
                yield r


def agreement(view: View) -> list[Row]:
    """How often the last sweeps over each op agree with us, both ways, for each library and SoC."""
    rows = view.read("v_agreement", *_asked(view))
    return sorted(rows, key=lambda r: (r["op"], r["backend"], r["soc"] or "", version(r["sdk"])))


def census(view: View) -> list[Row]:
    """For each op and library: how many configs it took, the furthest stage, a config that came there, what stopped it."""
    rows = view.read("v_census", *_asked(view))
    return sorted(rows, key=lambda r: (r["op"], r["backend"], r["soc"] or "", version(r["sdk"])))


def agreement_of_runs(view: View, runs: Collection[int]) -> list[Row]:
    """The same for single probe runs, in their order."""
    found = {r["id"]: r for r in view.read("v_sweeps", among("id", runs))}
    return [{**found[i], "percent": _percent(found[i])} for i in runs if i in found]


def _percent(row: Row) -> float | None:
    return round(100 * (row["both_accept"] + row["both_reject"]) / row["n"], 2) if row["n"] else None


def support(view: View) -> Iterator[Row]:
    """The five statuses of every documented or measured (op, type row, backend, SoC, SDK).

    An SDK that is asked about and not on record has rows too: what the documents declare for it.
    """
    documented = bool(view.dtypes or view.filters.many("torch_op"))
    order = ("op", "place", "type_row", "backend", "soc", "sdk_number", "sdk")
    for r in view.stream("v_support", *_asked(view), order=order):
        if not documented or (r["cells"] is not None and view.has_dtype(r["cells"])):
            yield r
    yield from _unmeasured(view)


def measured(view: View) -> list[Row]:
    """The cells of evidence that came in files, of ops and of PyTorch's operators in a whole flow."""
    f = view.filters
    wanted = {name: list(f.many(name)) for name in ("op", "backend", "soc") if f.many(name)}
    conditions = [among(name, values) for name, values in wanted.items()]
    if f.many("sdk"):
        conditions.append(among("sdk", _sdks(view)))
    if asked := f.many("torch_op"):
        conditions.append(
            either([either([compared("torch_op", "=", n), begins("torch_op", f"{n}.")]) for n in asked])
        )
    view.inside = wanted
    return view.read("v_measured", *conditions, order=("kind", "op", "torch_op", "type_row", "precision", "backend",
                                                      "soc", "sdk", "execution"))  # fmt: skip


def _unmeasured(view: View) -> Iterator[Row]:
    """The documented rows for an SDK that is asked about and that the view has not."""
    measured = _measured_sdks(view)
    asked = {b["name"] for b in view.backends.values() if b["asked"]}
    socs = view.filters.many("soc")
    for sdk in view.filters.many("sdk"):
        for r in type_rows(view):
            there = measured.get(r["backend"]) or {r["source_version"] or r["since"] or ""}
            if any(same_sdk(sdk, s) for s in there):
                continue
            nothing = "unknown" if r["backend"] in asked else "not-applicable"
            chips: Sequence[str | None] = (
                (socs or tuple(view.chips)) if view.per_soc(r["backend"]) else [None]
            )
            for soc in chips if not socs or chips != [None] else ():
                inside = declared(r["since"], r["until"], sdk) and view.has(soc, r["needs"])
                yield {
                    **{k: r[k] for k in ("op", "type_row", "cells", "backend")}, "soc": soc, "sdk": sdk,
                    **dict.fromkeys(STATUS_COLUMNS, nothing), "declared": "yes" if inside else "no",
                    "measurements": 0, **dict.fromkeys(_BESIDE), "source": r["source"], "place": r["place"],
                    "sdk_number": None,
                }  # fmt: skip


def _measured_sdks(view: View) -> dict[str, set[str]]:
    """The SDKs whose libraries are on record, by backend."""
    out: dict[str, set[str]] = {}
    for r in view.reader.rows(_MEASURED_SDKS):
        out.setdefault(r["backend"], set()).add(r["sdk"])
    return out


_MEASURED_SDKS = """
SELECT l.backend, l.sdk FROM library AS l
UNION
SELECT r.backend, r.sdk FROM evidence_run AS r WHERE r.flow = ''
UNION
SELECT e.backend, k.sdk FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
WHERE e.library_id IS NULL AND e.backend <> ''"""


def quirks(view: View) -> list[Row]:
    """Where a document and the library disagree, or two stages of the library, or the library and PyTorch."""
    order = ("lax", "op", "place", "type_row", "backend", "soc", "sdk_number", "sdk", "step")
    rows = view.read("v_quirks", *_asked(view), order=order)
    if view.dtypes or view.filters.many("torch_op"):
        rows = [r for r in rows if r["cells"] is not None and view.has_dtype(r["cells"])]
    return rows


def coverage(view: View) -> list[Row]:
    """For each rule: where it is, and which cases tried it.  Counts of the latest result of each case.

    ``python`` and ``c``: results in which that validator reported the rule; ``positive``: accepted cases in
    which the rule was in force; ``negative``: cases made to break it; ``executed``: results of those.
    """
    conditions: list[Sql] = [among("op", view.ops)]
    if backends := view.filters.many("backend"):
        conditions.append(among("backend", backends))
    return view.read("v_coverage", *conditions, order=("op", "place"))
