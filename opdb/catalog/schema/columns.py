"""Building blocks of tables: columns by meaning, named checks, ordered parts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def table(name: str, *parts: Any) -> Table:
    """A table of definitions; sync assigns the ids."""
    return Table(name, metadata, Column("id", Integer, primary_key=True, autoincrement=False), *parts)


def parts(name: str, parent: str, *columns: Any, key: str = "name", within: tuple[str, ...] = ()) -> Table:
    """The ordered parts of a row of ``parent``, each with a unique name (per group, if ``within`` is given)."""
    group = (f"{parent}_id", *within)
    return table(
        name,
        of(parent),
        *(text(column) for column in within),
        *position(),
        text(key),
        *columns,
        UniqueConstraint(*group, "position"),
        UniqueConstraint(*group, key),
    )


def listed(name: str, parent: str, column: str) -> Table:
    """The ordered values of a list that belongs to a row of ``parent``; a value may occur twice."""
    return table(name, of(parent), *position(), text(column), UniqueConstraint(f"{parent}_id", "position"))


def history(name: str, *parts: Any) -> Table:
    """A table whose rows are added one by one; the database assigns the ids."""
    return Table(name, metadata, Column("id", Integer, primary_key=True), *parts)


def text(name: str, default: str | None = None) -> Column[str]:
    return Column(name, Text, nullable=False, default=default)


def maybe(name: str) -> Column[str]:
    return Column(name, Text, nullable=True)


def number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def of(parent: str) -> Column[int]:
    """The row that owns this one and takes it along when it is deleted.  A UNIQUE must begin with this column."""
    key = ForeignKey(f"{parent}.id", ondelete="CASCADE")
    return Column(f"{parent}_id", Integer, key, nullable=False)


def to(other: str, nullable: bool = False, index: bool = False) -> Column[int]:
    """A row that this one refers to; it cannot be deleted first."""
    return Column(f"{other}_id", Integer, ForeignKey(f"{other}.id"), nullable=nullable, index=index)


def position() -> list[Any]:
    """The index among the row's siblings, from 0."""
    return [number("position"), CheckConstraint("position >= 0", name="position")]


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{v}'" for v in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def shape() -> list[Any]:
    """A shape, either a list of dims (JSON) or one expression."""
    return [
        maybe("dims"),
        maybe("shape"),
        CheckConstraint("dims IS NULL OR shape IS NULL", name="shape_or_dims"),
    ]
