"""The catalog as one immutable value, read from SQL or about to be written to it.

Everything that generates or judges works on a ``Catalog``.  Ops are ordered by name, backends by number, SoCs as
in their file.  Two catalogs are equal if their hashes are: the hash covers every
field of every definition, in order, and nothing else (no dates, no paths, no row numbers).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from opdb.spec.backend import Backend, Need, in_order
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledErratum, CompiledOp
from opdb.spec.hashes import family_hash
from opdb.spec.model import BaseDef, OpDef, TorchMapping, resolve
from opdb.spec.soc import Soc

if TYPE_CHECKING:  # a catalog of one op needs no models of errata and families
    from pydantic import BaseModel

    from opdb.spec.errata import Known
    from opdb.spec.erratum import Erratum
    from opdb.spec.family import Candidate, Family

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Catalog:
    """A snapshot of all definitions.  ``own``: each op as in its file, before its base is merged in."""

    own: Mapping[str, OpDef]
    bases: Mapping[str, BaseDef]
    families: Mapping[str, Family]
    backends: Mapping[str, Backend]
    socs: Mapping[str, Soc]
    retired: Mapping[str, tuple[Any, ...]]  # "rules", "ops": names never to be used again
    errata: Mapping[str, Erratum] = field(default_factory=dict)  # faults in vendor libraries, by id
    #: Facts from the database it was loaded from (``opdb.catalog.store.facts``); None if it was read from files.
    facts: object | None = field(default=None, repr=False)
    ops: Mapping[str, OpDef] = field(init=False)  # with bases merged in
    # Caches:
    _compiled: dict[str, CompiledOp] = field(init=False, repr=False, default_factory=dict)
    _op_hashes: dict[str, str] = field(init=False, repr=False, default_factory=dict)
    _dumped: dict[int, Any] = field(init=False, repr=False, default_factory=dict)  # by the model's id()
    _own: dict[str, CompiledOp] = field(init=False, repr=False, default_factory=dict)
    _others: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("own", "bases", "families", "errata"):
            object.__setattr__(self, name, _ordered(getattr(self, name)))
        object.__setattr__(self, "backends", MappingProxyType(in_order(self.backends.values())))
        for name in ("socs", "retired"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(
            self, "ops", MappingProxyType({n: resolve(o, self.bases) for n, o in self.own.items()})
        )

    def __reduce__(self) -> tuple[type[Catalog], tuple[Any, ...]]:
        """Pickles the definitions for another process, without caches and facts."""
        parts = (
            self.own,
            self.bases,
            self.families,
            self.backends,
            self.socs,
            self.retired,
            self.errata,
        )
        return Catalog, tuple(dict(p) for p in parts)

    @property
    def context(self) -> dict[str, Mapping[str, str]]:
        """The names that each backend's rules may read besides the op: the second argument of ``compile_op``."""
        return {name: b.context for name, b in self.backends.items()}

    @property
    def needs(self) -> dict[str, Mapping[str, Need]]:
        """The needs of type rows, by backend and first word of the configuration, e.g. FP16."""
        return {name: b.needs for name, b in self.backends.items()}

    def compiled(self, name: str) -> CompiledOp:
        """The typed form of an op with its errata, cached.  Raises KeyError for an unknown op."""
        if name not in self._compiled:
            op = self.without_errata(name)
            found: dict[str, list[CompiledErratum]] = {}
            for erratum in self.errata_of(name):
                if erratum.conditional:
                    from opdb.spec.errata import compile_erratum

                    made = compile_erratum(op, erratum, self.known)
                    found.setdefault(erratum.backend, []).append(made)
            errata = {backend: tuple(group) for backend, group in found.items()}
            self._compiled[name] = replace(op, errata=errata)
        return self._compiled[name]

    def without_errata(self, name: str) -> CompiledOp:
        """The typed form of an op without its errata, cached."""
        if name not in self._own:
            self._own[name] = compile_op(self.ops[name], self.context, self.needs)
        return self._own[name]

    @cached_property
    def known(self) -> Known:
        """The names that erratum records may use."""
        from opdb.spec.errata import Known

        return Known(self.context, {s.chip: s.soc_model for s in self.socs.values()})

    def errata_of(self, op: str) -> tuple[Erratum, ...]:
        """The errata about one op, ordered by id."""
        return self._errata.get(op, ())

    @cached_property
    def _errata(self) -> dict[str, tuple[Erratum, ...]]:
        groups: dict[str, list[Erratum]] = {}
        for erratum in self.errata.values():
            if erratum.op is not None:
                groups.setdefault(erratum.op, []).append(erratum)
        return {op: tuple(found) for op, found in groups.items()}

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Caches a value that a caller derives from this catalog under ``key``."""
        if key not in self._others:
            self._others[key] = make()
        found: T = self._others[key]
        return found

    def whole(self) -> Catalog:
        """Returns itself; ``opdb.catalog.store.current.Snapshot`` stands in for an unloaded catalog."""
        return self

    def op_hash(self, name: str) -> str:
        """sha256 over everything that the meaning of one op depends on."""
        if name not in self._op_hashes:
            op = self.ops[name]
            used = {b: self.dumped(self.backends[b]) for b in op.backends if b in self.backends}
            mapped = [
                [target, mapping.model_dump(mode="json")] for target, mapping in self.mappings(name).items()
            ]
            errata = [self.dumped(e) for e in self.errata_of(name)]
            self._op_hashes[name] = _sha256([name, self.dumped(op), mapped, used, errata])
        return self._op_hashes[name]

    def family_hash(self, name: str) -> str:
        """sha256 over everything that the meaning of one family depends on."""
        used = {op for c in self.families[name].candidates for op in c.ops if op in self.ops}
        return family_hash(self.families[name].digest, [(op, self.op_hash(op)) for op in used])

    def dumped(self, model: BaseModel) -> Any:
        """A model of the catalog as JSON data, cached."""
        if id(model) not in self._dumped:
            self._dumped[id(model)] = model.model_dump(mode="json")
        return self._dumped[id(model)]

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates of all families, in the order of families and of their files."""
        return tuple(c for family in self.families.values() for c in family.candidates)

    @cached_property
    def _direct(self) -> dict[str, dict[str, TorchMapping]]:
        """The single-op candidates of families, by op and target."""
        found: dict[str, dict[str, TorchMapping]] = {}
        for candidate in self.candidates:
            if candidate.op is not None and isinstance(candidate.definition, TorchMapping):
                for target in candidate.torch:
                    found.setdefault(candidate.op, {}).setdefault(target, candidate.definition)
        return found

    def mappings(self, name: str) -> dict[str, TorchMapping]:
        """The torch targets that map to a single op: from its spec, then from families."""
        return {**self.ops[name].torch, **self._direct.get(name, {})}

    @cached_property
    def hash(self) -> str:
        """sha256 over all definitions."""
        return _sha256(
            {
                "ops": {n: self.dumped(o) for n, o in self.own.items()},
                "bases": {n: self.dumped(b) for n, b in self.bases.items()},
                "errata": {n: self.dumped(e) for n, e in self.errata.items()},
                "families": {n: f.digest for n, f in self.families.items()},
                "backends": [self.dumped(b) for b in self.backends.values()],
                "socs": [sorted(s.data().items()) for s in self.socs.values()],
                "retired": {k: list(v) for k, v in sorted(self.retired.items())},
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)


def socs_of(data: Sequence[Mapping[str, Any]] | None) -> dict[str, Soc]:
    """The SoCs in the data of socs.yaml."""
    return {
        e["chip"]: Soc(
            e["chip"], e.get("soc_model"), e.get("htp_arch"), _rest(e, "chip", "soc_model", "htp_arch")
        )
        for e in data or []
    }


def retired_of(data: Mapping[str, list[Any]] | None) -> dict[str, tuple[Any, ...]]:
    """The names in the data of retired.yaml."""
    return {kind: tuple((data or {}).get(kind) or ()) for kind in ("ops", "rules")}


def _rest(entry: Mapping[str, Any], *known: str) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in known or v is None}


def _ordered(items: Mapping[str, T]) -> Mapping[str, T]:
    return MappingProxyType({name: items[name] for name in sorted(items)})


def _sha256(value: Any) -> str:
    """sha256 of JSON data; the order of mappings counts."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
