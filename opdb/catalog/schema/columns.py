"""What tables are made of: columns by meaning, named checks, parts in order."""

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
    """A table of definitions; sync gives the ids."""
    return Table(name, metadata, Column("id", Integer, primary_key=True, autoincrement=False), *parts)


def parts(name: str, parent: str, *columns: Any, key: str = "name", within: tuple[str, ...] = ()) -> Table:
    """The parts of a row of ``parent``, in order, each with a name of its own (in groups, by ``within``)."""
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
    """The values of a list that a row of ``parent`` has, in order; a value may be there twice."""
    return table(name, of(parent), *position(), text(column), UniqueConstraint(f"{parent}_id", "position"))


def history(name: str, *parts: Any) -> Table:
    """A table whose rows come one by one; the database gives the ids."""
    return Table(name, metadata, Column("id", Integer, primary_key=True), *parts)


def text(name: str, default: str | None = None) -> Column[str]:
    return Column(name, Text, nullable=False, default=default)


def maybe(name: str) -> Column[str]:
    return Column(name, Text, nullable=True)


def number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def of(parent: str) -> Column[int]:
    """The row that this one is a part of; it goes when that one goes.  A UNIQUE must begin with it."""
    key = ForeignKey(f"{parent}.id", ondelete="CASCADE")
    return Column(f"{parent}_id", Integer, key, nullable=False)


def to(other: str, nullable: bool = False, index: bool = False) -> Column[int]:
    """A row that this one names; that one cannot go first."""
    return Column(f"{other}_id", Integer, ForeignKey(f"{other}.id"), nullable=nullable, index=index)


def position() -> list[Any]:
    """The place among its siblings, from 0."""
    return [number("position"), CheckConstraint("position >= 0", name="position")]


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{v}'" for v in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def shape() -> list[Any]:
    """A shape as a list of dims (JSON) or as one expression."""
    return [
        maybe("dims"),
        maybe("shape"),
        CheckConstraint("dims IS NULL OR shape IS NULL", name="shape_or_dims"),
    ]
