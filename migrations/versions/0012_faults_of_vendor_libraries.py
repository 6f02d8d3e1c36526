"""Faults of vendor libraries: one row each, with what was seen and what devices show"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

CHECKS = {
    "effect": "'wrong-result', 'not-finalized', 'crash', 'refuses-valid', 'imprecise'",
    "cause": "'graph-preparation', 'kernel', 'unknown'",
    "execution": "'emulator', 'device', 'unknown'",
    "cost_class": "'none', 'small', 'large'",
}


def upgrade() -> None:
    op.create_table(
        "erratum",
        _id(),
        _text("name"),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        _maybe("op"),
        _text("title"),
        _maybe("pattern"),
        _text("effect"),
        _maybe("guard"),
        _maybe("exception"),
        _maybe("detail"),
        _text("cause"),
        _maybe("since"),
        _maybe("until"),
        _text("arch"),
        _text("socs"),
        _text("execution"),
        _text("workaround"),
        _maybe("cost_class"),
        _maybe("cost_note"),
        _maybe("reproduction"),
        sa.Column("flaky", sa.Boolean(), nullable=False),
        *(sa.CheckConstraint(f"{n} IN ({v})", name=op.f(f"ck_erratum_{n}")) for n, v in CHECKS.items()),
        sa.ForeignKeyConstraint(["backend_id"], ["backend.id"], name=op.f("fk_erratum_backend_id_backend")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erratum")),
        sa.UniqueConstraint("name", name=op.f("uq_erratum_name")),
    )
    _parts("erratum_let", _text("name"), _text("expression"), _unique("erratum_let", "name"))
    _parts(
        "erratum_seen", _text("library"), _text("socs"), _maybe("date"), _source(), _to_source("erratum_seen")
    )
    _parts(
        "erratum_evidence",
        _text("device"),
        _text("model"),
        _text("runtime"),
        _text("figure"),
        _text("shows"),
        _source(),
        _to_source("erratum_evidence"),
        sa.CheckConstraint("shows IN ('absent', 'present')", name=op.f("ck_erratum_evidence_shows")),
    )


def downgrade() -> None:
    for table in ("erratum_evidence", "erratum_seen", "erratum_let", "erratum"):
        op.drop_table(table)


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.Integer(), autoincrement=False, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _maybe(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=True)


def _source() -> sa.Column[int]:
    return sa.Column("source_id", sa.Integer(), nullable=True)


def _to_source(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f(f"fk_{table}_source_id_source"))


def _unique(table: str, column: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint("erratum_id", column, name=op.f(f"uq_{table}_erratum_id_{column}"))


def _parts(name: str, *parts: Any) -> None:
    """A table of parts of an erratum, in order, which go with it."""
    op.create_table(
        name,
        _id(),
        sa.Column("erratum_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        *parts,
        sa.CheckConstraint("position >= 0", name=op.f(f"ck_{name}_position")),
        sa.ForeignKeyConstraint(
            ["erratum_id"], ["erratum.id"], name=op.f(f"fk_{name}_erratum_id_erratum"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{name}")),
        _unique(name, "position"),
    )
