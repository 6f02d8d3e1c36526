"""The tables of measurements: probes and conformance runs.  They outlive the definitions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Table, UniqueConstraint

from opdb.catalog.schema.columns import history, maybe, of, one_of, position, text, to
from opdb.catalog.schema.names import STATUS_COLUMNS, STATUSES


def _statuses(*columns: str) -> list[Any]:
    return [text(c, "unknown") for c in columns] + [one_of(c, STATUSES) for c in columns]


def _reply() -> list[Any]:
    """A library's reply: the low 16 bits of the code, the code's name, the log."""
    return [Column("code", BigInteger, nullable=True), text("code_name", ""), text("log", "")]


# -- evidence

library = history(
    "library",  # identified by its contents, not by its path
    text("package"),  # e.g. onnxruntime-qnn
    text("version"),  # e.g. 2.3.0
    text("build_id"),
    text("sha256"),
    text("backend"),
    text("sdk"),  # e.g. 2.47
    Column("emulated", Boolean, nullable=False),
    UniqueConstraint("package", "version", "build_id", "sha256", "backend"),
)


def _run(name: str, *parts: Any, last: tuple[Any, ...] = ()) -> Table:
    """One execution of a command that measures; ``last`` are columns that were added later."""
    return history(
        name,
        text("uid"),
        *parts,
        text("started"),
        maybe("finished"),
        Column("seed", BigInteger, nullable=True),
        text("opdb_version"),
        text("catalog_hash"),
        text("command", ""),
        text("note", ""),
        *last,
        UniqueConstraint("uid"),
    )


#: Our verdict on a config; '' if we did not judge it.
OURS = ("", "accept", "reject", "unknown")
#: One sweep over one op; ``catalog_hash`` is the op's hash, ``note`` states what else its configs depend on.
probe_run = _run(
    "probe_run",
    to("library"),
    last=(text("op", ""), text("soc", ""), Index("ix_probe_run_sweeps", "op", "library_id", "soc")),
)
probe_result = history(
    "probe_result",
    of("probe_run"),
    *position(),
    text("op"),
    text("type_row", ""),
    text("backend"),
    text("soc", ""),
    text("sdk"),
    text("config"),  # JSON: the op config that was probed
    *_statuses("validates", "finalizes", "executes"),
    *_reply(),
    Column("seconds", Float, nullable=True),
    text("detail", ""),
    text("ours", ""),
    one_of("ours", OURS),
    text("rules", ""),  # the ids that we reported, separated by blanks
    text("reasons", ""),  # JSON: the log, parsed into typed reasons
    UniqueConstraint("probe_run_id", "position"),
    # Covers what questions count (support, agreement), so that they need not read configs and logs.
    Index(
        "ix_probe_result_statuses",
        "op",
        "backend",
        "sdk",
        "soc",
        "type_row",
        "validates",
        "finalizes",
        "executes",
    ),
    Index("ix_probe_result_verdicts", "probe_run_id", "ours", "validates"),
)

# -- conformance

executor = history(
    "executor",
    text("name"),  # python, c, hexagon, torch, onnx.reference, qnn-cpu, qnn-htp
    text("version"),  # of the code that computes, e.g. 2.47
    text("backend", ""),  # the QNN backend it measures; '' for our own code and PyTorch
    to("library", nullable=True),
    UniqueConstraint("name", "version"),
)
run = _run("run")
conformance_case = history(
    "conformance_case",
    text("name"),  # e.g. LayerNorm-sample0-HTP.FP16.2-SM8650
    text("sha256"),  # of the content: a changed case is a new row under the same name
    text("op"),
    text("kind"),
    text("backend", ""),
    text("soc", ""),
    text("sdk", ""),
    text("type_row", ""),
    text("config"),  # JSON
    one_of("kind", ("positive", "negative")),
    UniqueConstraint("name", "sha256"),
)
case_rule = history(
    "case_rule",  # the rules that a negative case is expected to break
    of("conformance_case"),
    *position(),
    text("rule"),  # e.g. LayerNorm.C3
    UniqueConstraint("conformance_case_id", "position"),
    UniqueConstraint("conformance_case_id", "rule"),
)
implication = history(
    "implication",  # a rule that no case can break alone
    text("rule"),
    text("implied_by"),
    text("why", ""),
    UniqueConstraint("rule", "implied_by"),
)
result = history(
    "result",
    of("run"),
    to("conformance_case", index=True),
    to("executor", index=True),
    text("soc", ""),
    *_statuses(*STATUS_COLUMNS),
    *_reply(),
    Column("error_max", Float, nullable=True),
    Column("ulp", Float, nullable=True),
    Column("seconds", Float, nullable=True),
    text("detail", ""),
    Column("magnitude", Float, nullable=True),  # of PyTorch's number at the largest ulp
    UniqueConstraint("run_id", "conformance_case_id", "executor_id", "soc"),
)

result_rule = history(
    "result_rule",  # the ids that the executor reported
    of("result"),
    *position(),
    text("rule"),  # e.g. LayerNorm.C3
    UniqueConstraint("result_id", "position"),
    UniqueConstraint("result_id", "rule"),
)

#: The tables that no spec or generator can restore; they are dumped and restored.
HISTORY = (
    library,
    probe_run,
    probe_result,
    executor,
    run,
    conformance_case,
    case_rule,
    implication,
    result,
    result_rule,
)
