"""What the SQL of the views is made of: the few words in which SQLite and PostgreSQL differ, and shared parts."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands before the name of a list of values, in place of the colon.
VALUES = "@"


@dataclass(frozen=True)
class Dialect:
    """The SQL on which SQLite and PostgreSQL differ."""

    postgres: bool

    def joined(self, text: str, separator: str, rows: str, order: str) -> str:
        """The texts of ``rows`` (FROM ... WHERE ...) in order, joined; NULL for none.  A scalar subquery."""
        function = "string_agg" if self.postgres else "group_concat"
        inner = f"SELECT {text} AS piece FROM {rows} ORDER BY {order}"
        return f"(SELECT {function}(pieces.piece, '{separator}') FROM ({inner}) AS pieces)"


#: (op, definition_id): an op has the parts of its base's definition (own = 0) and of its own (own = 1).
PART = """part AS (
  SELECT o.name AS op, o.definition_id, 1 AS own, o.definition_id AS own_definition,
         b.definition_id AS base_definition, b.name AS base
  FROM op AS o LEFT JOIN base AS b ON b.id = o.base_id
  UNION ALL
  SELECT o.name, b.definition_id, 0, o.definition_id, b.definition_id, b.name
  FROM op AS o JOIN base AS b ON b.id = o.base_id)"""


def merged(table: str, key: str = "name") -> str:
    """The rows of a table by op: the base's first; the op's own take the place of those with the same key."""
    return f"""
  SELECT p.op, p.own, CASE WHEN p.own = 0 THEN p.base END AS inherited, x.*,
         row_number() OVER (PARTITION BY p.op ORDER BY CASE WHEN b.id IS NULL THEN p.own ELSE 0 END,
                            COALESCE(b.position, x.position), x.id) AS place
  FROM part AS p
  JOIN {table} AS x ON x.definition_id = p.definition_id
  LEFT JOIN {table} AS b ON p.own = 1 AND b.definition_id = p.base_definition AND b.{key} = x.{key}
  WHERE p.own = 1 OR NOT EXISTS (
    SELECT 1 FROM {table} AS y WHERE y.definition_id = p.own_definition AND y.{key} = x.{key})"""
