"""What kernels are given: arguments, the type they are written for, scratch"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMNS = ("arguments", "computes", "scratch")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("kernel", sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("kernel") as batch:
        for name in COLUMNS:
            batch.drop_column(name)
