"""SQL of the views over measurements."""

from __future__ import annotations

from itertools import pairwise

from opdb.catalog.schema.names import STATUS_COLUMNS
from opdb.catalog.schema.views.sql import Dialect

_MEASURED = STATUS_COLUMNS[1:]
_STAGES = ("validates", "finalizes", "executes")


def _latest(run: str) -> str:
    """SQL: true if a sweep has the configs and rules of the last answered one over its op, library, and SoC."""
    return f"""COALESCE({run}.catalog_hash || ' ' || {run}.note = (
         SELECT n.catalog_hash || ' ' || n.note FROM probe_run AS n
         WHERE n.op = {run}.op AND n.library_id = {run}.library_id AND n.soc = {run}.soc AND n.op <> ''
           AND EXISTS (SELECT 1 FROM probe_result AS y WHERE y.probe_run_id = n.id)
         ORDER BY n.id DESC LIMIT 1), {run}.id < 0)"""


def _reported(d: Dialect) -> str:
    """SQL: the rules of a result r, separated by blanks; NULL if none."""
    return d.joined("x.rule", " ", "result_rule AS x WHERE x.result_id = r.id", "x.position")


def results(d: Dialect) -> str:
    """The last result of each conformance case, executor and SoC."""
    return f"""
SELECT r.id, k.name AS "case", k.kind, k.op, k.type_row, NULLIF(k.backend, '') AS case_backend,
       NULLIF(e.backend, '') AS backend, r.soc, COALESCE(l.sdk, k.sdk) AS sdk, e.name AS executor,
       e.version AS executor_version, {", ".join(f"r.{c}" for c in STATUS_COLUMNS)}, COALESCE({_reported(d)}, '') AS rules,
       r.code, r.code_name, r.log, l.package, l.version AS package_version, l.emulated, u.uid AS run, u.started
FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN run AS u ON u.id = r.run_id
LEFT JOIN library AS l ON l.id = e.library_id
WHERE r.id IN (
  SELECT MAX(x.id) FROM result AS x JOIN conformance_case AS y ON y.id = x.conformance_case_id
  GROUP BY y.name, x.executor_id, x.soc)"""


def sweeps(d: Dialect) -> str:
    """Probe runs over one op that have answers, with counts of the answers."""

    def count(ours: str, said: str) -> str:
        chosen = f"x.ours IN ({ours}) AND x.validates IN ({said})"
        return f"COALESCE(SUM(CASE WHEN {chosen} THEN 1 ELSE 0 END), 0)"

    every = "'accept', 'reject', 'unknown'"
    counts = {
        "n": count(every, "'yes', 'no'"),
        "both_accept": count("'accept'", "'yes'"),
        "both_reject": count("'reject'", "'no'"),
        "we_accept_it_rejects": count("'accept'", "'no'"),
        "we_reject_it_accepts": count("'reject'", "'yes'"),
        "undecided": count("'unknown'", "'yes', 'no'"),
        "crashed": count(every, "'crashed', 'hung'"),
    }
    sums = ",\n       ".join(f"{sql} AS {name}" for name, sql in counts.items())
    head = "p.id, p.uid, p.started, p.op, l.backend, p.soc, l.sdk, p.library_id, l.package, l.version"
    return f"""
SELECT p.id, p.uid AS run, p.started, p.op, l.backend, NULLIF(p.soc, '') AS soc, l.sdk,
       {_latest("p")} AS latest, p.library_id, l.package, l.version AS package_version,
       {sums}
FROM probe_run AS p
JOIN library AS l ON l.id = p.library_id
JOIN probe_result AS x ON x.probe_run_id = p.id
WHERE p.op <> ''
GROUP BY {head}"""


def agreement(d: Dialect) -> str:
    counts = ("n", "both_accept", "both_reject", "we_accept_it_rejects", "we_reject_it_accepts", "undecided", "crashed")  # fmt: skip
    sums = ", ".join(f"CAST(SUM(s.{c}) AS INTEGER) AS {c}" for c in counts)
    percent = "ROUND(CAST(100.0 * (g.both_accept + g.both_reject) / NULLIF(g.n, 0) AS NUMERIC), 2)"
    return f"""
SELECT g.op, g.backend, g.soc, g.sdk, {", ".join(f"g.{c}" for c in counts)},
       CAST({percent} AS DOUBLE PRECISION) AS percent, g.package, g.package_version
FROM (
  SELECT s.op, s.backend, s.soc, s.sdk, s.package, s.package_version, {sums}
  FROM ({sweeps(d)}) AS s WHERE s.latest
  GROUP BY s.op, s.library_id, s.backend, s.soc, s.sdk, s.package, s.package_version) AS g"""


def census(d: Dialect) -> str:
    """The furthest stage of each op.  Only failures in a type row count: refusing a forbidden config shows nothing."""
    came = [f"SUM(CASE WHEN a.{stage} = 'yes' THEN 1 ELSE 0 END) AS {stage}" for stage in _STAGES]
    furthest = " ".join(f"WHEN c.{stage} > 0 THEN '{stage}'" for stage in reversed(_STAGES))
    good = " ".join(f"WHEN c.{stage} > 0 THEN a.{stage}" for stage in reversed(_STAGES))
    stopped = " ".join(
        f"WHEN c.{before} > 0 THEN a.{stage}" for before, stage in reversed([*pairwise(_STAGES)])
    )
    key = "a.op, a.library_id, a.soc"

    def first(of: str, among: str) -> str:
        rank = f"row_number() OVER (PARTITION BY {key} ORDER BY a.position, a.id)"
        return f"""SELECT {key}, {of}, a.code, a.code_name, a.config, {rank} AS place
  FROM answer AS a JOIN counted AS c ON c.op = a.op AND c.library_id = a.library_id AND c.soc = a.soc
  WHERE {among}"""

    ends = "('no', 'crashed', 'hung')"
    stage = f"CASE WHEN c.executes > 0 THEN NULL {stopped} ELSE a.validates END"
    join = "ON {0}.op = c.op AND {0}.library_id = c.library_id AND {0}.soc = c.soc AND {0}.place = 1"
    return f"""
WITH answer AS (
  SELECT x.id, x.position, p.op, p.library_id, p.soc, x.type_row, x.code, x.code_name, x.config,
         {", ".join(f"x.{stage}" for stage in _STAGES)}
  FROM probe_run AS p JOIN probe_result AS x ON x.probe_run_id = p.id
  WHERE p.op <> '' AND {_latest("p")}),
counted AS (
  SELECT {key}, COUNT(*) AS asked, {", ".join(came)} FROM answer AS a GROUP BY {key}),
good AS (
  {first("a.type_row", f"CASE {good} END = 'yes'")}),
ended AS (
  {first(f"{stage} AS stopped", f"a.type_row <> '' AND {stage} IN {ends}")})
SELECT c.op, l.backend, NULLIF(c.soc, '') AS soc, l.sdk, c.asked, {", ".join(f"c.{s}" for s in _STAGES)},
       CASE {furthest} END AS furthest, e.stopped, e.code, NULLIF(e.code_name, '') AS code_name, g.config,
       l.package, l.version AS package_version
FROM counted AS c
JOIN library AS l ON l.id = c.library_id
LEFT JOIN good AS g {join.format("g")}
LEFT JOIN ended AS e {join.format("e")}"""


def runs(d: Dialect) -> str:
    names = ("finalizes", "executes")
    disagrees = (
        "(p.ours = 'accept' AND p.validates IN ('no', 'crashed', 'hung')"
        " OR p.ours = 'reject' AND p.validates = 'yes'"
        " OR p.ours = 'unknown' AND p.validates IN ('yes', 'no', 'crashed', 'hung'))"
    )
    return f"""
SELECT 'probe' AS kind, p.id, u.uid AS run, u.started, p.op, NULLIF(p.type_row, '') AS type_row,
       NULLIF(p.backend, '') AS backend, NULLIF(p.soc, '') AS soc, NULLIF(p.sdk, '') AS sdk,
       CAST(NULL AS TEXT) AS declared, p.validates, {", ".join(f"p.{n}" for n in names)},
       CAST(NULL AS TEXT) AS matches, NULLIF(p.ours, '') AS ours, NULLIF(p.rules, '') AS rules,
       NULLIF(p.reasons, '') AS reasons, p.code, NULLIF(p.code_name, '') AS code_name, NULLIF(p.log, '') AS log,
       CAST(NULL AS DOUBLE PRECISION) AS error_max, CAST(NULL AS DOUBLE PRECISION) AS ulp,
       CAST(NULL AS DOUBLE PRECISION) AS magnitude, p.seconds,
       NULLIF(p.detail, '') AS detail, l.package, l.version AS package_version, l.emulated, p.config,
       CAST(NULL AS TEXT) AS "case", CAST(NULL AS TEXT) AS case_kind, CAST(NULL AS TEXT) AS executor,
       CAST(NULL AS TEXT) AS executor_version, {disagrees} AS disagrees, {_latest("u")} AS latest
FROM probe_result AS p
JOIN probe_run AS u ON u.id = p.probe_run_id
JOIN library AS l ON l.id = u.library_id
UNION ALL
SELECT 'conformance', r.id, u.uid, u.started, k.op, NULLIF(k.type_row, ''),
       COALESCE(NULLIF(e.backend, ''), NULLIF(k.backend, '')), NULLIF(r.soc, ''),
       NULLIF(COALESCE(l.sdk, k.sdk), ''), {", ".join(f"r.{c}" for c in STATUS_COLUMNS)}, NULL, {_reported(d)},
       NULL, r.code, NULLIF(r.code_name, ''), NULLIF(r.log, ''), r.error_max, r.ulp, r.magnitude, r.seconds,
       NULLIF(r.detail, ''), l.package, l.version, l.emulated, k.config, k.name, k.kind, e.name, e.version, NULL, NULL
FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN run AS u ON u.id = r.run_id
LEFT JOIN library AS l ON l.id = e.library_id"""


def evidence(d: Dialect) -> str:
    """The newest evidence cell of each key from files; on the same day a merged one wins over a shipped one."""
    plain = ", ".join(f"o.{c}" for c in (*_MEASURED, "cases", "counts"))
    maybe = ", ".join(
        f'NULLIF(o."{c}", \'\') AS "{c}"' for c in ("furthest", "case", "config", "stopped", "stopped_case")
    )
    return f"""
SELECT o.kind, CASE o.kind WHEN 'op' THEN o.name END AS op, CASE o.kind WHEN 'torch' THEN o.name END AS torch_op,
       CASE o.kind WHEN 'op' THEN o.type_row END AS type_row, CASE o.kind WHEN 'torch' THEN o.type_row END AS "precision",
       r.backend, NULLIF(r.soc, '') AS soc, r.sdk, r.execution, {plain}, {maybe}, o.code,
       NULLIF(o.code_name, '') AS code_name, NULLIF(o.reason, '') AS reason, NULLIF(o.errata, '') AS errata,
       r.package, r.version AS package_version, r.build_id, r.sha256, NULLIF(r.flow, '') AS flow, r.date AS measured,
       r.host, r.generator, r.seed, r.case_limit, r.origin
FROM evidence_outcome AS o
JOIN evidence_cell AS c ON c.evidence_outcome_id = o.id
JOIN evidence_run AS r ON r.id = c.evidence_run_id
WHERE c.newest"""


def support(d: Dialect) -> str:
    """The rows of the table ``support``, repeated for every chip of their part."""
    told = ", ".join(f"CASE WHEN NOT s.own THEN {sql} END AS {c}" for c, sql in _TOLD.items())
    file = "r.package || ' ' || r.version || ', ' || r.execution || COALESCE(', ' || NULLIF(r.soc, ''), '')"
    return f"""
SELECT t.op, NULLIF(t.type_row, '') AS type_row, t.cells, t.backend, NULLIF(p.soc, '') AS soc, s.sdk,
       w.status, NULLIF(w.why, '') AS why, NULLIF(w.errata, '') AS errata, t.since,
       {", ".join(f"s.{c}" for c in STATUS_COLUMNS)},
       CASE WHEN s.own THEN s.n ELSE COALESCE(o.cases, s.n) END AS measurements, {told},
       CASE WHEN s.own THEN s.library || ', own run'
            ELSE {file} || CASE r.origin WHEN 'merged' THEN ', merged' ELSE '' END END AS library,
       CASE WHEN s.own THEN s.at ELSE r.date END AS measured, r.execution, e.text AS source, t.place, s.sdk_number
FROM op_type_row AS t
JOIN support AS s ON s.op_type_row_id = t.id
JOIN support_status AS w ON w.id = s.support_status_id
JOIN support_place AS p ON p.part = s.part
LEFT JOIN evidence_cell AS c ON c.id = s.evidence_cell_id
LEFT JOIN evidence_outcome AS o ON o.id = c.evidence_outcome_id
LEFT JOIN evidence_run AS r ON r.id = c.evidence_run_id
LEFT JOIN source AS e ON e.id = t.source_id"""


#: Columns of evidence from files, besides the statuses.
_TOLD = {"counts": "o.counts"} | {
    c: f"NULLIF(o.{c}, '')" for c in ("furthest", "stopped", "code_name", "reason")
}


def coverage(d: Dialect) -> str:
    reported = "x.rule IS NOT NULL"
    good = "r.kind = 'positive' AND (u.backend IS NULL OR r.case_backend = u.backend)"
    implied = d.joined("i.implied_by", ", ", "implication AS i WHERE i.rule = g.rule", "i.id")
    return f"""
SELECT g.op, g.rule, g.backend, 1 AS stated, g.python, g.c, g.positive, g.negative, g.executed,
       {implied} AS implied_by, g.place
FROM (
  SELECT u.op, u.rule, u.backend, u.place,
         COUNT(CASE WHEN r.executor = 'python' AND {reported} THEN 1 END) AS python,
         COUNT(CASE WHEN r.executor = 'c' AND {reported} THEN 1 END) AS c,
         COUNT(DISTINCT CASE WHEN {good} THEN r."case" END) AS positive,
         COUNT(DISTINCT e."case") AS negative,
         COUNT(CASE WHEN {good} OR e."case" IS NOT NULL THEN 1 END) AS executed
  FROM v_rules AS u
  LEFT JOIN v_results AS r ON r.op = u.op
  LEFT JOIN result_rule AS x ON x.result_id = r.id AND x.rule = u.rule
  LEFT JOIN (SELECT DISTINCT k.name AS "case", x.rule FROM case_rule AS x
             JOIN conformance_case AS k ON k.id = x.conformance_case_id) AS e
    ON e."case" = r."case" AND e.rule = u.rule
  GROUP BY u.op, u.rule, u.backend, u.place) AS g"""
