"""The tables of evidence from files: shipped with opdb, or merged from a colleague.  The files can restore them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, UniqueConstraint

from opdb.catalog.schema.columns import history, number, of, one_of, text, to
from opdb.catalog.schema.names import ORIGINS, STATUSES

_MEASURED = ("validates", "finalizes", "executes", "matches")

evidence_file = history(
    "evidence_file",
    text("origin"),
    text("sha256"),  # hash of the loaded shipped file
    UniqueConstraint("origin"),
)
evidence_run = history(
    "evidence_run",  # one library for one chip, on one day and machine
    text("origin"),
    text("uid"),  # computed from all columns below
    text("backend"),
    text("sdk"),
    text("soc", ""),
    text("execution"),
    text("package", ""),
    text("version", ""),
    text("build_id", ""),
    text("sha256", ""),
    text("date"),
    text("host", ""),
    text("generator", ""),
    Column("seed", BigInteger, nullable=False),
    number("case_limit"),  # the maximum number of cases per cell; 0: all
    text("flow", ""),  # the flow that was run, e.g. ExecuTorch 1.4.1
    one_of("origin", ORIGINS),
    one_of("execution", ("emulator", "host", "device")),
    UniqueConstraint("origin", "uid"),
)
evidence_outcome = history(
    "evidence_outcome",  # outcomes of cells; several runs can share one
    text("origin"),
    text("kind"),
    text("name"),  # an op, or an ATen target
    text("type_row"),  # or a precision, for kind torch
    number("position"),
    text("spec"),  # a prefix of the hash of the cases
    number("cases"),
    *(text(c, "unknown") for c in _MEASURED),
    *(one_of(c, STATUSES) for c in _MEASURED),
    text("counts"),
    text("furthest", ""),
    text("case", ""),
    text("config", ""),  # JSON
    text("stopped", ""),
    text("stopped_case", ""),
    Column("code", Integer, nullable=True),
    text("code_name", ""),
    text("reason", ""),
    text("errata", ""),  # separated by blanks
    one_of("kind", ("op", "torch")),
    one_of("origin", ORIGINS),
    UniqueConstraint("origin", "kind", "name", "type_row", "position"),
    Index("ix_evidence_outcome_name", "name"),
)
evidence_cell = history(
    "evidence_cell",
    of("evidence_outcome"),
    to("evidence_run", index=True),
    Column("newest", Boolean, nullable=False),  # the newest cell of its key
    UniqueConstraint("evidence_outcome_id", "evidence_run_id"),
)

#: Ordered so that parents come first.
EVIDENCE = (evidence_file, evidence_run, evidence_outcome, evidence_cell)
