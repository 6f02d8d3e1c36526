"""What a backend computes on, its library, its chips, and what its type rows need of a chip"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TEXTS = ("about", "library", "chips")


def upgrade() -> None:
    for name in TEXTS:
        op.add_column("backend", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("backend", sa.Column("asked", sa.Integer(), nullable=False, server_default="0"))
    op.create_table(
        "backend_need",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("feature", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_backend_need_position")),
        sa.ForeignKeyConstraint(
            ["backend_id"],
            ["backend.id"],
            name=op.f("fk_backend_need_backend_id_backend"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backend_need")),
        sa.UniqueConstraint("backend_id", "position", name=op.f("uq_backend_need_backend_id_position")),
        sa.UniqueConstraint("backend_id", "word", name=op.f("uq_backend_need_backend_id_word")),
    )


def downgrade() -> None:
    op.drop_table("backend_need")
    with op.batch_alter_table("backend") as batch:
        for name in ("asked", *TEXTS):
            batch.drop_column(name)
