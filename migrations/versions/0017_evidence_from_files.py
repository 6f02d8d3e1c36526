"""What libraries made of ops, from the file that opdb ships and from those of colleagues"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ORIGINS = "'shipped', 'merged'"
STATUSES = "'yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable'"
MEASURED = ("validates", "finalizes", "executes", "matches")


def upgrade() -> None:
    _table("evidence_file", *map(_text, ("origin", "sha256", "loaded")), _unique("evidence_file", "origin"))
    _table(
        "evidence_run",
        *map(
            _text,
            (
                "origin",
                "uid",
                "backend",
                "sdk",
                "soc",
                "execution",
                "package",
                "version",
                "build_id",
                "sha256",
            ),
        ),
        *map(_text, ("date", "host", "generator")),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("case_limit", sa.Integer(), nullable=False),
        _text("flow"),
        _check("evidence_run", "origin", ORIGINS),
        _check("evidence_run", "execution", "'emulator', 'host', 'device'"),
        _unique("evidence_run", "origin", "uid"),
    )
    _table(
        "evidence_outcome",
        *map(_text, ("origin", "kind", "name", "type_row")),
        sa.Column("position", sa.Integer(), nullable=False),
        _text("spec"),
        sa.Column("cases", sa.Integer(), nullable=False),
        *map(_text, MEASURED),
        *(_check("evidence_outcome", c, STATUSES) for c in MEASURED),
        *map(_text, ("counts", "furthest", "case", "config", "stopped", "stopped_case")),
        sa.Column("code", sa.Integer(), nullable=True),
        *map(_text, ("code_name", "reason", "errata")),
        _check("evidence_outcome", "kind", "'op', 'torch'"),
        _check("evidence_outcome", "origin", ORIGINS),
        _unique("evidence_outcome", "origin", "kind", "name", "type_row", "position"),
    )
    name = "fk_evidence_cell_evidence_outcome_id_evidence_outcome"
    _table(
        "evidence_cell",
        sa.Column("evidence_outcome_id", sa.Integer(), nullable=False),
        sa.Column("evidence_run_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evidence_outcome_id"], ["evidence_outcome.id"], name=op.f(name), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["evidence_run_id"],
            ["evidence_run.id"],
            name=op.f("fk_evidence_cell_evidence_run_id_evidence_run"),
        ),
        _unique("evidence_cell", "evidence_outcome_id", "evidence_run_id"),
    )
    with op.batch_alter_table("evidence_cell") as batch:
        batch.create_index(op.f("ix_evidence_cell_evidence_run_id"), ["evidence_run_id"])


def downgrade() -> None:
    for name in ("evidence_cell", "evidence_outcome", "evidence_run", "evidence_file"):
        op.drop_table(name)


def _table(name: str, *parts: Any) -> None:
    key = sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{name}"))
    op.create_table(name, sa.Column("id", sa.Integer(), nullable=False), *parts, key)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _check(table: str, column: str, values: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({values})", name=op.f(f"ck_{table}_{column}"))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f(f"uq_{table}_{'_'.join(columns)}"))
