"""The revision of the tables, and the words that columns hold; no SQLAlchemy, so that a question starts fast."""

from __future__ import annotations

#: The Alembic revision that makes these tables (tests/catalog/migrations checks it).
REVISION = "0018"
#: That of opdb 0.2.0, the oldest from which an upgrade leads here.
OLDEST = "0017"
#: What one of the five statuses of a result says.
STATUSES = ("yes", "no", "unknown", "crashed", "hung", "not-applicable")
STATUS_COLUMNS = ("declared", "validates", "finalizes", "executes", "matches")
ORIGINS = ("shipped", "merged")  # of evidence that came in a file
RULE_KINDS = ("signature", "rank", "derived", "written", "types")  # in the order of checking
FEATURES = ("fp16", "bf16")  # what rows of data types may need of a chip: columns of soc
BINDING_KINDS = ("inputs", "absent", "params", "outputs", "ignored")
#: The tables of definitions, each after those that its rows name.
TABLES = (
    "source", "backend", "backend_need", "backend_chip", "chip_class", "soc", "soc_name", "sdk", "retired", "spec_file", "snapshot",
    "definition", "base", "op", "op_tensor", "op_param", "op_enum", "op_let", "op_rule",
    "op_backend", "unchecked", "type_config", "type_row", "type_cell",
    "torch_mapping", "torch_binding", "quant_rule", "kernel", "kernel_dtype", "tolerance", "sample",
    "family", "candidate", "candidate_target", "candidate_avoid", "candidate_name",
    "candidate_tensor", "candidate_step", "step_binding",
    "erratum", "erratum_let", "erratum_seen", "erratum_evidence",
    "op_type_row", "op_type_cell", "declared", "support_place", "support",
)  # fmt: skip
