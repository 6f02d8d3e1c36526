"""Kernels that are generated from what an element of the result is"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("each", "by"):
        op.add_column("kernel", sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("kernel") as batch:
        for name in ("each", "by"):
            batch.drop_column(name)
