"""The revision of the tables, and the words that columns hold; no SQLAlchemy, so that a question starts fast."""

from __future__ import annotations

#: The Alembic revision that makes these tables (tests/migrations checks it).
REVISION = "0013"
#: What one of the five statuses of a result says.
STATUSES = ("yes", "no", "unknown", "crashed", "hung", "not-applicable")
#: The backends whose libraries answer on this machine's kind (x86-64 Linux).  Of the others documents declare only.
ASKED_BACKENDS = ("CPU", "HTP")
STATUS_COLUMNS = ("declared", "validates", "finalizes", "executes", "matches")
RULE_KINDS = ("signature", "rank", "derived", "written", "types")  # in the order of checking
BINDING_KINDS = ("inputs", "absent", "params", "outputs", "ignored")
