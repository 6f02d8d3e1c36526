"""A backend section has the rules of the op that its libraries do not check"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "unchecked",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_unchecked_position")),
        sa.ForeignKeyConstraint(
            ["op_backend_id"],
            ["op_backend.id"],
            name=op.f("fk_unchecked_op_backend_id_op_backend"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_unchecked_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unchecked")),
        sa.UniqueConstraint("op_backend_id", "position", name=op.f("uq_unchecked_op_backend_id_position")),
        sa.UniqueConstraint("op_backend_id", "rule", name=op.f("uq_unchecked_op_backend_id_rule")),
    )


def downgrade() -> None:
    op.drop_table("unchecked")
