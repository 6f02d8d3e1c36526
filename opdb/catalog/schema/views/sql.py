"""What the SQL of the views is made of: the few words in which SQLite and PostgreSQL differ, and shared parts."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands before the name of a list of values, in place of the colon.
VALUES = "@"


@dataclass(frozen=True)
class Dialect:
    """The SQL on which SQLite and PostgreSQL differ."""

    postgres: bool
    #: The columns that the reader gives values for; a database does not carry a condition into groups of groups.
    narrowed: tuple[str, ...] = ()

    def only(self, alias: str, **places: str) -> str:
        """The conditions on a table with columns of the narrowed names, or with others in their ``places``."""
        said = {name: places.get(name, f"{alias}.{name}") for name in self.narrowed}
        return "".join(f" AND {place} IN {VALUES}{name}" for name, place in said.items())

    def joined(self, text: str, separator: str, rows: str, order: str) -> str:
        """The texts of ``rows`` (FROM ... WHERE ...) in order, joined; NULL for none.  A scalar subquery."""
        function = "string_agg" if self.postgres else "group_concat"
        inner = f"SELECT {text} AS piece FROM {rows} ORDER BY {order}"
        return f"(SELECT {function}(pieces.piece, '{separator}') FROM ({inner}) AS pieces)"

    def version(self, sdk: str) -> str:
        """An SDK as a number: 2.47.1 -> 2047001; what is not a number counts as 0."""
        if self.postgres:
            parts = [f"substring(split_part({sdk}, '.', {i}) from '^[0-9]+')" for i in (1, 2, 3)]
            major, minor, patch = (f"CAST(COALESCE(LEFT({p}, 3), '0') AS INTEGER)" for p in parts)
        else:
            rest = f"substr({sdk}, instr({sdk}, '.') + 1)"
            last = f"substr({rest}, instr({rest}, '.') + 1)"
            major = f"CAST({sdk} AS INTEGER)"
            minor = f"CASE WHEN instr({sdk}, '.') > 0 THEN CAST({rest} AS INTEGER) ELSE 0 END"
            patch = f"CASE WHEN {sdk} LIKE '%.%.%' THEN CAST({last} AS INTEGER) ELSE 0 END"
        return f"({major} * 1000000 + {minor} * 1000 + {patch})"


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
