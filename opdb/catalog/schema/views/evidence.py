"""The SQL of the views of what was measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from opdb.catalog.schema.names import FEATURES, STATUS_COLUMNS
from opdb.catalog.schema.views.sql import Dialect

#: From the worst: one crash among many successes is what a user must know.
WORST = ("crashed", "hung", "no", "yes", "not-applicable", "unknown")
_UNKNOWN = len(WORST) - 1
_MEASURED = STATUS_COLUMNS[1:]
_STAGES = ("validates", "finalizes", "executes")
_KEY = ("op", "type_row", "backend", "soc", "sdk")


def _latest(run: str) -> str:
    """Whether a sweep has the configs and rules of the last one over its op, library and SoC with answers."""
    return f"""COALESCE({run}.catalog_hash || ' ' || {run}.note = (
         SELECT n.catalog_hash || ' ' || n.note FROM probe_run AS n
         WHERE n.op = {run}.op AND n.library_id = {run}.library_id AND n.soc = {run}.soc AND n.op <> ''
           AND EXISTS (SELECT 1 FROM probe_result AS y WHERE y.probe_run_id = n.id)
         ORDER BY n.id DESC LIMIT 1), {run}.id < 0)"""


def results(d: Dialect) -> str:
    """The last result of each conformance case, executor and SoC."""
    return f"""
SELECT r.id, k.name AS "case", k.kind, k.op, k.type_row, NULLIF(k.backend, '') AS case_backend,
       NULLIF(e.backend, '') AS backend, r.soc, COALESCE(l.sdk, k.sdk) AS sdk, e.name AS executor,
       e.version AS executor_version, {", ".join(f"r.{c}" for c in STATUS_COLUMNS)}, r.rules, r.code, r.code_name,
       r.log, l.package, l.version AS package_version, l.emulated, u.uid AS run, u.started
FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN run AS u ON u.id = r.run_id
LEFT JOIN library AS l ON l.id = e.library_id
WHERE r.id IN (
  SELECT MAX(x.id) FROM result AS x JOIN conformance_case AS y ON y.id = x.conformance_case_id
  GROUP BY y.name, x.executor_id, x.soc)"""


def sweeps(d: Dialect) -> str:
    """Probe runs over one op that have answers, with what was answered."""

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
WHERE p.op <> ''{d.only("p", backend="l.backend", sdk="l.sdk")}
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
    """A config is good where it keeps the rules, in a type row; of what a rule forbids, a refusal says nothing."""
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
  WHERE p.op <> '' AND {_latest("p")}{d.only("p", backend="x.backend", sdk="x.sdk")}),
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


def evidence(d: Dialect) -> str:
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
       NULLIF(COALESCE(l.sdk, k.sdk), ''), {", ".join(f"r.{c}" for c in STATUS_COLUMNS)}, NULL, NULLIF(r.rules, ''),
       NULL, r.code, NULLIF(r.code_name, ''), NULLIF(r.log, ''), r.error_max, r.ulp, r.magnitude, r.seconds,
       NULLIF(r.detail, ''), l.package, l.version, l.emulated, k.config, k.name, k.kind, e.name, e.version, NULL, NULL
FROM result AS r
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN run AS u ON u.id = r.run_id
LEFT JOIN library AS l ON l.id = e.library_id"""


def _rank(status: str) -> str:
    return f"CASE {status} " + " ".join(f"WHEN '{s}' THEN {i}" for i, s in enumerate(WORST)) + " END"


def _status(rank: str) -> str:
    return f"CASE {rank} " + " ".join(f"WHEN {i} THEN '{s}'" for i, s in enumerate(WORST)) + " END"


def measured(d: Dialect) -> str:
    """The cells of evidence that came in files; of one key the newest, a merged one before a shipped one of the same day."""
    key = "o.kind, o.name, o.type_row, r.backend, r.soc, r.sdk, r.execution"
    own = ", ".join(
        f"o.{c}" for c in (*_MEASURED, "cases", "counts", "furthest", "config", "stopped", "stopped_case")
    )
    return f"""
SELECT x.kind, CASE x.kind WHEN 'op' THEN x.name END AS op, CASE x.kind WHEN 'torch' THEN x.name END AS torch_op,
       CASE x.kind WHEN 'op' THEN x.type_row END AS type_row, CASE x.kind WHEN 'torch' THEN x.type_row END AS "precision",
       x.backend, NULLIF(x.soc, '') AS soc, x.sdk, x.execution, {", ".join(f"x.{c}" for c in _MEASURED)}, x.cases,
       x.counts, NULLIF(x.furthest, '') AS furthest, NULLIF(x."case", '') AS "case", NULLIF(x.config, '') AS config,
       NULLIF(x.stopped, '') AS stopped, NULLIF(x.stopped_case, '') AS stopped_case, x.code,
       NULLIF(x.code_name, '') AS code_name, NULLIF(x.reason, '') AS reason, NULLIF(x.errata, '') AS errata,
       x.package, x.version AS package_version, x.build_id, x.sha256, NULLIF(x.flow, '') AS flow, x.date AS measured,
       x.host, x.generator, x.seed, x.case_limit, x.origin
FROM (
  SELECT o.kind, o.name, o.type_row, r.backend, r.soc, r.sdk, r.execution, {own}, o."case", o.code, o.code_name, o.reason,
         o.errata, r.package, r.version, r.build_id, r.sha256, r.flow, r.date, r.host, r.generator, r.seed,
         r.case_limit, r.origin,
         row_number() OVER (PARTITION BY {key} ORDER BY r.date DESC, r.origin, c.id DESC) AS newest
  FROM evidence_outcome AS o
  JOIN evidence_cell AS c ON c.evidence_outcome_id = o.id
  JOIN evidence_run AS r ON r.id = c.evidence_run_id
  WHERE 1 = 1{d.only("r", op="o.name", soc="r.soc")}) AS x
WHERE x.newest = 1"""


#: Of evidence from files, beside the statuses.
_TOLD = ("cases", "counts", "furthest", "stopped", "code_name", "reason", "errata")


def _stands_for(d: Dialect) -> str:
    """For every chip the cells of it, else those of a chip of its class: the same Hexagon version and floating point.

    A chip that not all libraries open has its own alone.
    """
    ranks = ", ".join(f"{_rank(f'x.{c}')} AS {c}" for c in _MEASURED)
    narrow = replace(d, narrowed=tuple(n for n in d.narrowed if n != "soc"))
    nearest = "CASE WHEN x.soc = p.soc OR x.soc IS NULL THEN 0 ELSE 1 END, x.measured DESC, x.soc"
    key = "x.op, x.type_row, x.backend, p.soc, x.sdk, CASE x.execution WHEN 'device' THEN 1 ELSE 0 END"
    return f"""
  SELECT x.op, x.type_row, x.backend, p.soc, x.sdk, x.execution, CASE x.execution WHEN 'device' THEN 1 ELSE 0 END AS device,
         {ranks}, {", ".join(f"x.{c}" for c in _TOLD)}, x.measured, x.origin,
         {_library("x.package", "x.package_version", "x.execution", "x.soc")} AS library,
         row_number() OVER (PARTITION BY {key} ORDER BY {nearest}) AS nearest
  FROM ({measured(narrow)}) AS x
  JOIN place AS p ON p.backend = x.backend
  LEFT JOIN soc AS a ON a.chip = x.soc
  LEFT JOIN soc AS b ON b.chip = p.soc
  WHERE x.kind = 'op' AND (COALESCE(x.soc, '') = p.soc
    OR a.htp_arch = b.htp_arch AND a.fp16 = b.fp16 AND a.bf16 = b.bf16 AND b.libraries IS NULL){d.only("x", soc="p.soc")}"""


def _library(package: str, version: str, execution: str, soc: str) -> str:
    """What answered, in words: e.g. onnxruntime-qnn 2.3.0, emulator, SM8650."""
    return f"{package} || ' ' || {version} || COALESCE(', ' || {execution}, '') || COALESCE(', ' || NULLIF({soc}, ''), '')"


def support(d: Dialect, files: bool = True) -> str:
    """Every documented type row on every SoC and measured SDK of its backend, and what else was measured.

    One's own measurements of a status stand before those of ``files``, unless these are newer.  What a device did has rows
    of its own.
    """
    ranks = ", ".join(f"MIN(m.{c}) AS {c}" for c in _MEASURED)
    nothing = f"CASE WHEN p.asked = 1 THEN {_UNKNOWN} ELSE {WORST.index('not-applicable')} END"
    unknown = ", ".join(f"{nothing} AS {c}" for c in _MEASURED)
    asked = ", ".join(_rank(f"p.{c}") for c in _MEASURED[:3])
    ran = ", ".join(_rank(f"r.{c}") for c in _MEASURED)
    sdk = "COALESCE(s.sdk, t.source_version, t.since, '')"
    narrow = tuple(n for n in d.narrowed if n in ("op", "backend"))
    number, since, until = d.version("g.sdk"), d.version("t.since"), d.version("t.until")
    has = " ".join(f"WHEN '{name}' THEN c.{name}" for name in FEATURES)
    inside = (
        f"t.op IS NOT NULL AND (t.since IS NULL OR {number} >= {since})"
        f" AND (t.until IS NULL OR {number} <= {until} OR g.sdk LIKE t.until || '.%')"
        f" AND (t.needs IS NULL OR CASE t.needs {has} END = 1)"
    )
    own = "g.n > 0 AND g.at >= COALESCE(e.measured, '')"
    first = {c: f"CASE WHEN ({own} OR e.{c} IS NULL) AND g.{c} <> {_UNKNOWN} OR COALESCE(e.{c}, {_UNKNOWN}) = {_UNKNOWN}"
                f" THEN g.{c} ELSE e.{c} END" for c in _MEASURED}  # fmt: skip
    told = ", ".join(f"CASE WHEN {own} THEN NULL ELSE e.{c} END AS {c}" for c in _TOLD[1:])
    version = "l.package || ' ' || l.version || CASE WHEN l.emulated THEN ', emulator' ELSE ', host' END"
    file_sdks = "UNION SELECT r.backend, r.sdk FROM evidence_run AS r WHERE r.flow = ''" if files else ""
    stands = _stands_for(d) if files else _NOTHING_STANDS
    return f"""
WITH documented AS (
  SELECT t.* FROM v_types AS t WHERE t.place > 0{replace(d, narrowed=narrow).only("t")}),
measured_sdk AS (
  SELECT l.backend, l.sdk FROM library AS l
  UNION
  SELECT e.backend, k.sdk FROM result AS r
  JOIN conformance_case AS k ON k.id = r.conformance_case_id
  JOIN executor AS e ON e.id = r.executor_id
  WHERE e.library_id IS NULL AND e.backend <> ''
  {file_sdks}),
place AS (
  SELECT b.name AS backend, s.chip AS soc, b.asked FROM backend AS b JOIN soc AS s ON b.context LIKE '%"arch"%'
  UNION ALL
  SELECT b.name, '', b.asked FROM backend AS b WHERE COALESCE(b.context, '') NOT LIKE '%"arch"%'),
stands AS ({stands}),
own AS (
  SELECT m.op, m.type_row, m.backend, m.soc, m.sdk, {ranks}, CAST(SUM(m.n) AS INTEGER) AS n, MAX(m.at) AS at,
         MAX(m.library) AS library
  FROM (
    SELECT t.op, t.type_row, t.backend, p.soc, {sdk} AS sdk, {unknown}, 0 AS n, NULL AS at, NULL AS library
    FROM documented AS t
    JOIN place AS p ON p.backend = t.backend
    LEFT JOIN measured_sdk AS s ON s.backend = t.backend
    WHERE t.place > 0{d.only("t", soc="p.soc", sdk=sdk)}
    UNION ALL
    SELECT p.op, p.type_row, p.backend, p.soc, p.sdk, {asked}, {_UNKNOWN}, 1, u.started, {version}
    FROM probe_result AS p JOIN probe_run AS u ON u.id = p.probe_run_id JOIN library AS l ON l.id = u.library_id
    WHERE p.type_row <> ''{d.only("p")}
    UNION ALL
    SELECT r.op, r.type_row, r.backend, r.soc, r.sdk, {ran}, 1, r.started,
           r.package || ' ' || r.package_version || CASE WHEN r.emulated THEN ', emulator' ELSE ', host' END
    FROM v_results AS r WHERE r.kind = 'positive' AND r.type_row <> '' AND r.backend IS NOT NULL{d.only("r")}) AS m
  GROUP BY m.op, m.type_row, m.backend, m.soc, m.sdk),
apart AS (
  SELECT g.*, 0 AS device FROM own AS g
  UNION ALL
  SELECT e.op, e.type_row, e.backend, e.soc, e.sdk, {", ".join(f"{_UNKNOWN}" for _ in _MEASURED)}, 0, NULL, NULL, 1
  FROM stands AS e WHERE e.device = 1 AND e.nearest = 1)
SELECT g.op, NULLIF(g.type_row, '') AS type_row, t.cells, g.backend, NULLIF(g.soc, '') AS soc, g.sdk,
       CASE WHEN {inside} THEN 'yes' ELSE 'no' END AS declared,
       {", ".join(f"{_status(sql)} AS {c}" for c, sql in first.items())},
       CASE WHEN {own} THEN g.n ELSE COALESCE(e.cases, g.n) END AS measurements, {told},
       CASE WHEN {own} THEN g.library || ', own run' ELSE e.library || CASE e.origin WHEN 'merged' THEN ', merged' ELSE '' END END
         AS library,
       CASE WHEN {own} THEN g.at ELSE e.measured END AS measured, e.execution, t.source, t.place, {number} AS sdk_number
FROM apart AS g
LEFT JOIN stands AS e ON e.op = g.op AND e.type_row = g.type_row AND e.backend = g.backend AND e.soc = g.soc
  AND e.sdk = g.sdk AND e.device = g.device AND e.nearest = 1
LEFT JOIN documented AS t ON t.op = g.op AND t.type_row = g.type_row
LEFT JOIN soc AS c ON c.chip = g.soc"""


#: No evidence of files, with the columns of ``_stands_for``.
_NOTHING_STANDS = f"""
  SELECT '' AS op, '' AS type_row, '' AS backend, '' AS soc, '' AS sdk, '' AS execution, 0 AS device,
         {", ".join(f"{_UNKNOWN} AS {c}" for c in _MEASURED)}, 0 AS cases, {", ".join(f"'' AS {c}" for c in _TOLD[1:])},
         '' AS measured, '' AS origin, '' AS library, 0 AS nearest WHERE 1 = 0"""


def quirks(d: Dialect) -> str:
    stages = list(enumerate(pairwise(STATUS_COLUMNS)))
    steps = " UNION ALL ".join(f"SELECT {i} AS step" for i, _ in stages)
    had = "CASE n.step " + " ".join(f"WHEN {i} THEN s.{a}" for i, (a, _) in stages) + " END"
    got = "CASE n.step " + " ".join(f"WHEN {i} THEN s.{b}" for i, (_, b) in stages) + " END"
    what = "CASE q.step " + " ".join(
        f"WHEN {i} THEN '{a} ' || q.had || ', {b} ' || q.got" for i, (a, b) in stages
    )
    reached = {x: f"CASE q.step {' '.join(f'WHEN {i} THEN {x}.{b}' for i, (_, b) in stages if x == 'r' or i < 3)} END"
               for x in "rp"}  # fmt: skip

    def behind(x: str) -> str:
        same = " AND ".join(f"{x}.{c} = COALESCE(q.{c}, '')" for c in _KEY)
        return f"{same} AND {reached[x]} = q.got"

    rules = d.joined(
        "x.rule", ", ", "case_rule AS x JOIN conformance_case AS k ON k.id = x.conformance_case_id"
        " WHERE k.name = r.\"case\"", "x.conformance_case_id, x.position",
    )  # fmt: skip
    columns = "emulated, package, package_version"
    return f"""
WITH odd AS (
  SELECT q.*, {what} END AS quirk,
    (SELECT MIN(r.id) FROM v_results AS r WHERE r.kind = 'positive' AND {behind("r")}) AS result_id,
    (SELECT COUNT(*) FROM v_results AS r WHERE r.kind = 'positive' AND {behind("r")}) AS results,
    (SELECT MIN(p.id) FROM probe_result AS p WHERE {behind("p")}) AS probe_id,
    (SELECT COUNT(*) FROM probe_result AS p WHERE {behind("p")}) AS probes
  FROM (SELECT s.op, s.type_row, s.cells, s.backend, s.soc, s.sdk, s.place, s.sdk_number, n.step, {had} AS had,
               {got} AS got
        FROM ({support(d, files=False)}) AS s CROSS JOIN ({steps}) AS n) AS q
  WHERE q.got IN ('crashed', 'hung') OR (q.had = 'yes' AND q.got = 'no') OR (q.had = 'no' AND q.got = 'yes'))
SELECT o.op, o.type_row, o.cells, o.backend, o.soc, o.sdk, o.quirk,
       COALESCE(r.emulated, l.emulated) AS emulated, COALESCE(r.package, l.package) AS package,
       COALESCE(r.package_version, l.version) AS package_version, r."case",
       CASE WHEN r.id IS NULL THEN p.code ELSE r.code END AS code,
       NULLIF(CASE WHEN r.id IS NULL THEN p.code_name ELSE r.code_name END, '') AS code_name,
       NULLIF(CASE WHEN r.id IS NULL THEN p.log ELSE r.log END, '') AS log, COALESCE(r.run, u.uid) AS run,
       o.results + o.probes AS measurements, 0 AS lax, o.place, o.sdk_number, o.step
FROM odd AS o
LEFT JOIN v_results AS r ON r.id = o.result_id
LEFT JOIN probe_result AS p ON p.id = o.probe_id
LEFT JOIN probe_run AS u ON u.id = p.probe_run_id
LEFT JOIN library AS l ON l.id = u.library_id
UNION ALL
SELECT r.op, NULLIF(r.type_row, ''), t.cells, r.backend, NULLIF(r.soc, ''), NULLIF(r.sdk, ''),
       'breaks ' || COALESCE({rules}, 'a rule') || ', validates yes', {", ".join(f"r.{c}" for c in columns.split(", "))},
       r."case", r.code, NULLIF(r.code_name, ''), NULLIF(r.log, ''), r.run, 1, 1, t.place,
       CAST(r.id AS INTEGER), 0
FROM v_results AS r LEFT JOIN v_types AS t ON t.op = r.op AND t.type_row = r.type_row
WHERE r.kind = 'negative' AND r.validates = 'yes' AND r.backend IS NOT NULL"""


def coverage(d: Dialect) -> str:
    reported = "replace(' ' || r.rules || ' ', ' ' || u.rule || ' ', '') <> ' ' || r.rules || ' '"
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
  LEFT JOIN (SELECT DISTINCT k.name AS "case", x.rule FROM case_rule AS x
             JOIN conformance_case AS k ON k.id = x.conformance_case_id) AS e
    ON e."case" = r."case" AND e.rule = u.rule
  GROUP BY u.op, u.rule, u.backend, u.place) AS g"""
