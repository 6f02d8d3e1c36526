"""How a run of a kernel can be divided"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("kernel", sa.Column("tiling", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("kernel") as batch:
        batch.drop_column("tiling")
