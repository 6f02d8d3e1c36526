"""The revision of the tables, and the words that columns hold; no SQLAlchemy, so that a question starts fast."""

from __future__ import annotations

#: The Alembic revision that makes these tables (tests/migrations checks it).
REVISION = "0015"
#: What one of the five statuses of a result says.
STATUSES = ("yes", "no", "unknown", "crashed", "hung", "not-applicable")
STATUS_COLUMNS = ("declared", "validates", "finalizes", "executes", "matches")
RULE_KINDS = ("signature", "rank", "derived", "written", "types")  # in the order of checking
FEATURES = ("fp16", "bf16")  # what rows of data types may need of a chip: columns of soc
BINDING_KINDS = ("inputs", "absent", "params", "outputs", "ignored")
