"""A probe run is a sweep over one op; its results have our verdict and typed reasons"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ADDED = {"probe_run": ("op", "soc"), "probe_result": ("ours", "rules", "reasons")}


def upgrade() -> None:
    for name, columns in ADDED.items():
        with op.batch_alter_table(name) as table:
            for column in columns:
                table.add_column(sa.Column(column, sa.Text(), nullable=False, server_default=""))
        with op.batch_alter_table(name) as table:  # what was there has it now
            for column in columns:
                table.alter_column(column, server_default=None)
            if name == "probe_result":
                known = "ours IN ('', 'accept', 'reject', 'unknown')"
                table.create_check_constraint(op.f("ck_probe_result_ours"), known)


def downgrade() -> None:
    for name, columns in ADDED.items():
        with op.batch_alter_table(name) as table:
            if name == "probe_result":
                table.drop_constraint(op.f("ck_probe_result_ours"), type_="check")
            for column in columns:
                table.drop_column(column)
