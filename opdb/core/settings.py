"""Finds the database and the specs: the option, else the environment, else the default."""

from __future__ import annotations

import os
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.core.files import data_folder

_PACKAGE = Path(__file__).resolve().parents[1]


def is_source_tree() -> bool:
    """True if this opdb runs from a checkout: the folder beside the package holds specs/ops."""
    return (_PACKAGE.parent / "specs" / "ops").is_dir()


def database_url(option: str | None = None) -> str:
    """The URL of the catalog's database (or the path of an SQLite file, as the user wrote it)."""
    return option or os.environ.get("OPDB_URL") or f"sqlite:///{data_folder() / 'opdb.db'}"


def specs_folder(option: str | Path | None = None) -> Path:
    """The folder with ops/, bases/, backends/...  Raises OpdbError if it is not there."""
    named = option or os.environ.get("OPDB_SPECS")
    folder = Path(named).expanduser() if named else _default_specs()
    if not (folder / "ops").is_dir():
        raise OpdbError(
            f"{folder}: not a folder of specs (it has no ops/); name one with --specs or OPDB_SPECS"
        )
    return folder


def _default_specs() -> Path:
    return _PACKAGE.parent / "specs" if is_source_tree() else _PACKAGE / "specs"
