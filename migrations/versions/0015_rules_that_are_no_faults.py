"""Rules are required or expected: that no graph is finalized is a fault of a library"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

NAME = "ck_op_rule_strength"


def upgrade() -> None:
    op.execute("UPDATE op_rule SET strength = 'expect' WHERE strength = 'finalize'")
    _strengths("'require', 'expect'")


def downgrade() -> None:
    _strengths("'require', 'expect', 'finalize'")


def _strengths(known: str) -> None:
    with op.batch_alter_table("op_rule") as batch:
        batch.drop_constraint(op.f(NAME), type_="check")
        batch.create_check_constraint(op.f(NAME), f"strength IN ({known})")
