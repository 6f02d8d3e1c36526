"""The status of support in words; which errata can occur for the data types of a type row.

The table ``support`` is computed, so it is made anew; the next sync reads all specs again and fills it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "op_type_fault",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_type_row_id", sa.Integer(), nullable=False),
        sa.Column("erratum", sa.Text(), nullable=False),
        sa.Column("always", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["op_type_row_id"],
            ["op_type_row.id"],
            name=op.f("fk_op_type_fault_op_type_row_id_op_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_type_fault")),
        sa.UniqueConstraint(
            "op_type_row_id", "erratum", name=op.f("uq_op_type_fault_op_type_row_id_erratum")
        ),
    )
    op.create_table(
        "support_status",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("errata", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support_status")),
        sa.UniqueConstraint("status", "why", "errata", name=op.f("uq_support_status_status_why_errata")),
    )
    _make_support(sa.Column("support_status_id", sa.Integer(), nullable=False))


def downgrade() -> None:
    _make_support()
    op.drop_table("support_status")
    op.drop_table("op_type_fault")


def _make_support(*status: sa.Column[int]) -> None:
    """Makes the computed table anew, and forgets what was read, so that the next sync fills it."""
    refers = [
        sa.ForeignKeyConstraint(
            ["support_status_id"],
            ["support_status.id"],
            name=op.f("fk_support_support_status_id_support_status"),
        )
        for _ in status
    ]
    op.drop_table("support")
    op.create_table(
        "support",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_type_row_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("sdk_number", sa.Integer(), nullable=False),
        sa.Column("device", sa.Boolean(), nullable=False),
        *status,
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("validates", sa.Text(), nullable=False),
        sa.Column("finalizes", sa.Text(), nullable=False),
        sa.Column("executes", sa.Text(), nullable=False),
        sa.Column("matches", sa.Text(), nullable=False),
        sa.Column("evidence_cell_id", sa.Integer(), nullable=True),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("at", sa.Text(), nullable=True),
        sa.Column("library", sa.Text(), nullable=True),
        *refers,
        sa.ForeignKeyConstraint(
            ["evidence_cell_id"], ["evidence_cell.id"], name=op.f("fk_support_evidence_cell_id_evidence_cell")
        ),
        sa.ForeignKeyConstraint(
            ["op_type_row_id"],
            ["op_type_row.id"],
            name=op.f("fk_support_op_type_row_id_op_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support")),
        sa.UniqueConstraint(
            "op_type_row_id", "part", "sdk", "device", name=op.f("uq_support_op_type_row_id_part_sdk_device")
        ),
    )
    op.execute("DELETE FROM snapshot")
    op.execute("DELETE FROM spec_file")
