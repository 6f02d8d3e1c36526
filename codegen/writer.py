"""Catalogue and targets -> files under generated/: plan, render, write; or compare.  The only writer of them.

A *unit* is a target for one op or family, or a target for the whole catalogue.  ``generate`` renders the units whose
inputs changed, or whose files are not what the manifest says, all into memory; only then it writes what
differs.  ``check`` does not trust the manifest: it compares every file with what rendering gives, or gave on this
machine from the same inputs (``rendered``, if it is told where that is kept).
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opdb.codegen import cache, commit, environment, formatters, manifest, pieces
from opdb.codegen.artifact import (
    Artifact,
    Definitions,
    Target,
    all_specs,
    digest,
    is_untouched,
    sorted_ops,
    with_header,
)
from opdb.codegen.cache import Made
from opdb.codegen.commit import Pending
from opdb.codegen.manifest import Entry, Manifest
from opdb.core.errors import OpdbError

FOLDER = "generated"
#: What a build leaves under generated/; dot files are the writer's own.
BUILT = ("__pycache__", ".so", ".o", ".pyc")


@dataclass(frozen=True)
class Record:
    """What SQL keeps of one artifact."""

    path: str  # with #region for a region
    target: str
    key: str  # sha256 of all that it was made from
    sha256: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One file that is not as generation makes it: ``differs``, ``missing`` or ``unexpected``."""

    name: str
    kind: str
    on_disk: str | None
    generated: str | None

    @property
    def diff(self) -> str:
        """From the file on disk to the generated text, as a unified diff."""
        old, new = ((t or "").splitlines(keepends=True) for t in (self.on_disk, self.generated))
        before = "/dev/null" if self.on_disk is None else f"{self.name} (on disk)"
        after = "/dev/null" if self.generated is None else f"{self.name} (generated)"
        return "".join(difflib.unified_diff(old, new, before, after))


class HandEdited(OpdbError):
    """Generated files that somebody changed; ``differences`` shows how."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        names = ", ".join(d.name for d in differences)
        were = "was" if len(differences) == 1 else "were"
        super().__init__(
            f"{names} {were} edited by hand; move the change into specs/ or codegen/, "
            "or overwrite with: opdb generate --force"
        )


@dataclass(frozen=True)
class Outcome:
    """What ``generate`` did.  ``records`` has every artifact of the manifest, written now or before."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    records: tuple[Record, ...]


@dataclass(frozen=True)
class _Unit:
    target: Target
    part: str | None  # an op or a family
    key: str

    @property
    def name(self) -> str:
        return f"{self.target.name}/{self.part}" if self.part else self.target.name


@dataclass(frozen=True)
class _Plan:
    texts: Mapping[str, str]  # by name, of the units that were rendered
    artifacts: Mapping[str, Artifact]
    stale: tuple[str, ...]
    manifest: Manifest


def generate(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
    force: bool = False,
    record: Callable[[Sequence[Record]], None] | None = None,
    memory: Path | None = None,
) -> Outcome:
    """Writes what differs below ``root``, removes what is no longer generated.

    ``only`` limits the targets; ``ops`` limits what is rendered for one op (what reads the whole catalogue
    is rendered too).  Order: files, ``record``, manifest.  ``memory`` is the file of ``opdb.codegen.cache``.
    Raises OpdbError (HandEdited without ``force``); then nothing was written.
    """
    with commit.lock(root):
        pending = commit.recover(root)
        old = manifest.read(root, all_specs(catalog))
        plan = _plan(catalog, root, targets, old, tuple(only), tuple(ops), memory, trust=True)
        plan = replace(plan, stale=(*plan.stale, *_orphans(plan, pending)))
        differences = _compare(root, plan)
        edited = [d for d in differences if d.on_disk is not None and not _is_ours(d, old, pending)]
        if edited and not force:
            raise HandEdited(edited)
        return _write(root, plan, old, differences, pending, all_specs(catalog), record)


def diff(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
) -> list[Difference]:
    """What ``generate`` would change; writes nothing."""
    old = manifest.read(root, all_specs(catalog))
    return _compare(root, _plan(catalog, root, targets, old, tuple(only), tuple(ops), None, trust=True))


def check(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
    memory: Path | None = None,
) -> list[Difference]:
    """Everything that differs from what generation gives now; empty when all is current.

    The manifest is not trusted.  Without ``memory``, or where it has nothing of a unit, the unit is rendered.
    """
    only, ops = tuple(only), tuple(ops)
    old = manifest.read(root, all_specs(catalog))
    plan = _plan(catalog, root, targets, old, only, ops, memory, trust=False)
    differences = _compare(root, plan)
    if not only and not ops:
        known = {*plan.manifest.files, *plan.stale}
        for path in _files(root):
            if path not in known and path != manifest.NAME:
                differences.append(Difference(path, "unexpected", _read(root, path, None), None))
    if old.files != plan.manifest.files:
        specs = all_specs(catalog)
        files = [Manifest(files=m.files).text(specs) for m in (old, plan.manifest)]
        differences.append(Difference(manifest.NAME, "differs" if old.files else "missing", *files))
    return sorted(differences, key=lambda d: d.name)


# -- planning


def _units(catalog: Definitions, targets: Sequence[Target]) -> list[_Unit]:
    """All units, with the key of what each reads."""
    side = json.dumps(list(catalog.backends))  # their order is their number in C
    units = []
    for target in targets:
        files = [hashlib.sha256(file.read_bytes()).hexdigest() for file in target.reads]
        if target.per_op is not None:
            for op in sorted_ops(catalog):
                units.append(_Unit(target, op, _key(target.name, op, catalog.op_hash(op), side, *files)))
        if target.per_family is not None:
            for name in catalog.families:
                key = _key(target.name, name, catalog.family_hash(name), side, *files)
                units.append(_Unit(target, name, key))
        if target.alone is not None:
            units.append(_Unit(target, None, _key(target.name, *files)))
        if target.whole is not None:
            units.append(_Unit(target, None, _key(target.name, catalog.hash, *files)))
    return units


def _key(*parts: str) -> str:
    return digest("\0".join(parts))[:16]


def _chosen(
    units: list[_Unit], catalog: Definitions, only: tuple[str, ...], ops: tuple[str, ...]
) -> list[_Unit]:
    names = list(dict.fromkeys(u.target.name for u in units))
    for given, known, what in ((only, names, "target"), (ops, list(catalog.ops), "op")):
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
                raise OpdbError(f"no {what} '{name}'; {hint}")
    wanted = [u for u in units if not only or u.target.name in only]
    return [u for u in wanted if not ops or u.target.per_op is None or u.part in ops]


def _plan(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    old: Manifest,
    only: tuple[str, ...],
    ops: tuple[str, ...],
    memory: Path | None,
    trust: bool,
) -> _Plan:
    """What to write; ``trust``: a unit is left out if the manifest says that nothing of it changed."""
    units = _units(catalog, targets)
    chosen = _chosen(units, catalog, only, ops)
    by_unit: dict[str, list[str]] = {}
    for name, entry in old.files.items():
        by_unit.setdefault(entry.unit, []).append(name)
    if trust:
        same_code = old.generator == manifest.generator()
        todo = [u for u in chosen if not (same_code and _fresh(root, u, old, by_unit.get(u.name, [])))]
        kept: dict[str, Entry] = {}
    else:
        todo, kept = _remembered(catalog, root, chosen, memory)
    made = _make(catalog, root, todo, [u.name for u in units], memory) if todo else _Made({}, {}, {})

    # A limited run leaves what it was not asked for, also what no unit makes any more.
    limited = bool(only or ops)
    finished = {u.name for u in (todo if trust else chosen)}
    finished |= set() if limited else set(by_unit) - {u.name for u in units}
    gone = tuple(
        n for n, e in old.files.items() if e.unit in finished and n not in made.texts and n not in kept
    )
    kept |= {n: e for n, e in old.files.items() if e.unit not in finished}
    for name in made.texts:
        if name in kept:
            raise OpdbError(f"two targets generate {name}: {kept[name].unit} and {made.owners[name]}")
    files = kept | {n: manifest.entry(made.owners[n], a, made.texts[n]) for n, a in made.artifacts.items()}
    keys = (dict(old.units) if limited else {}) | {u.name: u.key for u in chosen}
    code = old.generator if limited else manifest.generator()
    return _Plan(made.texts, made.artifacts, gone, Manifest(code, keys, files))


@dataclass(frozen=True)
class _Made:
    """Rendered and formatted artifacts, their texts and units, by name."""

    artifacts: dict[str, Artifact]
    texts: dict[str, str]
    owners: dict[str, str]


def _remembered(
    catalog: Definitions, root: Path, chosen: Sequence[_Unit], memory: Path | None
) -> tuple[list[_Unit], dict[str, Entry]]:
    """The units that must be rendered; and the artifacts of the others, which lie on disk as rendering made them."""
    known = cache.read(memory, all_specs(catalog))
    todo: list[_Unit] = []
    kept: dict[str, Entry] = {}
    for unit in chosen:
        made = known.of(unit.name, unit.key)
        if made is None or not all(_lies(root, name, m.sha256) for name, m in made.items()):
            todo.append(unit)
        else:
            kept |= {name: Entry(unit.name, m.sha256, m.inputs) for name, m in made.items()}
    return todo, kept


def _make(
    catalog: Definitions, root: Path, todo: Sequence[_Unit], units: Sequence[str], memory: Path | None
) -> _Made:
    """Renders units, formats what is not known to lie on disk as formatted, and remembers both."""
    known = cache.read(memory, all_specs(catalog))
    if memory is None:
        artifacts, owners = _render(catalog, todo)
    else:
        environment.remember_templates(memory.parent / "templates", manifest.generator())
        with pieces.remembered(pieces.Pieces(catalog, cache.tools(), known.pieces)):
            artifacts, owners = _render(catalog, todo)
    listed = list(artifacts.values())
    last = {name: made for unit in todo for name, made in (known.last(unit.name) or {}).items()}
    done = cache.formatted(listed, last, lambda a: _on_disk(root, a))
    fresh = [a for a, text in zip(listed, done, strict=True) if text is None]
    new = {
        a.name: with_header(replace(a, text=text))
        for a, text in zip(fresh, formatters.format_all(fresh), strict=True)
    }
    texts = {a.name: new[a.name] if text is None else text for a, text in zip(listed, done, strict=True)}
    for unit in todo:
        mine = [a for a in listed if owners[a.name] == unit.name]
        known.add(
            unit.name,
            unit.key,
            {a.name: Made(a.language, cache.raw_digest(a), digest(texts[a.name]), a.inputs) for a in mine},
        )
    cache.write(memory, known, units)
    return _Made(artifacts, texts, owners)


def _on_disk(root: Path, artifact: Artifact) -> str | None:
    return _read(root, artifact.path, artifact.region)


def _lies(root: Path, name: str, sha256: str) -> bool:
    """Whether an artifact lies on disk with this checksum."""
    path, _, region = name.partition("#")
    text = _read(root, path, region or None)
    return text is not None and digest(text) == sha256


def _fresh(root: Path, unit: _Unit, old: Manifest, names: list[str]) -> bool:
    """Whether the unit's inputs are those of the manifest, and so are its files."""
    if old.units.get(unit.name) != unit.key:
        return False
    return all(_lies(root, name, old.files[name].sha256) for name in names)


def _render(catalog: Definitions, units: Sequence[_Unit]) -> tuple[dict[str, Artifact], dict[str, str]]:
    artifacts: dict[str, Artifact] = {}
    owners: dict[str, str] = {}
    for unit in units:
        try:
            made = unit.target.render(catalog.whole(), unit.part)
        except OpdbError as error:
            raise OpdbError(f"{unit.name}: {error}") from error
        for artifact in made:
            if artifact.name in artifacts:
                both = f"{owners[artifact.name]} and {unit.name}"
                raise OpdbError(f"two targets generate {artifact.name}: {both}")
            artifacts[artifact.name], owners[artifact.name] = artifact, unit.name
    return artifacts, owners


def _orphans(plan: _Plan, pending: Pending) -> list[str]:
    """Files that an interrupted run may have added, and that no unit makes now."""
    known = {*plan.manifest.files, *plan.stale, manifest.NAME}
    return sorted(p for p in pending.paths if p.startswith(f"{FOLDER}/") and p not in known)


# -- comparing


def _compare(root: Path, plan: _Plan) -> list[Difference]:
    """What the rendered units and the removals would change."""
    differences = []
    for name, text in plan.texts.items():
        artifact = plan.artifacts[name]
        found = _read(root, artifact.path, artifact.region)
        if found != text:
            differences.append(Difference(name, "missing" if found is None else "differs", found, text))
    for name in plan.stale:
        path, _, region = name.partition("#")
        found = _read(root, path, None) if not region else None
        if found is not None:
            differences.append(Difference(name, "unexpected", found, None))
    return differences


def _is_ours(difference: Difference, old: Manifest, pending: Pending) -> bool:
    """Whether the text on disk is what some generation wrote."""
    text, name = difference.on_disk or "", difference.name
    untouched = is_untouched(text)
    if untouched is not None:
        return untouched
    recorded = old.files[name].sha256 if name in old.files else ""
    return not text.strip() or digest(text) == recorded or digest(text) in pending.checksums


def _read(root: Path, path: str, region: str | None) -> str | None:
    try:
        text = (root / path).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        if region is None:
            return None
        raise OpdbError(f"{path} is missing; {_markers(path, region)}") from None
    except OSError as error:
        raise OpdbError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    return text if region is None else text[slice(*_bounds(text, path, region))]


def _bounds(text: str, path: str, region: str) -> tuple[int, int]:
    """Where the region's text begins and ends: the lines between its markers."""
    first, last = f"<!-- {region} -->\n", f"<!-- /{region} -->\n"
    start, end = text.find(first), text.find(last)
    if start < 0 or end < start + len(first) or text.count(first) != 1 or text.count(last) != 1:
        raise OpdbError(_markers(path, region))
    return start + len(first), end


def _markers(path: str, region: str) -> str:
    return f"{path} needs the lines <!-- {region} --> and <!-- /{region} -->, once each and in this order"


def _files(root: Path) -> list[str]:
    """Every file under generated/ that is neither a build product nor a dot file."""
    found = []
    for file in sorted((root / FOLDER).rglob("*")):
        parts = file.relative_to(root).parts
        hidden = any(p.startswith(".") or p in BUILT for p in parts)
        if file.is_file() and not hidden and file.suffix not in BUILT:
            found.append("/".join(parts))
    return found


# -- writing


def _write(
    root: Path,
    plan: _Plan,
    old: Manifest,
    differences: Sequence[Difference],
    pending: Pending,
    specs: tuple[str, ...],
    record: Callable[[Sequence[Record]], None] | None,
) -> Outcome:
    new = plan.manifest
    records = tuple(
        Record(name, e.target, _key(new.generator, new.units[e.unit]), e.sha256, e.inputs)
        for name, e in sorted(new.files.items())
    )
    changed = [d for d in differences if d.generated is not None]
    removed = tuple(d.name for d in differences if d.generated is None)
    if changed or removed or new != old or pending.paths:
        texts = _full_texts(root, plan, changed)
        checksums = [digest(d.generated or "") for d in changed]
        commit.prepare(root, texts | {manifest.NAME: new.text(specs)}, checksums, pending)
        try:
            commit.install(root, list(texts), removed)
            if record is not None:
                record(records)
            commit.install(root, [manifest.NAME], [])
        except BaseException:
            commit.recover(root)
            raise
        commit.finish(root)
    elif record is not None:  # the database may be another one than that of the last run
        record(records)
    written = tuple(d.name for d in changed)
    return Outcome(written, removed, len(new.files) - len(written), records)


def _full_texts(root: Path, plan: _Plan, changed: Sequence[Difference]) -> dict[str, str]:
    """The whole text of each file to write; a region is put into the file that holds it."""
    texts: dict[str, str] = {}
    for d in changed:
        artifact = plan.artifacts[d.name]
        if artifact.region is None:
            texts[artifact.path] = plan.texts[d.name]
            continue
        whole = texts.get(artifact.path) or _read(root, artifact.path, None) or ""
        start, end = _bounds(whole, artifact.path, artifact.region)
        texts[artifact.path] = whole[:start] + plan.texts[d.name] + whole[end:]
    return texts
