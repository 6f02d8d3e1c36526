"""Configurations of type rows have a source and SDKs of their own"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("type_config") as table:
        table.add_column(sa.Column("source_id", sa.Integer(), nullable=True))
        table.add_column(sa.Column("since", sa.Text(), nullable=True))
        table.add_column(sa.Column("until", sa.Text(), nullable=True))
        table.create_foreign_key(op.f("fk_type_config_source_id_source"), "source", ["source_id"], ["id"])


def downgrade() -> None:
    with op.batch_alter_table("type_config") as table:
        table.drop_constraint(op.f("fk_type_config_source_id_source"), type_="foreignkey")
        table.drop_column("until")
        table.drop_column("since")
        table.drop_column("source_id")
