"""Indexes for the questions that count measurements; the views come with every upgrade, from opdb.catalog.schema.views"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

STATUSES = ["op", "backend", "sdk", "soc", "type_row", "validates", "finalizes", "executes"]


def upgrade() -> None:
    op.create_index(op.f("ix_probe_run_sweeps"), "probe_run", ["op", "library_id", "soc"])
    op.create_index(op.f("ix_probe_result_statuses"), "probe_result", STATUSES)
    op.create_index(op.f("ix_probe_result_verdicts"), "probe_result", ["probe_run_id", "ours", "validates"])


def downgrade() -> None:
    op.drop_index(op.f("ix_probe_result_verdicts"), "probe_result")
    op.drop_index(op.f("ix_probe_result_statuses"), "probe_result")
    op.drop_index(op.f("ix_probe_run_sweeps"), "probe_run")
