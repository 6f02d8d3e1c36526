"""Candidates of a target stand in families, in order"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "family",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_family")),
        sa.UniqueConstraint("name", name=op.f("uq_family_name")),
    )
    _forget()
    for table, needed in (("torch_mapping", False), ("decomposition", True)):
        with op.batch_alter_table(table) as batch:
            batch.add_column(sa.Column("family", sa.Text(), nullable=not needed))
            batch.add_column(sa.Column("rank", sa.Integer(), nullable=False))


def downgrade() -> None:
    _forget()
    for table in ("decomposition", "torch_mapping"):
        with op.batch_alter_table(table) as batch:
            batch.drop_column("rank")
            batch.drop_column("family")
    op.drop_table("family")


def _forget() -> None:
    """The specs have changed places: the next sync reads all of them again."""
    for table in ("step_binding", "decomposition_step", "decomposition_tensor", "decomposition_name"):
        op.execute(sa.text(f"DELETE FROM {table}"))
    for table in ("decomposition_target", "decomposition", "torch_binding", "torch_mapping", "snapshot"):
        op.execute(sa.text(f"DELETE FROM {table}"))
