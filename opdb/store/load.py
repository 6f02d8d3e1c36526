"""Rows -> models.  One SELECT for each table; the order comes from ``position``, never from the database."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, Row, Table, select

from opdb import schema as t
from opdb.spec.catalog import Catalog, backends_of, retired_of, socs_of
from opdb.spec.erratum import Erratum
from opdb.spec.family import FamilyDef
from opdb.spec.model import BaseDef, OpDef
from opdb.store import errata

Data = dict[str, Any]
Record = Row[Any]


def load_catalog(connection: Connection, only: str | None = None) -> Catalog:
    """The catalogue that is in the database, from its rows alone.

    ``only``: of the ops and what they are made of this one alone, and no families.
    """
    rows = _Rows(connection, few=only is not None)
    ops = [r for r in rows.all(t.op) if only in (None, r.name)]
    used = {r.base_id for r in ops}
    base_rows = [r for r in rows.all(t.base) if only is None or r.id in used]
    base_names = {r.id: r.name for r in base_rows}
    bases = {r.name: BaseDef.model_validate({"base": r.name} | rows.body(r.definition_id)) for r in base_rows}
    own = {}
    for r in ops:
        data = {"op": r.name, "package": r.package, "extends": base_names.get(r.base_id)}
        own[r.name] = OpDef.model_validate(data | rows.body(r.definition_id))
    families = {
        r.name: FamilyDef.model_validate_json(r.value) for r in (rows.all(t.family) if only is None else ())
    }
    backends = {r.name: backend_data(r) for r in _ordered(rows.all(t.backend))}
    socs = [soc_data(r) for r in _ordered(rows.all(t.soc))]
    retired: dict[str, list[Any]] = {"ops": [], "rules": []}
    for r in _ordered(rows.all(t.retired)):
        retired[r.kind].append(json.loads(r.entry))
    records = {
        r.name: Erratum.model_validate(errata.data(r, rows.of, rows.sources)) for r in rows.all(t.erratum)
    }
    return Catalog(own, bases, families, backends_of(backends), socs_of(socs),
                   retired_of(retired), records)  # fmt: skip


def backend_data(r: Record) -> Data:
    """A row of ``backend`` as the file has it."""
    return _compact(id=r.number, letter=r.letter, context=_json(r.context)) | dict(json.loads(r.more))


def soc_data(r: Record) -> Data:
    """A row of ``soc`` as the file has it."""
    return _compact(chip=r.chip, soc_model=r.soc_model, htp_arch=r.htp_arch) | dict(json.loads(r.more))


def _ordered(rows: list[Record]) -> list[Record]:
    return sorted(rows, key=lambda r: r.position)


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _compact(**fields: Any) -> Data:
    return {k: v for k, v in fields.items() if v is not None}


def _shape(row: Record) -> Any:
    return row.shape if row.dims is None else json.loads(row.dims)


class _Rows:
    """The rows of a table by their parent: all read at once, or, where only a few are needed, those of each parent."""

    def __init__(self, connection: Connection, few: bool) -> None:
        self.connection, self.few = connection, few
        self.read: dict[tuple[Table, str], dict[int, list[Record]]] = {}
        self.sources = {r.id: r.text for r in self.all(t.source)}
        self.backends = {r.id: r.name for r in self.all(t.backend)}

    def all(self, table: Table) -> list[Record]:
        return list(self.connection.execute(select(table)))

    def of(self, table: Table, parent: str, ident: int) -> list[Record]:
        """The rows of ``table`` that are parts of one row, in order."""
        if self.few:
            found = list(self.connection.execute(select(table).where(table.c[parent] == ident)))
            return _ordered(found) if "position" in table.c else found
        if (table, parent) not in self.read:
            groups: dict[int, list[Record]] = defaultdict(list)
            for row in self.all(table):
                groups[getattr(row, parent)].append(row)
            for group in groups.values():
                if "position" in table.c:
                    group.sort(key=lambda r: int(r.position))
            self.read[table, parent] = groups
        return self.read[table, parent].get(ident, [])

    def body(self, definition: int) -> Data:
        def parts(table: Table) -> list[Record]:
            return self.of(table, "definition_id", definition)

        head = self.of(t.definition, "id", definition)[0]
        tensors, rules = parts(t.op_tensor), [r for r in parts(t.op_rule) if r.kind == "written"]
        kernels = [
            _compact(
                function=r.function,
                each=_json(r.each),
                by=r.by,
                arguments=r.arguments and r.arguments.split(),
                computes=r.computes,
                scratch=r.scratch,
                dtypes=r.dtypes.split(),
            )
            for r in parts(t.kernel)
        ]
        return {
            "summary": head.summary,
            "source": self.sources.get(head.source_id),
            "inputs": {r.name: self._tensor(r) for r in tensors if not r.output},
            "params": {r.name: _compact(type=r.type, kind=r.kind, doc=r.doc) for r in parts(t.op_param)},
            "let": {r.name: r.expression for r in parts(t.op_let)},
            "outputs": {r.name: self._tensor(r) for r in tensors if r.output},
            "constraints": {r.name: self._rule(r) for r in rules if r.backend_id is None},
            "backends": {
                self.backends[r.backend_id]: self._backend(
                    r, [x for x in rules if x.backend_id == r.backend_id]
                )
                for r in parts(t.op_backend)
            },
            "torch": {r.target: self._mapping(r) for r in parts(t.torch_mapping) if r.family is None},
            "quant": {r.name: json.loads(r.value) for r in parts(t.quant_rule)},
            "kernel": kernels[0] if kernels else None,
            "tolerance": {r.dtype: {"ulp": r.ulp, "abs": r.absolute} for r in parts(t.tolerance)},
            "samples": [json.loads(r.value) for r in parts(t.sample)],
        }

    def _tensor(self, r: Record) -> Data:
        return _compact(
            shape=_shape(r),
            dtype=r.dtypes.split(),
            optional=r.optional,
            static=r.static,
            variadic=r.variadic,
            min=r.minimum,
            count=r.count,
            index=r.index_name,
            layout=r.layout,
            doc=r.doc,
        )

    def _rule(self, r: Record) -> Data:
        return _compact(when=r.guard, why=r.why, source=self.sources.get(r.source_id)) | {
            r.strength: r.expression
        }

    def _backend(self, r: Record, rules: list[Record]) -> Data:
        configs = self.of(t.type_config, "op_backend_id", r.id)
        dtypes = {
            config.name: [
                {cell.slot: cell.dtypes.split() for cell in self.of(t.type_cell, "type_row_id", row.id)}
                for row in self.of(t.type_row, "type_config_id", config.id)
            ]
            for config in configs
        }
        origins = {
            c.name: _compact(source=self.sources.get(c.source_id), since=c.since, until=c.until)
            for c in configs
            if c.source_id is not None or c.since or c.until
        }
        head = _compact(source=self.sources.get(r.source_id), since=r.since, until=r.until)
        return head | {
            "constraints": {x.name: self._rule(x) for x in rules},
            "unchecked": {
                u.rule: _compact(source=self.sources[u.source_id], since=u.since, until=u.until, why=u.why)
                for u in self.of(t.unchecked, "op_backend_id", r.id)
            },
            "dtypes": dtypes,
            "configurations": origins,
        }

    def _mapping(self, r: Record) -> Data:
        head = _compact(signature=r.signature, when=r.guard, why=r.why, source=self.sources.get(r.source_id))
        return head | self._bindings(t.torch_binding, "torch_mapping_id", r.id)

    def _bindings(self, table: Table, parent: str, ident: int) -> dict[str, dict[str, str]]:
        out: dict[str, dict[str, str]] = defaultdict(dict)
        for r in self.of(table, parent, ident):
            out[r.kind][r.name] = r.expression
        return dict(out)
