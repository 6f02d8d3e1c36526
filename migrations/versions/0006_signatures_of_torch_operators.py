"""A mapping of a torch operator that is not ATen's has its signature"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("torch_mapping", sa.Column("signature", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("torch_mapping") as batch:
        batch.drop_column("signature")
