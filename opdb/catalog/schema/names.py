"""The revision of the tables, and the values of enumerated columns; no SQLAlchemy, so that questions start fast."""

from __future__ import annotations

#: The Alembic revision that makes these tables (tests/catalog/migrations checks it).
REVISION = "0019"
#: The revision of opdb 0.2.0, the oldest that can be upgraded.
OLDEST = "0017"
#: The values of the five statuses of a result.
STATUSES = ("yes", "no", "unknown", "crashed", "hung", "not-applicable")
STATUS_COLUMNS = ("declared", "validates", "finalizes", "executes", "matches")
ORIGINS = ("shipped", "merged")  # origins of evidence from files
RULE_KINDS = ("signature", "rank", "derived", "written", "types")  # in the order they are checked
FEATURES = ("fp16", "bf16")  # features of chips that type rows may need: columns of soc
BINDING_KINDS = ("inputs", "absent", "params", "outputs", "ignored")
#: The tables of definitions, each after the tables it refers to.
TABLES = (
    "source", "backend", "backend_need", "backend_chip", "chip_class", "soc", "soc_name", "sdk", "retired", "spec_file", "snapshot",
    "definition", "base", "op", "op_tensor", "op_param", "op_enum", "op_let", "op_rule",
    "op_backend", "unchecked", "type_config", "type_row", "type_cell",
    "torch_mapping", "torch_binding", "quant_rule", "kernel", "kernel_dtype", "tolerance", "sample",
    "family", "candidate", "candidate_target", "candidate_avoid", "candidate_name",
    "candidate_tensor", "candidate_step", "step_binding",
    "erratum", "erratum_let", "erratum_seen", "erratum_evidence",
    "op_type_row", "op_type_cell", "op_type_fault", "declared", "support_place", "support_status", "support",
)  # fmt: skip
