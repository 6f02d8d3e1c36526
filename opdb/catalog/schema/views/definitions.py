"""SQL of the views over the specs."""

from __future__ import annotations

from opdb.catalog.schema.names import BINDING_KINDS, RULE_KINDS
from opdb.catalog.schema.views.sql import PART, Dialect, merged

#: "rule": the rules of each op.  If the op itself lists a backend, the base's rules for that backend do not apply.
_IN_FORCE = f"""every AS ({merged("op_rule")}),
own AS (
  SELECT o.name AS op, x.backend_id FROM op AS o JOIN op_backend AS x ON x.definition_id = o.definition_id),
rule AS (
  SELECT r.* FROM every AS r
  WHERE r.own = 1 OR r.backend_id IS NULL
     OR NOT EXISTS (SELECT 1 FROM own WHERE own.op = r.op AND own.backend_id = r.backend_id))"""

#: "torch": the targets that each op is a form of, those of its own spec first.
_TORCH = f"""mapping AS ({merged("torch_mapping", "target")}),
torch AS (
  SELECT m.op, m.target, 0 AS of_family, m.place FROM mapping AS m
  UNION ALL
  SELECT s.op, t.target, 1, row_number() OVER (PARTITION BY s.op ORDER BY f.name, c.position, t.position)
  FROM family AS f
  JOIN candidate AS c ON c.family_id = f.id AND c.form = 'op'
  JOIN candidate_step AS s ON s.candidate_id = c.id
  JOIN candidate_target AS t ON t.candidate_id = c.id)"""


def ops(d: Dialect) -> str:
    slot = (
        "s.name || CASE WHEN s.variadic THEN '...' ELSE '' END || CASE WHEN s.optional THEN '?' ELSE '' END"
    )
    inputs = d.joined(slot, ", ", "slot AS s WHERE s.op = o.name AND NOT s.output", "s.place")
    outputs = d.joined(slot, ", ", "slot AS s WHERE s.op = o.name AND s.output", "s.place")
    backends = "place AS x JOIN backend AS b ON b.id = x.backend_id WHERE x.op = o.name"
    own, base = "h.id = o.definition_id", "h.id = b.definition_id"
    return f"""
WITH {PART}, slot AS ({merged("op_tensor")}), param AS ({merged("op_param")}),
place AS ({merged("op_backend", "backend_id")}), {_TORCH},
head AS (
  SELECT h.id, NULLIF(h.summary, '') AS summary, s.text AS source
  FROM definition AS h LEFT JOIN source AS s ON s.id = h.source_id),
{_IN_FORCE}, counted AS (SELECT r.op, COUNT(*) AS rules FROM rule AS r GROUP BY r.op)
SELECT o.name AS op, o.package, b.name AS extends,
       COALESCE({inputs}, '') AS inputs,
       COALESCE({d.joined("x.name", ", ", "param AS x WHERE x.op = o.name", "x.place")}, '') AS params,
       COALESCE({outputs}, '') AS outputs,
       COALESCE({d.joined("b.name", ", ", backends, "x.place")}, '') AS backends,
       COALESCE({d.joined("x.target", ", ", "torch AS x WHERE x.op = o.name", "x.of_family, x.place")}, '') AS torch,
       COALESCE(counted.rules, 0) AS rules,
       COALESCE((SELECT k.function FROM kernel AS k WHERE k.definition_id = o.definition_id),
                (SELECT k.function FROM kernel AS k WHERE k.definition_id = b.definition_id)) AS kernel,
       COALESCE((SELECT h.summary FROM head AS h WHERE {own}), (SELECT h.summary FROM head AS h WHERE {base}))
         AS summary,
       COALESCE((SELECT h.source FROM head AS h WHERE {own}), (SELECT h.source FROM head AS h WHERE {base}))
         AS source
FROM op AS o LEFT JOIN base AS b ON b.id = o.base_id LEFT JOIN counted ON counted.op = o.name"""


def params(d: Dialect) -> str:
    enum = d.joined("e.name || '=' || e.value", ", ", "op_enum AS e WHERE e.op_param_id = x.id", "e.position")
    return f"""
WITH {PART}, param AS ({merged("op_param")})
SELECT x.op, x.name AS param, x.type, x.dtype, x.dims, x.optional, x.default_value AS "default", x.kind,
       {enum} AS enum, x.inherited, x.doc, x.place
FROM param AS x"""


def types(d: Dialect) -> str:
    return """
SELECT t.op, t.backend, t.config, t.type_row, t.cells, t.since, t.until, e.text AS source, e.version AS source_version,
       t.needs, t.place
FROM op_type_row AS t LEFT JOIN source AS e ON e.id = t.source_id
WHERE t.place IS NOT NULL"""


def type_cells(d: Dialect) -> str:
    return """
SELECT t.op, t.backend, t.type_row, c.slot, c.dtype, t.place
FROM op_type_row AS t JOIN op_type_cell AS c ON c.op_type_row_id = t.id"""


def torch(d: Dialect) -> str:
    def said(rows: str, kind: str) -> str:
        text = d.joined("x.name || ': ' || x.expression", "; ", f"{rows} AND x.kind = '{kind}'", "x.position")
        return f"{text} AS {kind}"

    mapped = [said("torch_binding AS x WHERE x.torch_mapping_id = m.id", kind) for kind in BINDING_KINDS]
    bound = [said("step_binding AS x WHERE x.candidate_step_id = s.id", kind) for kind in BINDING_KINDS[:-1]]
    ignored = said("candidate_name AS x WHERE x.candidate_id = c.id", "ignored")
    steps = d.joined("x.op", ", ", "candidate_step AS x WHERE x.candidate_id = c.id", "x.position")
    return f"""
WITH {PART}, mapping AS ({merged("torch_mapping", "target")})
SELECT m.target AS torch_op, 'op' AS form, m.op AS ops, CAST(NULL AS TEXT) AS decomposition, m.guard AS "when", m.why,
       {", ".join(mapped)}, CAST(NULL AS TEXT) AS family, 1 AS place, e.text AS source
FROM mapping AS m LEFT JOIN source AS e ON e.id = m.source_id
UNION ALL
SELECT t.target, CASE c.form WHEN 'chain' THEN 'decomposition' ELSE c.form END, {steps},
       CASE c.form WHEN 'chain' THEN c.name END, c.guard, c.why,
       {", ".join(bound)}, {ignored}, f.name, c.entry + 1, e.text
FROM candidate_target AS t
JOIN candidate AS c ON c.id = t.candidate_id
JOIN family AS f ON f.id = c.family_id
LEFT JOIN candidate_step AS s ON c.form = 'op' AND s.candidate_id = c.id
LEFT JOIN source AS e ON e.id = c.source_id"""


def op_torch(d: Dialect) -> str:
    return f"""
WITH {PART}, mapping AS ({merged("torch_mapping", "target")})
SELECT m.op, m.target AS torch_op FROM mapping AS m
UNION
SELECT s.op, t.target
FROM candidate_target AS t JOIN candidate_step AS s ON s.candidate_id = t.candidate_id"""


def unchecked(d: Dialect) -> str:
    return f"""
WITH {PART}, supplement AS ({merged("op_backend", "backend_id")})
SELECT x.op, x.op || '.' || u.rule AS rule, b.name AS backend, u.since, u.until, u.why, s.text AS source,
       row_number() OVER (PARTITION BY x.op ORDER BY b.position, u.position) AS place
FROM supplement AS x
JOIN unchecked AS u ON u.op_backend_id = x.id
JOIN backend AS b ON b.id = x.backend_id
LEFT JOIN source AS s ON s.id = u.source_id"""


def rules(d: Dialect) -> str:
    kinds = " ".join(f"WHEN '{k}' THEN {i}" for i, k in enumerate(RULE_KINDS))
    order = f"COALESCE(b.position, -1), CASE r.kind {kinds} END, r.own, r.position"
    said = "u.backend || COALESCE(' since ' || u.since, '') || COALESCE(' until ' || u.until, '')"
    unchecked = d.joined(said, ", ", "open AS u WHERE u.rule = o.rule", "u.place")
    # "open" and "said" are materialized: evaluating them per rule would take 90 % of the time.
    return f"""
WITH {PART}, {_IN_FORCE}, open AS MATERIALIZED (SELECT * FROM v_unchecked),
said AS MATERIALIZED (SELECT o.rule, {unchecked} AS backends FROM (SELECT DISTINCT rule FROM open) AS o)
SELECT r.op, r.op || '.' || r.name AS rule, b.name AS backend, r.kind, r.strength,
       u.backends AS unchecked, r.guard AS "when", NULLIF(r.expression, '') AS expression, r.why, r.inherited, s.text AS source,
       row_number() OVER (PARTITION BY r.op ORDER BY {order}) AS place
FROM rule AS r
LEFT JOIN said AS u ON u.rule = r.op || '.' || r.name
LEFT JOIN backend AS b ON b.id = r.backend_id
LEFT JOIN source AS s ON s.id = r.source_id"""


def backends(d: Dialect) -> str:
    chips = d.joined("x.chip", ", ", "backend_chip AS x WHERE x.backend_id = b.id", "x.position")
    return f"""
WITH {PART}, place AS ({merged("op_backend", "backend_id")})
SELECT b.name AS backend, b.about, b.number AS id, b.letter, b.library, b.asked, {chips} AS chips,
       (SELECT COUNT(DISTINCT x.op) FROM place AS x WHERE x.backend_id = b.id) AS ops, b.context, b.position AS place
FROM backend AS b"""


def socs(d: Dialect) -> str:
    columns = ", ".join(
        f"s.{name}" for name in ("soc_model", "htp_arch", "fp16", "bf16", "soc_ids", "libraries")
    )
    names = d.joined("x.name", ", ", "soc_name AS x WHERE x.soc_id = s.id", "x.position")
    oldest = f"(SELECT MIN({d.json('b.more', 'oldest', 'arch', type_='integer')}) FROM backend AS b)"
    htp = f"COALESCE(s.htp_arch, 0) >= {oldest} AND COALESCE(s.libraries, '') <> 'none'"
    return f"""
SELECT s.chip AS soc, {names} AS names, 'v' || s.htp_arch AS hexagon, CASE WHEN {htp} THEN 'yes' ELSE 'no' END AS htp,
       CASE WHEN NOT ({htp}) THEN NULL WHEN s.bf16 = 1 THEN 'fp16, bf16' WHEN s.fp16 = 1 THEN 'fp16' ELSE 'none' END AS floats,
       {d.json("s.more", "simulated")} AS simulated, {d.json("s.more", "vtcm_mb", type_="integer")} AS vtcm_mb, {columns}
FROM soc AS s"""


def errata(d: Dialect) -> str:
    def listed(column: str) -> str:
        """A JSON list of plain names or numbers without brackets and quotes; NULL if empty."""
        return f"NULLIF(replace(replace(replace({column}, '[', ''), ']', ''), '\"', ''), '')"

    where = f"s.library || COALESCE(' ' || {listed('s.socs')}, '')"
    seen = d.joined(where, "; ", "erratum_seen AS s WHERE s.erratum_id = e.id", "s.position")
    return f"""
SELECT e.name AS erratum, b.name AS backend, e.op, e.title, e.effect, e.cause, e.since, e.until,
       {listed("e.arch")} AS arch, {listed("e.socs")} AS socs, e.execution, e.workaround,
       e.cost_class AS cost, {seen} AS seen
FROM erratum AS e JOIN backend AS b ON b.id = e.backend_id"""
