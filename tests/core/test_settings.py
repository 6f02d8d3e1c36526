"""The paths of the database and the specs: the option, else the environment, else the default."""

from __future__ import annotations

from pathlib import Path

import pytest

import opdb
from opdb.core import settings
from opdb.core.errors import OpdbError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPDB_URL", "OPDB_SPECS", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_database_comes_from_option_environment_or_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    import platformdirs

    assert settings.database_url() == f"sqlite:///{platformdirs.user_data_path('opdb')}/opdb.db"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert settings.database_url() == f"sqlite:///{tmp_path}/data/opdb/opdb.db"
    monkeypatch.setenv("OPDB_URL", "postgresql://host/opdb")
    assert settings.database_url() == "postgresql://host/opdb"
    assert settings.database_url("x.db") == "x.db"


def test_the_specs_come_from_option_environment_or_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ops").mkdir()
    default = settings.specs_folder()
    assert (default / "ops" / "LayerNorm.yaml").is_file()
    if settings.is_source_tree():
        assert default == Path(opdb.__file__).resolve().parents[1] / "specs"
    monkeypatch.setenv("OPDB_SPECS", str(tmp_path))
    assert settings.specs_folder() == tmp_path
    assert settings.specs_folder(default) == default
    with pytest.raises(
        OpdbError, match=r"nowhere: not a folder of specs \(it has no ops/\); name one with --specs"
    ):
        settings.specs_folder(tmp_path / "nowhere")
