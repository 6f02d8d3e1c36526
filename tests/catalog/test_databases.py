"""The `tmp_db_url` fixture: each test has a separate empty database."""

from __future__ import annotations

import pytest
import sqlalchemy


@pytest.mark.parametrize("run", ["first", "second"])
def test_a_test_gets_an_empty_database(tmp_db_url: str, run: str) -> None:
    engine = sqlalchemy.create_engine(tmp_db_url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == []
        connection.execute(sqlalchemy.text("CREATE TABLE op (name VARCHAR PRIMARY KEY)"))
        connection.execute(sqlalchemy.text("INSERT INTO op VALUES ('Relu')"))
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT name FROM op")).scalars().all() == ["Relu"]
