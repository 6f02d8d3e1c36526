"""Reads a folder of specs and checks it as a whole: every fault of every file, with its place.

``opdb.spec.files`` (form) and ``opdb.spec.definitions`` (meaning) check single files; this module checks across files:
bases, backends, SoCs, retired names, the ops of candidates, and targets in two places.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

from opdb.core.errors import Problem, SpecError
from opdb.core.guess import did_you_mean
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.spec.definitions import CompiledOp, CompileError, Fault
from opdb.spec.document import Document
from opdb.spec.errata import compile_erratum, scope_faults
from opdb.spec.family import Family, FamilyDef, expand
from opdb.spec.files import SpecSet, gather, reread
from opdb.spec.model import QNN_PACKAGE, Body, Decomposition, Rule
from opdb.spec.paths import SIDE_FILES, spec_files, spec_name

Place = tuple[str | int, ...]


def read_catalog(
    folder: Path,
    known: Mapping[str, Any] = MappingProxyType({}),
    drafts: bool = False,
    missing: str | None = None,
    touched: Set[str] | None = None,
) -> Catalog:
    """Reads the catalog in a folder of specs and compiles every op.  Raises SpecError with all faults of all files.

    ``known``, ``drafts``: as in ``opdb.spec.files.gather``.  ``missing``: an op that candidates and errata may name
    although it has no spec yet.  ``touched``: the files added, changed, or removed since the last full check; anything
    that does not depend on them is not checked again.
    """
    specs, problems = gather(folder, known, drafts)
    check = _Check(folder, specs)
    check.problems += problems
    socs, retired = check.socs(), check.retired()
    # Ops that could not be read do not count as unknown.
    broken = {Path(p.path).stem for p in problems} | ({missing} if missing else set())
    own = {name: op for name, op in specs.own.items() if name in specs.ops}
    compiled = {f.family: f for f in known.values() if isinstance(f, Family)}
    compiled |= {name: check.expanded(family) for name, family in specs.families.items()}
    catalog = Catalog(own, specs.bases, compiled, specs.backends, socs, retired, specs.errata)
    readable = not any(p.path.startswith("backends") for p in check.problems)
    letters = {"C": "the op's own rules"}
    for name in catalog.backends:
        check.backend(catalog, name, letters)
    ops, families, errata = _to_judge(catalog, folder, touched)
    for name in ops:
        check.op(catalog, name, readable)
    for name in families:
        check.family(catalog, name, broken)
    check.one_place(catalog)
    for ident in errata:
        check.erratum(catalog, ident, broken)
    if check.problems:
        raise SpecError(sorted(set(check.problems)))
    return catalog


def _to_judge(
    catalog: Catalog, folder: Path, touched: Set[str] | None
) -> tuple[list[str], list[str], list[str]]:
    """The ops, families, and errata that the touched files can affect."""
    everywhere = {f"{name}.yaml" for name in SIDE_FILES}
    if (
        touched is None
        or touched & everywhere
        or any(path.startswith("backends/") or path not in spec_files(folder) for path in touched)
    ):
        return [*catalog.own], [*catalog.families], [*catalog.errata]

    def of(kind: str, name: str | None) -> bool:
        return name is not None and spec_name(kind, name) in touched

    ops = [name for name, op in catalog.own.items() if of("ops", name) or of("bases", op.extends)]
    errata = [i for i, e in catalog.errata.items() if of("errata", i) or e.op in ops]
    return ops, [name for name in catalog.families if of("torch", name)], errata


def _hint(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return did_you_mean(name, known, f"known: {', '.join(known)}" if 0 < len(known) <= 12 else "")


class _Check:
    def __init__(self, folder: Path, specs: SpecSet) -> None:
        self.folder, self.specs = folder, specs
        self.problems: list[Problem] = []
        self.read: dict[str, Document] = dict(specs.documents)
        self.unexpanded: dict[str, tuple[Fault, ...]] = {}  # by family

    def document(self, name: str) -> Document:
        if name not in self.read:
            self.read[name] = reread(self.folder, name)
        return self.read[name]

    def problem(self, name: str, at: Place, message: str, offset: int = 0, key: bool = False) -> None:
        document = self.document(name)
        place = (*at, "__key__") if key and (*at, "__key__") in document.places else at
        self.problems.append(document.problem(place, message, offset))

    # -- files with their own format

    def socs(self) -> dict[str, Any]:
        data, name = self.specs.socs, "socs.yaml"
        if data is None:
            return {}
        if not isinstance(data, list):
            self.problem(name, (), "expected a list; e.g. - {chip: SM8650, soc_model: 57, htp_arch: 75}")
            return {}
        good: dict[str, Any] = {}
        for i, entry in enumerate(data):
            fault = _soc_fault(entry, good)
            if fault:
                self.problem(name, (i,), fault)
            else:
                good[entry["chip"]] = entry
        return dict(socs_of(list(good.values())))

    def retired(self) -> dict[str, tuple[Any, ...]]:
        data, name = self.specs.retired, "retired.yaml"
        good: dict[str, Any] = {}
        if data is not None and not isinstance(data, dict):
            self.problem(name, (), "expected a mapping; e.g. rules: [LayerNorm.C9]")
            data = None
        for kind, entries in (data or {}).items():
            if kind not in ("rules", "ops") or not isinstance(entries, list | None):
                self.problem(name, (kind,), "expected 'rules' or 'ops', each a list of names")
            else:
                good[kind] = entries
        return retired_of(good)

    def retired_names(self, kind: str, catalog: Catalog) -> set[str]:
        """The retired names of a kind; entries are names, or mappings with a ``name``."""
        return {
            str(e.get("name", "")) if isinstance(e, dict) else str(e) for e in catalog.retired.get(kind, ())
        }

    # -- backends

    def backend(self, catalog: Catalog, name: str, letters: dict[str, str]) -> None:
        """Checks that a backend's letter and number are unique, its chips are known, and its context types are consistent."""
        backend, file = catalog.backends[name], spec_name("backends", name)
        first = letters.setdefault(backend.letter, name)
        if first != name:
            self.problem(
                file, ("letter",), f"the letter '{backend.letter}' is that of {first}; choose another"
            )
        others = [b for b in catalog.backends.values() if b.name < name]
        for other in others:
            if backend.id is not None and other.id == backend.id:
                self.problem(
                    file,
                    ("id",),
                    f"the number {backend.id} is that of {other.name}; leave it out if none is known",
                )
            for word, type_ in backend.context.items():
                if other.context.get(word, type_) != type_:
                    message = f"'{word}' is a {other.context[word]} of {other.name}; give it another name or that type"
                    self.problem(file, ("context", word), message)
        measured = backend.measured.soc if backend.measured else None
        named: list[tuple[Place, str]] = [(("chips", i), chip) for i, chip in enumerate(backend.chips)]
        for at, chip in named + ([(("measured", "soc"), measured)] if measured else []):
            if chip not in catalog.socs:
                self.problem(file, at, f"no chip '{chip}' in socs.yaml{_hint(chip, catalog.socs)}")

    # -- ops

    def op(self, catalog: Catalog, name: str, backends_known: bool) -> None:
        file = f"ops/{name}.yaml"
        own = catalog.own[name]
        if name in self.retired_names("ops", catalog):
            self.problem(
                file, ("op",), f"the name '{name}' is retired (retired.yaml) and cannot be used again"
            )
        if backends_known:
            self.names(catalog, name, file)
        try:
            catalog.without_errata(name)
        except CompileError as error:
            for fault in error.faults:
                self.fault(file, own.extends, fault)

    def fault(self, file: str, base: str | None, fault: Fault) -> None:
        """Reports a fault of the merged op in the file that has the part: the op's, or its base's."""
        part = fault.at[:2]
        if (
            base is not None
            and part not in self.document(file).places
            and part in self.document(f"bases/{base}.yaml").places
        ):
            file = f"bases/{base}.yaml"
        self.problem(file, fault.at, fault.message, fault.column)

    def names(self, catalog: Catalog, name: str, file: str) -> None:
        """Checks that backends are known, and that rule ids have their letter, are unique, and are not retired."""
        op = catalog.ops[name]
        retired = self.retired_names("rules", catalog)
        seen: dict[str, str] = {}
        for backend, prefix, rules in _rule_groups(op, catalog):
            at: Place = ("constraints",) if backend is None else ("backends", backend, "constraints")
            if backend is not None and backend not in catalog.backends:
                fault = f"no backend '{backend}' in backends/{_hint(backend, catalog.backends)}"
                self.fault(file, op.extends, Fault((*at[:2], "__key__"), fault))
                continue
            for ident in rules:
                where = backend or "the op's own rules"
                problem = None
                if not (ident.startswith(prefix) and ident[len(prefix) :].isdigit()):
                    problem = f"the rule '{ident}' of {where} must be named {prefix}1, {prefix}2, ..."
                elif ident in seen:
                    problem = f"the rule '{ident}' is also one of {seen[ident]}"
                elif f"{name}.{ident}" in retired:
                    problem = f"the id {name}.{ident} is retired (retired.yaml); give the rule a new one"
                if problem:
                    self.fault(file, op.extends, Fault((*at, ident, "__key__"), problem))
                seen[ident] = where

    # -- families

    def expanded(self, family: FamilyDef) -> Family:
        """A family that was read, with what could be expanded."""
        candidates, self.unexpanded[family.family] = expand(family, self.specs.ops)
        return Family(family.family, family.summary, candidates)

    def family(self, catalog: Catalog, name: str, broken: set[str]) -> None:
        """Checks that the variants could be expanded, names are unique per target, and ops and errata are known."""
        faults = self.unexpanded.get(name, ())
        told = tuple(f"no op '{op}' in ops/" for op in broken)  # their own faults are reported anyway
        faults = tuple(f for f in faults if not (told and f.message.startswith(told)))
        seen: dict[tuple[str, str], int] = {}
        for candidate in catalog.families[name].candidates:
            steps = candidate.definition.ops if isinstance(candidate.definition, Decomposition) else []
            used: list[tuple[Place, str]] = [(("ops", i, "op"), s.op) for i, s in enumerate(steps)]
            used += [(("torch", "", "op"), candidate.op)] if candidate.op else []
            for at, op in used:
                if op not in catalog.ops and op not in broken:
                    message = f"no op '{op}' in ops/{_hint(op, catalog.ops)}"
                    faults += (candidate.fault(Fault(at, message)),)
            for erratum in candidate.avoids:
                if erratum not in catalog.errata:
                    message = f"no erratum '{erratum}' in errata/{_hint(erratum, catalog.errata)}"
                    faults += (Fault(("candidates", candidate.entry, "avoids"), message),)
            for target in candidate.torch:
                if seen.setdefault((candidate.name, target), candidate.entry) != candidate.entry:
                    message = (
                        f"{target} has a candidate '{candidate.name}' already; give this one another name"
                    )
                    faults += (Fault(("candidates", candidate.entry), message),)
        for fault in dict.fromkeys(faults):
            self.problem(f"torch/{name}.yaml", fault.at, fault.message, fault.column)

    def one_place(self, catalog: Catalog) -> None:
        """Checks that all candidates of a target are in one file, because they are tried in file order."""
        families: dict[str, str] = {}
        for candidate in catalog.candidates:
            for target in candidate.torch:
                first = families.setdefault(target, candidate.family)
                if first != candidate.family:
                    message = f"{target} has candidates in torch/{first}.yaml; move this one there"
                    self.problem(f"torch/{candidate.family}.yaml", ("candidates", candidate.entry), message)
        ops: dict[str, str] = {}
        for name, op in catalog.ops.items():
            for target in op.torch:
                home = families.get(target) or target.split(".")[1]
                if op.package == QNN_PACKAGE:
                    message = (
                        f"the mappings of QNN's ops stand in families: move this one to torch/{home}.yaml, as a "
                        f"candidate with 'torch: [{target}]' and 'op: {name}'"
                    )
                elif target in families:
                    message = f"{target} has candidates in torch/{home}.yaml; move this mapping there"
                elif target in ops:
                    message = (
                        f"{ops[target]} maps {target} too; move both mappings to a family, a file of torch/ "
                        "with the candidates of the target in order"
                    )
                else:
                    ops[target] = name
                    continue
                self.fault(f"ops/{name}.yaml", op.extends, Fault(("torch", target, "__key__"), message))

    # -- errata

    def erratum(self, catalog: Catalog, ident: str, broken: set[str]) -> None:
        """Checks that backend and op are known, the op has the backend, and the conditions compile."""
        erratum, file = catalog.errata[ident], spec_name("errata", ident)
        backend, name = erratum.backend, erratum.op
        if backend not in catalog.backends:
            message = f"no backend '{backend}' in backends/{_hint(backend, catalog.backends)}"
            self.problem(file, ("erratum",), message)
            return
        if name in broken:
            return
        faults = scope_faults(erratum, catalog.known.socs)
        if name is not None and name not in catalog.ops:
            faults.append(Fault(("op",), f"no op '{name}' in ops/{_hint(name, catalog.ops)}"))
        elif name is not None and backend not in catalog.ops[name].backends:
            cure = f"give it one in specs/ops/{name}.yaml, or describe the fault by 'pattern' alone"
            faults.append(Fault(("op",), f"{name} has no section '{backend}'; {cure}"))
        elif name is not None and (op := _compiled(catalog, name)) is not None:
            try:
                compile_erratum(op, erratum, catalog.known)
            except CompileError as error:
                faults = error.faults
        for fault in faults:
            self.problem(file, fault.at, fault.message, fault.column)


def _compiled(catalog: Catalog, name: str) -> CompiledOp | None:
    """The op without its errata; None if its own file is faulty, which is reported only for that file."""
    try:
        return catalog.without_errata(name)
    except CompileError:
        return None


def _rule_groups(op: Body, catalog: Catalog) -> list[tuple[str | None, str, Mapping[str, Rule]]]:
    groups: list[tuple[str | None, str, Mapping[str, Rule]]] = [(None, "C", op.constraints)]
    for name, backend in op.backends.items():
        letter = catalog.backends[name].letter if name in catalog.backends else ""
        groups.append((name, letter, backend.constraints))
    return groups


def _soc_fault(entry: Any, seen: Mapping[str, Any]) -> str | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("chip"), str):
        return "expected a mapping with 'chip'; e.g. {chip: SM8650, soc_model: 57, htp_arch: 75}"
    if entry["chip"] in seen:
        return f"the chip '{entry['chip']}' is given twice"
    for name in ("soc_model", "htp_arch"):
        if entry.get(name) is not None and type(entry[name]) is not int:
            return f"'{name}' must be a number"
    for name, kind, example in (("soc_id", int, "[557]"), ("names", str, "[Snapdragon 8 Gen 3]")):
        parts = entry.get(name, [])
        if not isinstance(parts, list) or any(type(part) is not kind for part in parts):
            return f"'{name}' must be a list; e.g. {example}"
    for name in ("fp16", "bf16"):
        if type(entry.get(name, False)) is not bool:
            return f"'{name}' must be true or false"
    since = entry.get("simulated", "2.47")
    if not (isinstance(since, str) and re.fullmatch(r"\d+\.\d+", since)):
        return "'simulated' must be a version in quotes; e.g. '2.47'"
    return None
