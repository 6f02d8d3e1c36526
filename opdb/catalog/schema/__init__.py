"""The SQL tables: definitions (kept in sync with the specs), evidence, and conformance (history).

Principles.  Nouns in the singular; an integer ``id`` and a UNIQUE natural key; every constraint has a
name, so that migrations can refer to it; ``position`` wherever order matters; no feature that only one
database has.  Expressions are text in the rule language.  Values without a fixed form are JSON text.
A part of a definition belongs to the file that states it: inherited parts are stored once, with the base.
History refers to ops, rules, rows, and SoCs by their permanent names; '' (never NULL, which UNIQUE ignores)
means that no backend, SoC, or SDK applies.  Times are ISO 8601 text in UTC.
SQLAlchemy is imported and the tables are built on the first access to a table, because questions read SQL as text.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opdb.catalog.schema.names import BINDING_KINDS, FEATURES, REVISION, RULE_KINDS, STATUS_COLUMNS, STATUSES

if TYPE_CHECKING:
    from opdb.catalog.schema.columns import metadata
    from opdb.catalog.schema.definitions import (
        DEFINITIONS,
        backend,
        backend_chip,
        backend_need,
        base,
        candidate,
        candidate_avoid,
        candidate_name,
        candidate_step,
        candidate_target,
        candidate_tensor,
        chip_class,
        declared,
        definition,
        erratum,
        erratum_evidence,
        erratum_let,
        erratum_seen,
        family,
        kernel,
        kernel_dtype,
        op,
        op_backend,
        op_enum,
        op_let,
        op_param,
        op_rule,
        op_tensor,
        op_type_cell,
        op_type_fault,
        op_type_row,
        quant_rule,
        retired,
        sample,
        sdk,
        snapshot,
        soc,
        soc_name,
        source,
        spec_file,
        step_binding,
        support,
        support_place,
        support_status,
        tolerance,
        torch_binding,
        torch_mapping,
        type_cell,
        type_config,
        type_row,
        unchecked,
    )
    from opdb.catalog.schema.evidence import (
        EVIDENCE,
        evidence_cell,
        evidence_file,
        evidence_outcome,
        evidence_run,
    )
    from opdb.catalog.schema.history import (
        HISTORY,
        case_rule,
        conformance_case,
        executor,
        implication,
        library,
        probe_result,
        probe_run,
        result,
        result_rule,
        run,
    )

__all__ = [
    "BINDING_KINDS",
    "DEFINITIONS",
    "EVIDENCE",
    "FEATURES",
    "HISTORY",
    "REVISION",
    "RULE_KINDS",
    "STATUSES",
    "STATUS_COLUMNS",
    "backend",
    "backend_chip",
    "backend_need",
    "base",
    "candidate",
    "candidate_avoid",
    "candidate_name",
    "candidate_step",
    "candidate_target",
    "candidate_tensor",
    "case_rule",
    "chip_class",
    "conformance_case",
    "declared",
    "definition",
    "erratum",
    "erratum_evidence",
    "erratum_let",
    "erratum_seen",
    "evidence_cell",
    "evidence_file",
    "evidence_outcome",
    "evidence_run",
    "executor",
    "family",
    "implication",
    "kernel",
    "kernel_dtype",
    "library",
    "metadata",
    "op",
    "op_backend",
    "op_enum",
    "op_let",
    "op_param",
    "op_rule",
    "op_tensor",
    "op_type_cell",
    "op_type_fault",
    "op_type_row",
    "probe_result",
    "probe_run",
    "quant_rule",
    "result",
    "result_rule",
    "retired",
    "run",
    "sample",
    "sdk",
    "snapshot",
    "soc",
    "soc_name",
    "source",
    "spec_file",
    "step_binding",
    "support",
    "support_place",
    "support_status",
    "tolerance",
    "torch_binding",
    "torch_mapping",
    "type_cell",
    "type_config",
    "type_row",
    "unchecked",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = [
            import_module(f"opdb.catalog.schema.{m}")
            for m in ("columns", "definitions", "history", "evidence")
        ]
        found = next(getattr(m, name) for m in modules if hasattr(m, name))
        globals()[name] = found
        return found
