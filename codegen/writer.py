"""Catalog and targets -> files under generated/: plans, renders, and writes or compares.  Nothing else writes there.

A *unit* is a target for one op or family, or a target for the whole catalog.  A unit is rendered unless this machine
has rendered it before from the same inputs (``memory``, a file of opdb.codegen.cache) and its files on disk are
unchanged.  Everything is rendered into memory before the differences are written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.codegen import cache, commit, environment, formatters, pieces
from opdb.codegen.artifact import Artifact, Definitions, Target, digest, is_untouched, sorted_ops, with_header
from opdb.codegen.cache import Made
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean

FOLDER = "generated"
#: Build products under generated/; dot files belong to the writer.
BUILT = ("__pycache__", ".so", ".o", ".pyc")
#: Languages without comments, whose files do not show who wrote them.
SILENT = (".csv", ".json")


@dataclass(frozen=True)
class Difference:
    """One file that does not match generation; ``kind`` is ``differs``, ``missing``, or ``unexpected``."""

    name: str
    kind: str
    on_disk: str | None
    generated: str | None

    @property
    def diff(self) -> str:
        """A unified diff from the file on disk to the generated text."""
        old, new = ((t or "").splitlines(keepends=True) for t in (self.on_disk, self.generated))
        before = "/dev/null" if self.on_disk is None else f"{self.name} (on disk)"
        after = "/dev/null" if self.generated is None else f"{self.name} (generated)"
        return "".join(difflib.unified_diff(old, new, before, after))

    @property
    def edited(self) -> bool:
        """True if the text on disk was written or edited by hand."""
        text = self.on_disk or ""
        untouched = is_untouched(text)
        silent = "#" in self.name or self.name.endswith(SILENT) or not text.strip()
        return not silent if untouched is None else not untouched

    @property
    def foreign(self) -> bool:
        """True if generation never wrote this file; ``generate`` leaves it alone."""
        return self.kind == "unexpected" and self.edited and is_untouched(self.on_disk or "") is None


class HandEdited(OpdbError):
    """Generated files were edited by hand; ``differences`` shows the edits."""

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
    """The result of ``generate``."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


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
    artifacts: Mapping[str, Artifact]  # artifacts of the rendered units, by name
    differences: Sequence[Difference]
    names: Sequence[str]  # names of all artifacts of the chosen units


def generate(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
    force: bool = False,
    memory: Path | None = None,
) -> Outcome:
    """Writes the files below ``root`` that differ, and removes files that are no longer generated.

    ``only`` limits the targets; ``ops`` limits the per-op units (units that read the whole catalog are still
    rendered).  If it raises OpdbError (HandEdited without ``force``), nothing was written.
    """
    with commit.lock(root):
        plan = _plan(catalog, root, targets, tuple(only), tuple(ops), memory)
        commit.clean(root, [name.partition("#")[0] for name in plan.names if "#" in name])
        differences = [d for d in plan.differences if not d.foreign]
        edited = [d for d in differences if d.on_disk is not None and d.edited]
        if edited and not force:
            raise HandEdited(edited)
        changed = [d for d in differences if d.generated is not None]
        removed = tuple(d.name for d in differences if d.generated is None)
        if changed or removed:
            commit.install(root, _full_texts(root, plan, changed), removed)
        return Outcome(tuple(d.name for d in changed), removed, len(plan.names) - len(changed))


def diff(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
    memory: Path | None = None,
) -> list[Difference]:
    """Lists what ``generate`` would change, without writing."""
    return [d for d in check(catalog, root, targets, only=only, ops=ops, memory=memory) if not d.foreign]


def check(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    *,
    only: Iterable[str] = (),
    ops: Iterable[str] = (),
    memory: Path | None = None,
) -> list[Difference]:
    """Lists everything that differs from current generation; empty if all is current.

    Includes files under generated/ that no unit renders.
    """
    found = _plan(catalog, root, targets, tuple(only), tuple(ops), memory).differences
    return sorted(found, key=lambda d: d.name)


# -- planning


def _units(catalog: Definitions, targets: Sequence[Target]) -> list[_Unit]:
    """All units, each with the key of its inputs."""
    side = json.dumps(list(catalog.backends))  # their order determines their numbers in C
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
                hint = did_you_mean(name, known, f"known: {', '.join(known)}")
                raise OpdbError(f"no {what} '{name}'{hint}")
    wanted = [u for u in units if not only or u.target.name in only]
    return [u for u in wanted if not ops or u.target.per_op is None or u.part in ops]


def _plan(
    catalog: Definitions,
    root: Path,
    targets: Sequence[Target],
    only: tuple[str, ...],
    ops: tuple[str, ...],
    memory: Path | None,
) -> _Plan:
    """Renders the chosen units that are not known to be current on disk, and compares."""
    units = _units(catalog, targets)
    chosen = _chosen(units, catalog, only, ops)
    known = cache.read(memory)
    owners: dict[str, str] = {}  # the unit of each artifact
    todo: list[_Unit] = []
    before: dict[str, Made] = {}  # the last artifacts of the units to render
    for unit in chosen:
        made = known.of(unit.name, unit.key)
        if made is None or not all(_lies(root, name, m.sha256) for name, m in made.items()):
            todo.append(unit)
            before |= known.last(unit.name) or {}
        else:
            owners |= dict.fromkeys(made, unit.name)
    artifacts: dict[str, Artifact] = {}
    texts: dict[str, str] = {}
    if todo:
        if memory is not None:
            environment.remember_templates(memory.parent / "templates", cache.generator())
        with pieces.remembered(pieces.Pieces(catalog, cache.tools(), known.pieces)):
            artifacts = _render(catalog, todo, owners)
        texts = _formatted(root, list(artifacts.values()), before)
        for unit in todo:
            mine = {
                n: Made(cache.raw_digest(a), digest(texts[n]))
                for n, a in artifacts.items()
                if owners[n] == unit.name
            }
            known.add(unit.name, unit.key, mine)
        cache.write(memory, known, [u.name for u in units])
    differences = _compare(root, artifacts, texts)
    # A limited run leaves everything else alone, even files that no unit generates anymore.
    stale = before if only or ops else _files(root)
    for name in stale:
        found = None if name in owners or "#" in name else _read(root, name, None)
        if found is not None:
            differences.append(Difference(name, "unexpected", found, None))
    return _Plan(artifacts, differences, list(owners))


def _render(catalog: Definitions, units: Sequence[_Unit], owners: dict[str, str]) -> dict[str, Artifact]:
    """The unformatted artifacts of ``units`` by name; records the unit of each in ``owners``."""
    artifacts: dict[str, Artifact] = {}
    for unit in units:
        try:
            made = unit.target.render(catalog.whole(), unit.part)
        except OpdbError as error:
            raise OpdbError(f"{unit.name}: {error}") from error
        for artifact in made:
            if artifact.name in owners:
                both = f"{owners[artifact.name]} and {unit.name}"
                raise OpdbError(f"two targets generate {artifact.name}: {both}")
            artifacts[artifact.name], owners[artifact.name] = artifact, unit.name
    return artifacts


def _formatted(root: Path, artifacts: Sequence[Artifact], before: Mapping[str, Made]) -> dict[str, str]:
    """The formatted texts by name; reuses files on disk that are unchanged since they were last formatted."""
    texts: dict[str, str] = {}
    for a in artifacts:
        made = before.get(a.name)
        if made is not None and made.raw == cache.raw_digest(a):
            text = _read(root, a.path, a.region)
            if text is not None and digest(text) == made.sha256:
                texts[a.name] = text
    fresh = [a for a in artifacts if a.name not in texts]
    for a, text in zip(fresh, formatters.format_all(fresh), strict=True):
        texts[a.name] = with_header(a, text)
    return texts


def _lies(root: Path, name: str, sha256: str) -> bool:
    """True if an artifact is on disk with this checksum."""
    path, _, region = name.partition("#")
    text = _read(root, path, region or None)
    return text is not None and digest(text) == sha256


# -- comparing


def _compare(root: Path, artifacts: Mapping[str, Artifact], texts: Mapping[str, str]) -> list[Difference]:
    """The differences of the rendered units."""
    differences = []
    for name, artifact in artifacts.items():
        found = _read(root, artifact.path, artifact.region)
        if found != texts[name]:
            kind = "missing" if found is None else "differs"
            differences.append(Difference(name, kind, found, texts[name]))
    return differences


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
    """The start and end offsets of a region's text, i.e. the lines between its markers."""
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
    for folder, folders, files in os.walk(root / FOLDER):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in BUILT]
        place = Path(folder).relative_to(root).as_posix()
        found += [f"{place}/{f}" for f in files if not f.startswith(".") and not f.endswith(BUILT)]
    return sorted(found)


def _full_texts(root: Path, plan: _Plan, changed: Sequence[Difference]) -> dict[str, str]:
    """The complete text of each file to write; a region is inserted into its file."""
    texts: dict[str, str] = {}
    for d in changed:
        artifact = plan.artifacts[d.name]
        if artifact.region is None:
            texts[artifact.path] = d.generated or ""
            continue
        whole = texts.get(artifact.path) or _read(root, artifact.path, None) or ""
        start, end = _bounds(whole, artifact.path, artifact.region)
        texts[artifact.path] = whole[:start] + (d.generated or "") + whole[end:]
    return texts
