"""What chips compute in, their numbers in Linux, what they are sold as, which libraries open them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

NUMBERS, TEXTS = ("fp16", "bf16"), ("soc_ids", "names", "libraries")


def upgrade() -> None:
    for name in NUMBERS:
        op.add_column("soc", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    for name in TEXTS:
        op.add_column("soc", sa.Column(name, sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("soc") as batch:
        for name in NUMBERS + TEXTS:
            batch.drop_column(name)
