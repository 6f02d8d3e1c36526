"""The SQL tables: definitions (kept in line with the specs), generation, evidence and conformance (history).

Principles.  Nouns in the singular; an integer ``id`` and a UNIQUE natural key; every constraint has a
name, so that migrations can speak of it; ``position`` wherever order is meaning; nothing that only one
database knows.  Expressions are text in the rule language.  Values without a fixed form are JSON text.
A part of a definition belongs to the file that says it: what an op inherits is stored once, with its base.
History names ops, rules, rows and SoCs by their permanent names, and '' (never NULL, which no UNIQUE
sees) says that a backend, SoC or SDK plays no part.  Times are ISO 8601 text in UTC.
The package imports SQLAlchemy alone, so that a query starts fast.
"""

from __future__ import annotations

from opdb.schema.columns import metadata
from opdb.schema.definitions import (
    BINDING_KINDS,
    DEFINITIONS,
    RULE_KINDS,
    backend,
    base,
    decomposition,
    decomposition_name,
    decomposition_step,
    decomposition_target,
    decomposition_tensor,
    definition,
    kernel,
    op,
    op_backend,
    op_enum,
    op_let,
    op_param,
    op_rule,
    op_tensor,
    quant_rule,
    retired,
    sample,
    sdk,
    snapshot,
    soc,
    source,
    spec_file,
    step_binding,
    tolerance,
    torch_binding,
    torch_mapping,
    type_cell,
    type_config,
    type_row,
    unchecked,
)
from opdb.schema.history import (
    HISTORY,
    STATUS_COLUMNS,
    STATUSES,
    artifact,
    artifact_input,
    case_rule,
    conformance_case,
    executor,
    implication,
    library,
    probe_result,
    probe_run,
    result,
    run,
)

#: The Alembic revision that makes these tables (tests/migrations checks it).
REVISION = "0005"

__all__ = [
    "BINDING_KINDS",
    "DEFINITIONS",
    "HISTORY",
    "REVISION",
    "RULE_KINDS",
    "STATUSES",
    "STATUS_COLUMNS",
    "artifact",
    "artifact_input",
    "backend",
    "base",
    "case_rule",
    "conformance_case",
    "decomposition",
    "decomposition_name",
    "decomposition_step",
    "decomposition_target",
    "decomposition_tensor",
    "definition",
    "executor",
    "implication",
    "kernel",
    "library",
    "metadata",
    "op",
    "op_backend",
    "op_enum",
    "op_let",
    "op_param",
    "op_rule",
    "op_tensor",
    "probe_result",
    "probe_run",
    "quant_rule",
    "result",
    "retired",
    "run",
    "sample",
    "sdk",
    "snapshot",
    "soc",
    "source",
    "spec_file",
    "step_binding",
    "tolerance",
    "torch_binding",
    "torch_mapping",
    "type_cell",
    "type_config",
    "type_row",
    "unchecked",
]
