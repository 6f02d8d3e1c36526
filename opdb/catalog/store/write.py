"""Models -> rows.  A ``Rows`` collects the rows of many definitions, then inserts them table by table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opdb.catalog.schema.names import BINDING_KINDS, FEATURES, TABLES
from opdb.catalog.store.chip_classes import class_of
from opdb.catalog.store.reader import Writer
from opdb.spec.backend import Backend
from opdb.spec.definitions import CompiledOp, CompiledRule
from opdb.spec.hashes import to_json
from opdb.spec.lang.printer import to_text
from opdb.spec.model import (
    BaseDef,
    Body,
    Configuration,
    KernelDef,
    OpDef,
    Rule,
    Step,
    TensorDef,
    TorchMapping,
)
from opdb.spec.soc import Soc, libraries_in_words

#: Fields of a backend with a column; the others are in ``more``.
IN_COLUMNS = ("backend", "id", "letter", "context", "about")


class Rows:
    """Rows to insert in one transaction; assigns the ids itself because definitions have one writer at a time."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in TABLES}
        self.next: dict[str, int] = {}
        self.sources = {r["text"]: int(r["id"]) for r in writer.rows("SELECT id, text FROM source")}
        self.backends = {r["name"]: int(r["id"]) for r in writer.rows("SELECT id, name FROM backend")}
        self.bases = {r["name"]: int(r["id"]) for r in writer.rows("SELECT id, name FROM base")}
        self.classes = {r["name"]: int(r["id"]) for r in writer.rows("SELECT id, name FROM chip_class")}
        of_chips = writer.rows(
            "SELECT s.chip, c.name FROM soc AS s JOIN chip_class AS c ON c.id = s.chip_class_id"
        )
        self.class_of = {r["chip"]: r["name"] for r in of_chips}

    def add(self, table: str, **row: Any) -> int:
        if table not in self.next:
            self.next[table] = (self.writer.value(f"SELECT max(id) FROM {table}") or 0) + 1
        ident = self.next[table]
        self.next[table] += 1
        self.rows[table].append({"id": ident, **row})
        return ident

    def flush(self) -> None:
        for table, rows in self.rows.items():
            self.writer.insert(table, rows)
            rows.clear()

    def source(self, text: str | None) -> int | None:
        """The id of a source ``document@version#locator``, or ``probe RUN``; None without text."""
        if text is None:
            return None
        if text not in self.sources:
            head, _, locator = text.partition("#")
            document, _, version = head.partition("@")
            if text.startswith("probe"):
                document, version, locator = "probe", "", text.removeprefix("probe").strip()
            self.sources[text] = self.add(
                "source", text=text, document=document, version=version or None, locator=locator or None
            )
        return self.sources[text]

    # -- files with their own format

    def add_backends(self, backends: Iterable[Backend]) -> None:
        for position, backend in enumerate(backends):
            self.backends[backend.name] = self.add(
                "backend",
                position=position,
                name=backend.name,
                number=backend.id,
                letter=backend.letter,
                context=to_json(backend.context) if backend.context else None,
                about=backend.about,
                library=backend.library.file if backend.library else None,
                asked=int(backend.asked),
                more=to_json(
                    {k: v for k, v in backend.model_dump(mode="json").items() if k not in IN_COLUMNS}
                ),
            )
            for place, chip in enumerate(backend.chips):
                self.add("backend_chip", backend_id=self.backends[backend.name], position=place, chip=chip)
            for place, (word, need) in enumerate(backend.needs.items()):
                self.add(
                    "backend_need",
                    backend_id=self.backends[backend.name],
                    position=place,
                    word=word,
                    feature=backend.feature(need),
                )

    def add_socs(self, socs: Iterable[Soc], models: bool) -> None:
        """Adds chips and their classes; ``models``: as in ``opdb.catalog.store.chip_classes.class_of``."""
        self.classes[""] = self.add("chip_class", name="", htp_arch=None, **dict.fromkeys(FEATURES, 0))
        for position, soc in enumerate(socs):
            kind = class_of(soc, models)
            name = self.class_of[soc.chip] = kind["name"]
            if name not in self.classes:
                self.classes[name] = self.add("chip_class", **kind)
            ident = self.add(
                "soc",
                position=position,
                chip=soc.chip,
                chip_class_id=self.classes[name],
                soc_model=soc.soc_model,
                htp_arch=soc.htp_arch,
                fp16=int(soc.more.get("fp16", False)),
                bf16=int(soc.more.get("bf16", False)),
                soc_ids=" ".join(map(str, soc.more.get("soc_id", ()))) or None,
                libraries=libraries_in_words(soc.more.get("libraries")) or None,
                more=to_json(dict(soc.more)),
            )
            for place, name in enumerate(soc.more.get("names", ())):
                self.add("soc_name", soc_id=ident, position=place, name=name)

    def add_retired(self, retired: Mapping[str, Iterable[Any]]) -> None:
        for kind, entries in retired.items():
            for position, entry in enumerate(entries):
                self.add("retired", kind=kind, position=position, entry=to_json(entry))

    # -- definitions

    def add_base(self, base: BaseDef) -> None:
        definition = self._body(base, "base")
        self.bases[base.base] = self.add("base", definition_id=definition, name=base.base)

    def add_op(self, own: OpDef, digest: str) -> int:
        """Adds an op as its file states it; its base must be added first.  Returns the id of the definition."""
        definition = self._body(own, "op")
        self.add(
            "op",
            definition_id=definition,
            name=own.op,
            package=own.package,
            base_id=self.bases[own.extends] if own.extends else None,
            hash=digest,
        )
        return definition

    def _body(self, body: Body, kind: str) -> int:
        definition = self.add(
            "definition", kind=kind, summary=body.summary, source_id=self.source(body.source)
        )
        for output, slots in ((False, body.inputs), (True, body.outputs)):
            for position, (name, tensor) in enumerate(slots.items()):
                self._tensor(definition, output, position, name, tensor)
        self._params(definition, body)
        for position, (name, expression) in enumerate(body.let.items()):
            self.add("op_let", definition_id=definition, position=position, name=name, expression=expression)
        self._written(definition, None, body.constraints)
        for position, name in enumerate(body.backends):
            self._backend(definition, position, name, body)
        for position, (target, mapping) in enumerate(body.torch.items()):
            self._mapping(definition, position, target, mapping)
        for position, (name, value) in enumerate(body.quant.items()):
            self.add(
                "quant_rule", definition_id=definition, position=position, name=name, value=to_json(value)
            )
        if body.kernel is not None:
            self._kernel(definition, body.kernel)
        for position, (dtype, tol) in enumerate(body.tolerance.items()):
            self.add(
                "tolerance",
                definition_id=definition,
                position=position,
                dtype=dtype,
                ulp=tol.ulp,
                absolute=tol.abs,
            )
        for position, sample in enumerate(body.samples):
            self.add("sample", definition_id=definition, position=position, value=to_json(sample))
        return definition

    def _tensor(self, definition: int, output: bool, position: int, name: str, tensor: TensorDef) -> None:
        self.add(
            "op_tensor",
            definition_id=definition,
            output=output,
            position=position,
            name=name,
            **shape_columns(tensor.shape),
            dtypes=" ".join(tensor.dtype),
            optional=tensor.optional,
            static=tensor.static,
            variadic=tensor.variadic,
            minimum=tensor.min,
            count=tensor.count,
            index_name=tensor.index,
            layout=tensor.layout,
            doc=tensor.doc,
        )

    def _params(self, definition: int, body: Body) -> None:
        for position, (name, param) in enumerate(body.params.items()):
            ident = self.add(
                "op_param",
                definition_id=definition,
                position=position,
                name=name,
                type=param.type,
                dtype=param.base,
                dims="".join(f"[{'' if d is None else d}]" for d in param.dims),
                optional=param.optional,
                default_value=param.default,
                kind=param.kind,
                doc=param.doc,
            )
            for place, (label, value) in enumerate(param.enum.items()):
                self.add("op_enum", op_param_id=ident, position=place, name=label, value=value)

    def _written(self, definition: int, backend: str | None, rules: Mapping[str, Rule]) -> None:
        for position, (name, rule) in enumerate(rules.items()):
            self.add(
                "op_rule",
                definition_id=definition,
                backend_id=None if backend is None else self.backends[backend],
                position=position,
                name=name,
                kind="written",
                strength=rule.strength,
                guard=rule.when,
                expression=rule.expression,
                why=rule.why,
                source_id=self.source(rule.source),
            )

    def _backend(self, definition: int, position: int, name: str, body: Body) -> None:
        backend = body.backends[name]
        ident = self.add(
            "op_backend",
            definition_id=definition,
            backend_id=self.backends[name],
            position=position,
            source_id=self.source(backend.source),
            since=backend.since,
            until=backend.until,
        )
        self._written(definition, name, backend.constraints)
        for place, (rule, entry) in enumerate(backend.unchecked.items()):
            self.add(
                "unchecked",
                op_backend_id=ident,
                position=place,
                rule=rule,
                source_id=self.source(entry.source),
                since=entry.since,
                until=entry.until,
                why=entry.why,
            )
        for place, (label, rows) in enumerate(backend.dtypes.items()):
            origin = backend.configurations.get(label, Configuration())
            config = self.add(
                "type_config",
                op_backend_id=ident,
                position=place,
                name=label,
                source_id=self.source(origin.source),
                since=origin.since,
                until=origin.until,
            )
            for number, cells in enumerate(rows):
                row = self.add(
                    "type_row", type_config_id=config, position=number, name=f"{name}.{label}.{number + 1}"
                )
                pairs = [(slot, dtype) for slot, dtypes in cells.items() for dtype in dtypes]
                for column, (slot, dtype) in enumerate(pairs):
                    self.add("type_cell", type_row_id=row, position=column, slot=slot, dtype=dtype)

    def _kernel(self, definition: int, kernel: KernelDef) -> None:
        ident = self.add(
            "kernel",
            definition_id=definition,
            function=kernel.function,
            each=None if kernel.each is None else to_json(kernel.each),
            by=kernel.by,
            arguments=" ".join(kernel.arguments) if kernel.arguments else None,
            computes=kernel.computes,
            scratch=kernel.scratch,
            tiling=None if kernel.tiling is None else to_json(kernel.tiling.model_dump()),
        )
        for position, dtype in enumerate(kernel.dtypes):
            self.add("kernel_dtype", kernel_id=ident, position=position, dtype=dtype)

    def _mapping(self, definition: int, position: int, target: str, mapping: TorchMapping) -> None:
        ident = self.add(
            "torch_mapping",
            definition_id=definition,
            position=position,
            target=target,
            guard=mapping.when,
            why=mapping.why,
            source_id=self.source(mapping.source),
            signature=mapping.signature,
        )
        self.add_bindings("torch_binding", {"torch_mapping_id": ident}, mapping, BINDING_KINDS)

    def add_bindings(
        self, table: str, parent: dict[str, int], of: TorchMapping | Step, kinds: tuple[str, ...]
    ) -> None:
        """The expressions of a mapping or a step, by kind."""
        for kind in kinds:
            for position, (name, expression) in enumerate(getattr(of, kind).items()):
                self.add(table, **parent, kind=kind, position=position, name=name, expression=expression)

    def add_derived(self, definition: int, compiled: CompiledOp) -> None:
        """Adds the derived rules, so that every rule id in a verdict has a row."""

        def rule(
            position: int, kind: str, name: str, backend: str | None = None, of: CompiledRule | None = None
        ) -> None:
            self.add(
                "op_rule",
                definition_id=definition,
                backend_id=None if backend is None else self.backends[backend],
                position=position,
                name=name,
                kind=kind,
                strength="require",
                guard=None if of is None or of.when is None else to_text(of.when),
                expression="" if of is None else to_text(of.require),
                why=None,
                source_id=None,
            )

        for position, name in enumerate(compiled.signature):
            rule(position, "signature", name)
        for position, each in enumerate(compiled.ranks):
            rule(position, "rank", each.id, of=each)
        for position, each in enumerate(
            r for r in compiled.rules if r.id not in compiled.definition.constraints
        ):
            rule(position, "derived", each.id, of=each)
        for backend, rows in compiled.type_rows.items():
            if rows:
                rule(0, "types", f"TYPES_{backend}", backend)


def shape_columns(shape: list[str] | str | None) -> dict[str, str | None]:
    return {
        "dims": to_json(shape) if isinstance(shape, list) else None,
        "shape": shape if isinstance(shape, str) else None,
    }
