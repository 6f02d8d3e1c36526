"""Rows -> models.  One SELECT per table; ``position`` determines the order, never the database."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from opdb.catalog.schema.views import VALUES
from opdb.catalog.store.reader import Reader
from opdb.catalog.store.reader import Row as Record
from opdb.spec.backend import Backend
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.spec.model import BaseDef, OpDef

if TYPE_CHECKING:  # imported only when needed
    from opdb.spec.erratum import Erratum
    from opdb.spec.family import Family

Data = dict[str, Any]


def load_catalog(
    reader: Reader, op: str | None = None, erratum: str | None = None, facts: object | None = None
) -> Catalog:
    """Loads the catalog from the database.

    ``op``: load only this op, its base, and its errata, and no families.  ``erratum``: load only this erratum and its
    op.  ``facts``: passed on to the catalog.
    """
    whole = op is None and erratum is None
    rows = _Rows(reader, few=not whole)
    found_errata = (
        rows.all("erratum")
        if whole
        else rows.which("erratum", *(("name", erratum) if erratum else ("op", op)))
    )
    if erratum is not None and found_errata:
        op = found_errata[0]["op"]
    ops = rows.all("op") if whole else rows.which("op", "name", op)
    used = {r["base_id"] for r in ops}
    base_rows = [r for r in rows.all("base") if whole or r["id"] in used]
    base_names = {r["id"]: r["name"] for r in base_rows}
    bases = {
        r["name"]: BaseDef.model_validate({"base": r["name"]} | rows.body(r["definition_id"]))
        for r in base_rows
    }
    own = {}
    for r in ops:
        data = {"op": r["name"], "package": r["package"], "extends": base_names.get(r["base_id"])}
        own[r["name"]] = OpDef.model_validate(data | rows.body(r["definition_id"]))
    backends = {r["name"]: backend_of(r) for r in _ordered(rows.all("backend"))}
    socs = [soc_data(r) for r in _ordered(rows.all("soc"))]
    retired: dict[str, list[Any]] = {"ops": [], "rules": []}
    for r in _ordered(rows.all("retired")):
        retired[r["kind"]].append(json.loads(r["entry"]))
    return Catalog(own, bases, _families(rows) if whole else {}, backends, socs_of(socs),
                   retired_of(retired), _errata(rows, found_errata), facts)  # fmt: skip


def _families(rows: _Rows) -> dict[str, Family]:
    from opdb.catalog.store.family_rows import load_families

    return load_families(rows.reader, rows.sources)


def _errata(rows: _Rows, found: list[Record]) -> dict[str, Erratum]:
    if not found:
        return {}
    from opdb.catalog.store.erratum_rows import data
    from opdb.spec.erratum import Erratum

    return {r["name"]: Erratum.model_validate(data(r, rows.of, rows.sources)) for r in found}


def backend_of(r: Record) -> Backend:
    """The backend in a row of ``backend``."""
    columns = _compact(
        backend=r["name"], id=r["number"], letter=r["letter"], context=_json(r["context"]), about=r["about"]
    )
    return Backend.model_validate(columns | dict(json.loads(r["more"])))


def soc_data(r: Record) -> Data:
    """A row of ``soc`` in the format of the file."""
    return _compact(chip=r["chip"], soc_model=r["soc_model"], htp_arch=r["htp_arch"]) | dict(
        json.loads(r["more"])
    )


def _ordered(rows: list[Record]) -> list[Record]:
    return sorted(rows, key=lambda r: r["position"])


def _in_order(rows: list[Record]) -> list[Record]:
    return _ordered(rows) if rows and "position" in rows[0].keys() else rows  # noqa: SIM118 (no mapping of SQLite's)


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _compact(**fields: Any) -> Data:
    return {k: v for k, v in fields.items() if v is not None}


def _shape(row: Record) -> Any:
    return row["shape"] if row["dims"] is None else json.loads(row["dims"])


class _Rows:
    """The rows of tables by parent, read a table at once, or per parent if only ``few`` are needed."""

    def __init__(self, reader: Reader, few: bool) -> None:
        self.reader, self.few = reader, few
        self.read: dict[tuple[str, str], dict[int, list[Record]]] = {}
        self.sources = {r["id"]: r["text"] for r in self.all("source")}
        self.backends = {r["id"]: r["name"] for r in self.all("backend")}

    def all(self, table: str) -> list[Record]:
        return list(self.reader.rows(f"SELECT * FROM {table}"))

    def which(self, table: str, column: str, value: str | int | None) -> list[Record]:
        return list(self.reader.rows(f"SELECT * FROM {table} WHERE {column} = {VALUES}value", value=value))

    def of(self, table: str, parent: str, ident: int) -> list[Record]:
        """The rows of ``table`` that belong to one parent row, in order."""
        if self.few:
            return _in_order(self.which(table, parent, ident))
        if (table, parent) not in self.read:
            groups: dict[int, list[Record]] = defaultdict(list)
            for row in _in_order(self.all(table)):
                groups[row[parent]].append(row)
            self.read[table, parent] = groups
        return self.read[table, parent].get(ident, [])

    def body(self, definition: int) -> Data:
        def parts(table: str) -> list[Record]:
            return self.of(table, "definition_id", definition)

        head = self.of("definition", "id", definition)[0]
        tensors, rules = parts("op_tensor"), [r for r in parts("op_rule") if r["kind"] == "written"]
        kernels = [
            _compact(
                function=r["function"],
                each=_json(r["each"]),
                by=r["by"],
                arguments=r["arguments"] and r["arguments"].split(),
                computes=r["computes"],
                scratch=r["scratch"],
                tiling=_json(r["tiling"]),
                dtypes=[d["dtype"] for d in self.of("kernel_dtype", "kernel_id", r["id"])],
            )
            for r in parts("kernel")
        ]
        return {
            "summary": head["summary"],
            "source": self.sources.get(head["source_id"]),
            "inputs": {r["name"]: self._tensor(r) for r in tensors if not r["output"]},
            "params": {
                r["name"]: _compact(type=r["type"], kind=r["kind"], doc=r["doc"]) for r in parts("op_param")
            },
            "let": {r["name"]: r["expression"] for r in parts("op_let")},
            "outputs": {r["name"]: self._tensor(r) for r in tensors if r["output"]},
            "constraints": {r["name"]: self._rule(r) for r in rules if r["backend_id"] is None},
            "backends": {
                self.backends[r["backend_id"]]: self._backend(
                    r, [x for x in rules if x["backend_id"] == r["backend_id"]]
                )
                for r in parts("op_backend")
            },
            "torch": {r["target"]: self._mapping(r) for r in parts("torch_mapping")},
            "quant": {r["name"]: json.loads(r["value"]) for r in parts("quant_rule")},
            "kernel": kernels[0] if kernels else None,
            "tolerance": {r["dtype"]: {"ulp": r["ulp"], "abs": r["absolute"]} for r in parts("tolerance")},
            "samples": [json.loads(r["value"]) for r in parts("sample")],
        }

    def _tensor(self, r: Record) -> Data:
        return _compact(
            shape=_shape(r),
            dtype=r["dtypes"].split(),
            optional=bool(r["optional"]),
            static=bool(r["static"]),
            variadic=bool(r["variadic"]),
            min=r["minimum"],
            count=r["count"],
            index=r["index_name"],
            layout=r["layout"],
            doc=r["doc"],
        )

    def _rule(self, r: Record) -> Data:
        return _compact(when=r["guard"], why=r["why"], source=self.sources.get(r["source_id"])) | {
            r["strength"]: r["expression"]
        }

    def _backend(self, r: Record, rules: list[Record]) -> Data:
        configs = self.of("type_config", "op_backend_id", r["id"])
        dtypes = {
            config["name"]: [
                self._cells(row["id"]) for row in self.of("type_row", "type_config_id", config["id"])
            ]
            for config in configs
        }
        origins = {
            c["name"]: _compact(source=self.sources.get(c["source_id"]), since=c["since"], until=c["until"])
            for c in configs
            if c["source_id"] is not None or c["since"] or c["until"]
        }
        head = _compact(source=self.sources.get(r["source_id"]), since=r["since"], until=r["until"])
        return head | {
            "constraints": {x["name"]: self._rule(x) for x in rules},
            "unchecked": {
                u["rule"]: _compact(
                    source=self.sources[u["source_id"]], since=u["since"], until=u["until"], why=u["why"]
                )
                for u in self.of("unchecked", "op_backend_id", r["id"])
            },
            "dtypes": dtypes,
            "configurations": origins,
        }

    def _cells(self, row: int) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for cell in self.of("type_cell", "type_row_id", row):
            found.setdefault(cell["slot"], []).append(cell["dtype"])
        return found

    def _mapping(self, r: Record) -> Data:
        head = _compact(
            signature=r["signature"], when=r["guard"], why=r["why"], source=self.sources.get(r["source_id"])
        )
        return head | self._bindings("torch_binding", "torch_mapping_id", r["id"])

    def _bindings(self, table: str, parent: str, ident: int) -> dict[str, dict[str, str]]:
        out: dict[str, dict[str, str]] = defaultdict(dict)
        for r in self.of(table, parent, ident):
            out[r["kind"]][r["name"]] = r["expression"]
        return dict(out)
