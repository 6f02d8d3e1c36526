"""Shared parts of the views' SQL, and the few words that differ between SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass

#: The prefix of parameter names, instead of a colon.
VALUES = "@"


@dataclass(frozen=True)
class Dialect:
    """The SQL that differs between SQLite and PostgreSQL."""

    postgres: bool

    def joined(self, text: str, separator: str, rows: str, order: str) -> str:
        """A scalar subquery that joins the texts of ``rows`` (FROM ... WHERE ...) in order; NULL if there are none."""
        function = "string_agg" if self.postgres else "group_concat"
        inner = f"SELECT {text} AS piece FROM {rows} ORDER BY {order}"
        return f"(SELECT {function}(pieces.piece, '{separator}') FROM ({inner}) AS pieces)"

    def json(self, column: str, *path: str, type_: str = "text") -> str:
        """A field of a column with a JSON object; NULL if it has none."""
        if self.postgres:
            keys = ", ".join(f"'{key}'" for key in path)
            return f"CAST(json_extract_path_text(CAST({column} AS json), {keys}) AS {type_})"
        return f"json_extract({column}, '$.{'.'.join(path)}')"


#: (op, definition_id): an op has the parts of its base's definition (own = 0) and of its own (own = 1).
PART = """part AS (
  SELECT o.name AS op, o.definition_id, 1 AS own, o.definition_id AS own_definition,
         b.definition_id AS base_definition, b.name AS base
  FROM op AS o LEFT JOIN base AS b ON b.id = o.base_id
  UNION ALL
  SELECT o.name, b.definition_id, 0, o.definition_id, b.definition_id, b.name
  FROM op AS o JOIN base AS b ON b.id = o.base_id)"""


def merged(table: str, key: str = "name") -> str:
    """The rows of a table by op, the base's first; an op's own row replaces the base's row with the same key."""
    return f"""
  SELECT p.op, p.own, CASE WHEN p.own = 0 THEN p.base END AS inherited, x.*,
         row_number() OVER (PARTITION BY p.op ORDER BY CASE WHEN b.id IS NULL THEN p.own ELSE 0 END,
                            COALESCE(b.position, x.position), x.id) AS place
  FROM part AS p
  JOIN {table} AS x ON x.definition_id = p.definition_id
  LEFT JOIN {table} AS b ON p.own = 1 AND b.definition_id = p.base_definition AND b.{key} = x.{key}
  WHERE p.own = 1 OR NOT EXISTS (
    SELECT 1 FROM {table} AS y WHERE y.definition_id = p.own_definition AND y.{key} = x.{key})"""
