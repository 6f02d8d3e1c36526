"""Catalogs, a tree to generate into, and a target with texts of the test's choice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store
from opdb.codegen.artifact import Artifact, Language, Target
from opdb.spec.catalog import Catalog, retired_of, socs_of
from opdb.spec.family import families_of
from opdb.spec.files import read_folder

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def catalog_of(folder: Path) -> Catalog:
    s = read_folder(folder)
    return Catalog(
        s.own,
        s.bases,
        families_of(s.families, s.ops),
        s.backends,
        socs_of(s.socs),
        retired_of(s.retired),
        s.errata,
    )


@pytest.fixture(scope="session")
def mini() -> Catalog:
    """A few ops that never change: tests/codegen/specs."""
    return catalog_of(HERE / "specs")


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The ops of specs/, read from a database, as in generation."""
    migrate.upgrade(url := f"sqlite:///{tmp_path_factory.mktemp('full') / 'opdb.db'}")
    store = Store(url)
    store.load_shipped()
    store.sync(ROOT / "specs")
    return store.load_catalog()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root to generate into, with a README for the table of ops."""
    (tmp_path / "README.md").write_text("# Title\n\n<!-- ops -->\n<!-- /ops -->\n\nEnd.\n")
    return tmp_path


Texts = dict[str, str]
LANGUAGES: dict[str, Language] = {".md": "markdown", ".py": "python", ".h": "c", ".csv": "csv"}


@pytest.fixture
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Texts], Target]:
    """Makes a target that generates the given texts by path below generated/; they are its inputs too."""
    folder = tmp_path_factory.mktemp("texts")

    def make(texts: Texts, name: str = "files") -> Target:
        source = folder / f"{len(list(folder.iterdir()))}.json"
        source.write_text(json.dumps(texts))

        def render(catalog: Catalog) -> Iterable[Artifact]:
            for path, text in texts.items():
                yield Artifact(
                    f"generated/{path}", text, ("specs/ops/Relu.yaml",), LANGUAGES[Path(path).suffix]
                )

        return Target(name, "texts of a test", whole=render, reads=(source,))

    return make
