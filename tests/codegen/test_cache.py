"""The cache of renderings, and that it hides no change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from opdb.codegen import cache, formatters
from opdb.codegen.artifact import Artifact, Target
from opdb.codegen.targets import TARGETS
from opdb.codegen.writer import check, generate
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
Files = Callable[[Mapping[str, str]], Target]
A = {"docs/a.md": "A\n", "python/a.py": "a = 1\n", "tables/a.csv": "a,b\n"}


@pytest.fixture
def memory(tree: Path) -> Path:
    return tree / "build" / "rendered.json"


def names(catalog: Catalog, tree: Path, targets: tuple[Target, ...], memory: Path | None) -> list[str]:
    return [d.name for d in check(catalog, tree, targets, memory=memory)]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("nothing is rendered or formatted")


def with_summary(catalog: Catalog, text: str) -> Catalog:
    own = {**catalog.own, "Relu": catalog.own["Relu"].model_copy(update={"summary": text})}
    return Catalog(own, catalog.bases, catalog.families, catalog.backends, catalog.socs, catalog.retired)


def test_a_second_check_renders_nothing(
    mini: Catalog, tree: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(mini, tree, TARGETS)  # without a memory: as on another machine
    assert names(mini, tree, TARGETS, memory) == []
    monkeypatch.setattr(Target, "render", refuse)
    assert names(mini, tree, TARGETS, memory) == []
    with pytest.raises(AssertionError):  # without a memory everything is
        check(mini, tree, TARGETS)


def test_a_hand_edit_and_a_missing_file_are_found(mini: Catalog, tree: Path, memory: Path) -> None:
    generate(mini, tree, TARGETS, memory=memory)
    assert names(mini, tree, TARGETS, memory) == []
    page, module = tree / "generated/docs/ops/Relu.md", tree / "generated/python/validators/concat.py"
    page.write_text(page.read_text() + "mine\n")
    module.unlink()
    (tree / "generated/docs/ops/Mine.md").write_text("mine\n")
    expected = [
        "generated/docs/ops/Mine.md",
        "generated/docs/ops/Relu.md",
        "generated/python/validators/concat.py",
    ]
    assert names(mini, tree, TARGETS, memory) == names(mini, tree, TARGETS, None) == expected


def test_a_changed_spec_is_found(mini: Catalog, tree: Path, memory: Path) -> None:
    generate(mini, tree, TARGETS, memory=memory)
    changed = with_summary(mini, "Another summary.")
    stale = names(changed, tree, TARGETS, memory)
    assert "generated/docs/ops/Relu.md" in stale and stale == names(changed, tree, TARGETS, None)
    written = generate(changed, tree, TARGETS, memory=memory).written
    assert set(written) == set(stale)
    assert names(changed, tree, TARGETS, memory) == names(changed, tree, TARGETS, None) == []
    # and back: entries of the old spec do no harm
    assert "generated/docs/ops/Relu.md" in names(mini, tree, TARGETS, memory)
    assert set(generate(mini, tree, TARGETS, memory=memory).written) == set(written)
    assert names(mini, tree, TARGETS, memory) == names(mini, tree, TARGETS, None) == []


def test_a_changed_template_is_found(
    mini: Catalog, tree: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code or templates make another generator: everything is rendered again from the same specs."""
    template = {"text": "A\n"}
    page = "generated/docs/a.md"
    targets = (
        Target("page", "", whole=lambda _: [Artifact(page, template["text"], ("specs/a.yaml",), "markdown")]),
    )
    generate(mini, tree, targets, memory=memory)
    template["text"] = "B\n"
    monkeypatch.setattr(cache, "generator", lambda: "another")
    cache.tools.cache_clear()
    try:
        assert names(mini, tree, targets, memory) == [page]
        assert generate(mini, tree, targets, memory=memory).written == (page,)
        assert names(mini, tree, targets, memory) == []
    finally:
        cache.tools.cache_clear()


def test_formatted_texts_are_not_formatted_again(
    mini: Catalog, tree: Path, memory: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(mini, tree, [files(A)], memory=memory)
    monkeypatch.setattr(cache, "generator", lambda: "another")  # everything is rendered again
    cache.tools.cache_clear()
    seen: list[str] = []
    real = formatters.format_all
    monkeypatch.setattr(formatters, "format_all", lambda a: seen.extend(x.path for x in a) or real(a))
    assert generate(mini, tree, [files(A)], memory=memory).written == ()
    assert seen == []
    (tree / "generated/python/a.py").unlink()
    new = {**A, "docs/a.md": "B\n"}
    written = generate(mini, tree, [files(new)], memory=memory).written
    assert sorted(written) == ["generated/docs/a.md", "generated/python/a.py"] == sorted(seen)
    assert check(mini, tree, [files(new)]) == []
    cache.tools.cache_clear()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"units": {}}', '{"units": {"docs/Relu": {"key": 1, "made": {"a": 1}}}, "pieces": {}}'],
)
def test_a_damaged_cache_is_ignored(text: str, mini: Catalog, tree: Path, memory: Path) -> None:
    generate(mini, tree, TARGETS, memory=memory)
    memory.write_text(text)
    assert names(mini, tree, TARGETS, memory) == []
    assert memory.read_text() != text


def test_an_unwritable_cache_is_ignored(mini: Catalog, tree: Path) -> None:
    (tree / "build").write_text("a file in the way\n")
    generate(mini, tree, TARGETS, memory=tree / "build" / "rendered.json")
    assert names(mini, tree, TARGETS, tree / "build" / "rendered.json") == []


def test_rendering_loads_only_modules_in_the_checksum() -> None:
    """A module that renders but is not part of the checksum could change a file unnoticed."""
    code = """
import sys
from pathlib import Path
from opdb.codegen import cache
from opdb.codegen.artifact import Artifact, Target
from opdb.codegen.targets import TARGETS
from opdb.catalog.store import read_catalog

catalog = read_catalog(Path("tests/data/mini"))
before = {m for m in sys.modules if m.startswith("opdb.catalog.store") or m.startswith("opdb.catalog.schema")}
for target in TARGETS:
    parts = catalog.ops if target.per_op else catalog.families if target.per_family else [None]
    for part in parts:
        target.render(catalog, part)
print(*sorted(m for m in sys.modules if m.startswith("opdb") and m not in before))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    covered = {f"opdb.{name}" for name in (*cache.PACKAGES, "codegen")}
    # Names of folders, additions of plug-ins to opdb, and constants read at run time do not affect the output.
    spared = ("opdb.plugins", "opdb.generated")
    others = [
        m
        for m in done.stdout.split()
        if m not in ("opdb", "opdb.specs", "opdb.catalog")
        and not m.startswith(spared)
        and not any(m == c or m.startswith(f"{c}.") for c in covered)
    ]
    assert others == []
