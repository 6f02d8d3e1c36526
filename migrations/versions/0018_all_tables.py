"""All tables; opdb.catalog.migrate brings a database of 0.2.0 here."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "backend",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("letter", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), nullable=True),
        sa.Column("more", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=True),
        sa.Column("library", sa.Text(), nullable=True),
        sa.Column("asked", sa.Integer(), server_default="0", nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_backend_position")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backend")),
        sa.UniqueConstraint("letter", name=op.f("uq_backend_letter")),
        sa.UniqueConstraint("name", name=op.f("uq_backend_name")),
    )
    op.create_table(
        "chip_class",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("htp_arch", sa.Integer(), nullable=True),
        sa.Column("fp16", sa.Integer(), server_default="0", nullable=False),
        sa.Column("bf16", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chip_class")),
        sa.UniqueConstraint("name", name=op.f("uq_chip_class_name")),
    )
    op.create_table(
        "conformance_case",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("type_row", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('positive', 'negative')", name=op.f("ck_conformance_case_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conformance_case")),
        sa.UniqueConstraint("name", "sha256", name=op.f("uq_conformance_case_name_sha256")),
    )
    op.create_table(
        "evidence_file",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence_file")),
        sa.UniqueConstraint("origin", name=op.f("uq_evidence_file_origin")),
    )
    op.create_table(
        "evidence_outcome",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type_row", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("cases", sa.Integer(), nullable=False),
        sa.Column("validates", sa.Text(), nullable=False),
        sa.Column("finalizes", sa.Text(), nullable=False),
        sa.Column("executes", sa.Text(), nullable=False),
        sa.Column("matches", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("furthest", sa.Text(), nullable=False),
        sa.Column("case", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("stopped", sa.Text(), nullable=False),
        sa.Column("stopped_case", sa.Text(), nullable=False),
        sa.Column("code", sa.Integer(), nullable=True),
        sa.Column("code_name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("errata", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "executes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_evidence_outcome_executes"),
        ),
        sa.CheckConstraint(
            "finalizes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_evidence_outcome_finalizes"),
        ),
        sa.CheckConstraint("kind IN ('op', 'torch')", name=op.f("ck_evidence_outcome_kind")),
        sa.CheckConstraint(
            "matches IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_evidence_outcome_matches"),
        ),
        sa.CheckConstraint("origin IN ('shipped', 'merged')", name=op.f("ck_evidence_outcome_origin")),
        sa.CheckConstraint(
            "validates IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_evidence_outcome_validates"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence_outcome")),
        sa.UniqueConstraint(
            "origin",
            "kind",
            "name",
            "type_row",
            "position",
            name=op.f("uq_evidence_outcome_origin_kind_name_type_row_position"),
        ),
    )
    op.create_index("ix_evidence_outcome_name", "evidence_outcome", ["name"], unique=False)
    op.create_table(
        "evidence_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.Column("execution", sa.Text(), nullable=False),
        sa.Column("package", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("date", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("generator", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("case_limit", sa.Integer(), nullable=False),
        sa.Column("flow", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "execution IN ('emulator', 'host', 'device')", name=op.f("ck_evidence_run_execution")
        ),
        sa.CheckConstraint("origin IN ('shipped', 'merged')", name=op.f("ck_evidence_run_origin")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence_run")),
        sa.UniqueConstraint("origin", "uid", name=op.f("uq_evidence_run_origin_uid")),
    )
    op.create_table(
        "family",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_family")),
        sa.UniqueConstraint("name", name=op.f("uq_family_name")),
    )
    op.create_table(
        "implication",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("implied_by", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_implication")),
        sa.UniqueConstraint("rule", "implied_by", name=op.f("uq_implication_rule_implied_by")),
    )
    op.create_table(
        "library",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("package", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("emulated", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_library")),
        sa.UniqueConstraint(
            "package",
            "version",
            "build_id",
            "sha256",
            "backend",
            name=op.f("uq_library_package_version_build_id_sha256_backend"),
        ),
    )
    op.create_table(
        "retired",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('rules', 'ops')", name=op.f("ck_retired_kind")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_retired_position")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_retired")),
        sa.UniqueConstraint("kind", "position", name=op.f("uq_retired_kind_position")),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("started", sa.Text(), nullable=False),
        sa.Column("finished", sa.Text(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("opdb_version", sa.Text(), nullable=False),
        sa.Column("catalog_hash", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("uid", name=op.f("uq_run_uid")),
    )
    op.create_table(
        "sdk",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sdk")),
        sa.UniqueConstraint("version", name=op.f("uq_sdk_version")),
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_snapshot_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
    )
    op.create_table(
        "source",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=True),
        sa.Column("locator", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source")),
        sa.UniqueConstraint("text", name=op.f("uq_source_text")),
    )
    op.create_table(
        "spec_file",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spec_file")),
        sa.UniqueConstraint("path", name=op.f("uq_spec_file_path")),
    )
    op.create_table(
        "support_place",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support_place")),
        sa.UniqueConstraint("part", "soc", name=op.f("uq_support_place_part_soc")),
    )
    op.create_table(
        "backend_chip",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("chip", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_backend_chip_position")),
        sa.ForeignKeyConstraint(
            ["backend_id"],
            ["backend.id"],
            name=op.f("fk_backend_chip_backend_id_backend"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backend_chip")),
        sa.UniqueConstraint("backend_id", "position", name=op.f("uq_backend_chip_backend_id_position")),
    )
    op.create_table(
        "backend_need",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("feature", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_backend_need_position")),
        sa.ForeignKeyConstraint(
            ["backend_id"],
            ["backend.id"],
            name=op.f("fk_backend_need_backend_id_backend"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backend_need")),
        sa.UniqueConstraint("backend_id", "position", name=op.f("uq_backend_need_backend_id_position")),
        sa.UniqueConstraint("backend_id", "word", name=op.f("uq_backend_need_backend_id_word")),
    )
    op.create_table(
        "candidate",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("family_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("entry", sa.Integer(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("guard", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("form IN ('op', 'chain')", name=op.f("ck_candidate_form")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_position")),
        sa.ForeignKeyConstraint(
            ["family_id"], ["family.id"], name=op.f("fk_candidate_family_id_family"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_candidate_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate")),
        sa.UniqueConstraint("family_id", "position", name=op.f("uq_candidate_family_id_position")),
    )
    op.create_table(
        "case_rule",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("conformance_case_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_case_rule_position")),
        sa.ForeignKeyConstraint(
            ["conformance_case_id"],
            ["conformance_case.id"],
            name=op.f("fk_case_rule_conformance_case_id_conformance_case"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_case_rule")),
        sa.UniqueConstraint(
            "conformance_case_id", "position", name=op.f("uq_case_rule_conformance_case_id_position")
        ),
        sa.UniqueConstraint(
            "conformance_case_id", "rule", name=op.f("uq_case_rule_conformance_case_id_rule")
        ),
    )
    op.create_table(
        "definition",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("kind IN ('op', 'base')", name=op.f("ck_definition_kind")),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_definition_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_definition")),
    )
    op.create_table(
        "erratum",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("op", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=True),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("guard", sa.Text(), nullable=True),
        sa.Column("exception", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("socs", sa.Text(), nullable=False),
        sa.Column("execution", sa.Text(), nullable=False),
        sa.Column("workaround", sa.Text(), nullable=False),
        sa.Column("cost_class", sa.Text(), nullable=True),
        sa.Column("cost_note", sa.Text(), nullable=True),
        sa.Column("reproduction", sa.Text(), nullable=True),
        sa.Column("flaky", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "cause IN ('graph-preparation', 'kernel', 'unknown')", name=op.f("ck_erratum_cause")
        ),
        sa.CheckConstraint("cost_class IN ('none', 'small', 'large')", name=op.f("ck_erratum_cost_class")),
        sa.CheckConstraint(
            "effect IN ('wrong-result', 'not-finalized', 'crash', 'refuses-valid', 'imprecise')",
            name=op.f("ck_erratum_effect"),
        ),
        sa.CheckConstraint(
            "execution IN ('emulator', 'device', 'unknown')", name=op.f("ck_erratum_execution")
        ),
        sa.ForeignKeyConstraint(["backend_id"], ["backend.id"], name=op.f("fk_erratum_backend_id_backend")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erratum")),
        sa.UniqueConstraint("name", name=op.f("uq_erratum_name")),
    )
    op.create_table(
        "evidence_cell",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("evidence_outcome_id", sa.Integer(), nullable=False),
        sa.Column("evidence_run_id", sa.Integer(), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evidence_outcome_id"],
            ["evidence_outcome.id"],
            name=op.f("fk_evidence_cell_evidence_outcome_id_evidence_outcome"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["evidence_run_id"],
            ["evidence_run.id"],
            name=op.f("fk_evidence_cell_evidence_run_id_evidence_run"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence_cell")),
        sa.UniqueConstraint(
            "evidence_outcome_id",
            "evidence_run_id",
            name=op.f("uq_evidence_cell_evidence_outcome_id_evidence_run_id"),
        ),
    )
    op.create_index(
        op.f("ix_evidence_cell_evidence_run_id"), "evidence_cell", ["evidence_run_id"], unique=False
    )
    op.create_table(
        "executor",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("library_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["library_id"], ["library.id"], name=op.f("fk_executor_library_id_library")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_executor")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_executor_name_version")),
    )
    op.create_table(
        "op_type_row",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("type_row", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=True),
        sa.Column("cells", sa.Text(), nullable=True),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("needs", sa.Text(), nullable=True),
        sa.Column("place", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_op_type_row_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_type_row")),
        sa.UniqueConstraint("op", "type_row", "backend", name=op.f("uq_op_type_row_op_type_row_backend")),
    )
    op.create_table(
        "probe_run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("library_id", sa.Integer(), nullable=False),
        sa.Column("started", sa.Text(), nullable=False),
        sa.Column("finished", sa.Text(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("opdb_version", sa.Text(), nullable=False),
        sa.Column("catalog_hash", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["library_id"], ["library.id"], name=op.f("fk_probe_run_library_id_library")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe_run")),
        sa.UniqueConstraint("uid", name=op.f("uq_probe_run_uid")),
    )
    op.create_index("ix_probe_run_sweeps", "probe_run", ["op", "library_id", "soc"], unique=False)
    op.create_table(
        "soc",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("chip", sa.Text(), nullable=False),
        sa.Column("chip_class_id", sa.Integer(), nullable=False),
        sa.Column("soc_model", sa.Integer(), nullable=True),
        sa.Column("htp_arch", sa.Integer(), nullable=True),
        sa.Column("more", sa.Text(), nullable=False),
        sa.Column("fp16", sa.Integer(), server_default="0", nullable=False),
        sa.Column("bf16", sa.Integer(), server_default="0", nullable=False),
        sa.Column("soc_ids", sa.Text(), nullable=True),
        sa.Column("libraries", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_soc_position")),
        sa.ForeignKeyConstraint(
            ["chip_class_id"], ["chip_class.id"], name=op.f("fk_soc_chip_class_id_chip_class")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_soc")),
        sa.UniqueConstraint("chip", name=op.f("uq_soc_chip")),
    )
    op.create_table(
        "base",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_base_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_base")),
        sa.UniqueConstraint("definition_id", name=op.f("uq_base_definition_id")),
        sa.UniqueConstraint("name", name=op.f("uq_base_name")),
    )
    op.create_table(
        "declared",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_type_row_id", sa.Integer(), nullable=False),
        sa.Column("chip_class_id", sa.Integer(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["chip_class_id"], ["chip_class.id"], name=op.f("fk_declared_chip_class_id_chip_class")
        ),
        sa.ForeignKeyConstraint(
            ["op_type_row_id"],
            ["op_type_row.id"],
            name=op.f("fk_declared_op_type_row_id_op_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_declared")),
        sa.UniqueConstraint(
            "op_type_row_id",
            "chip_class_id",
            "first",
            name=op.f("uq_declared_op_type_row_id_chip_class_id_first"),
        ),
    )
    op.create_table(
        "erratum_evidence",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("erratum_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("figure", sa.Text(), nullable=False),
        sa.Column("shows", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("shows IN ('absent', 'present')", name=op.f("ck_erratum_evidence_shows")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_erratum_evidence_position")),
        sa.ForeignKeyConstraint(
            ["erratum_id"],
            ["erratum.id"],
            name=op.f("fk_erratum_evidence_erratum_id_erratum"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_erratum_evidence_source_id_source")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erratum_evidence")),
        sa.UniqueConstraint("erratum_id", "position", name=op.f("uq_erratum_evidence_erratum_id_position")),
    )
    op.create_table(
        "erratum_let",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("erratum_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_erratum_let_position")),
        sa.ForeignKeyConstraint(
            ["erratum_id"], ["erratum.id"], name=op.f("fk_erratum_let_erratum_id_erratum"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erratum_let")),
        sa.UniqueConstraint("erratum_id", "name", name=op.f("uq_erratum_let_erratum_id_name")),
        sa.UniqueConstraint("erratum_id", "position", name=op.f("uq_erratum_let_erratum_id_position")),
    )
    op.create_table(
        "erratum_seen",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("erratum_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("library", sa.Text(), nullable=False),
        sa.Column("socs", sa.Text(), nullable=False),
        sa.Column("date", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_erratum_seen_position")),
        sa.ForeignKeyConstraint(
            ["erratum_id"],
            ["erratum.id"],
            name=op.f("fk_erratum_seen_erratum_id_erratum"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_erratum_seen_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erratum_seen")),
        sa.UniqueConstraint("erratum_id", "position", name=op.f("uq_erratum_seen_erratum_id_position")),
    )
    op.create_table(
        "kernel",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("function", sa.Text(), nullable=False),
        sa.Column("each", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=True),
        sa.Column("computes", sa.Text(), nullable=True),
        sa.Column("scratch", sa.Text(), nullable=True),
        sa.Column("tiling", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_kernel_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernel")),
        sa.UniqueConstraint("definition_id", name=op.f("uq_kernel_definition_id")),
    )
    op.create_table(
        "op_backend",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_backend_position")),
        sa.ForeignKeyConstraint(
            ["backend_id"], ["backend.id"], name=op.f("fk_op_backend_backend_id_backend")
        ),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_backend_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_op_backend_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_backend")),
        sa.UniqueConstraint(
            "definition_id", "backend_id", name=op.f("uq_op_backend_definition_id_backend_id")
        ),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_op_backend_definition_id_position")),
    )
    op.create_table(
        "op_let",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_let_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_let_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_let")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_op_let_definition_id_name")),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_op_let_definition_id_position")),
    )
    op.create_table(
        "op_param",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("dims", sa.Text(), nullable=False),
        sa.Column("optional", sa.Boolean(), nullable=False),
        sa.Column("default_value", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("doc", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('axis', 'axes', 'perm', 'shape', 'pads', 'scalar')", name=op.f("ck_op_param_kind")
        ),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_param_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_param_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_param")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_op_param_definition_id_name")),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_op_param_definition_id_position")),
    )
    op.create_table(
        "op_rule",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("backend_id", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("strength", sa.Text(), nullable=False),
        sa.Column("guard", sa.Text(), nullable=True),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('signature', 'rank', 'derived', 'written', 'types')", name=op.f("ck_op_rule_kind")
        ),
        sa.CheckConstraint("strength IN ('require', 'expect')", name=op.f("ck_op_rule_strength")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_rule_position")),
        sa.ForeignKeyConstraint(["backend_id"], ["backend.id"], name=op.f("fk_op_rule_backend_id_backend")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_rule_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_op_rule_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_rule")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_op_rule_definition_id_name")),
    )
    op.create_table(
        "op_tensor",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("output", sa.Boolean(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dims", sa.Text(), nullable=True),
        sa.Column("shape", sa.Text(), nullable=True),
        sa.Column("dtypes", sa.Text(), nullable=False),
        sa.Column("optional", sa.Boolean(), nullable=False),
        sa.Column("static", sa.Boolean(), nullable=False),
        sa.Column("variadic", sa.Boolean(), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("count", sa.Text(), nullable=True),
        sa.Column("index_name", sa.Text(), nullable=True),
        sa.Column("layout", sa.Text(), nullable=True),
        sa.Column("doc", sa.Text(), nullable=True),
        sa.CheckConstraint("dims IS NULL OR shape IS NULL", name=op.f("ck_op_tensor_shape_or_dims")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_tensor_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_tensor_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_tensor")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_op_tensor_definition_id_name")),
        sa.UniqueConstraint(
            "definition_id", "output", "position", name=op.f("uq_op_tensor_definition_id_output_position")
        ),
    )
    op.create_table(
        "op_type_cell",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_type_row_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_type_cell_position")),
        sa.ForeignKeyConstraint(
            ["op_type_row_id"],
            ["op_type_row.id"],
            name=op.f("fk_op_type_cell_op_type_row_id_op_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_type_cell")),
        sa.UniqueConstraint(
            "op_type_row_id", "position", name=op.f("uq_op_type_cell_op_type_row_id_position")
        ),
    )
    op.create_index("ix_op_type_cell_dtype", "op_type_cell", ["dtype"], unique=False)
    op.create_table(
        "probe_result",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("probe_run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("type_row", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("validates", sa.Text(), nullable=False),
        sa.Column("finalizes", sa.Text(), nullable=False),
        sa.Column("executes", sa.Text(), nullable=False),
        sa.Column("code", sa.BigInteger(), nullable=True),
        sa.Column("code_name", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("ours", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "executes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_probe_result_executes"),
        ),
        sa.CheckConstraint(
            "finalizes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_probe_result_finalizes"),
        ),
        sa.CheckConstraint("ours IN ('', 'accept', 'reject', 'unknown')", name=op.f("ck_probe_result_ours")),
        sa.CheckConstraint(
            "validates IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_probe_result_validates"),
        ),
        sa.CheckConstraint("position >= 0", name=op.f("ck_probe_result_position")),
        sa.ForeignKeyConstraint(
            ["probe_run_id"],
            ["probe_run.id"],
            name=op.f("fk_probe_result_probe_run_id_probe_run"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probe_result")),
        sa.UniqueConstraint("probe_run_id", "position", name=op.f("uq_probe_result_probe_run_id_position")),
    )
    op.create_index(
        "ix_probe_result_statuses",
        "probe_result",
        ["op", "backend", "sdk", "soc", "type_row", "validates", "finalizes", "executes"],
        unique=False,
    )
    op.create_index(
        "ix_probe_result_verdicts", "probe_result", ["probe_run_id", "ours", "validates"], unique=False
    )
    op.create_table(
        "quant_rule",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_quant_rule_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_quant_rule_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quant_rule")),
        sa.UniqueConstraint("definition_id", "name", name=op.f("uq_quant_rule_definition_id_name")),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_quant_rule_definition_id_position")),
    )
    op.create_table(
        "result",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("conformance_case_id", sa.Integer(), nullable=False),
        sa.Column("executor_id", sa.Integer(), nullable=False),
        sa.Column("soc", sa.Text(), nullable=False),
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("validates", sa.Text(), nullable=False),
        sa.Column("finalizes", sa.Text(), nullable=False),
        sa.Column("executes", sa.Text(), nullable=False),
        sa.Column("matches", sa.Text(), nullable=False),
        sa.Column("code", sa.BigInteger(), nullable=True),
        sa.Column("code_name", sa.Text(), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("error_max", sa.Float(), nullable=True),
        sa.Column("ulp", sa.Float(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("magnitude", sa.Float(), nullable=True),
        sa.CheckConstraint(
            "declared IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_result_declared"),
        ),
        sa.CheckConstraint(
            "executes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_result_executes"),
        ),
        sa.CheckConstraint(
            "finalizes IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_result_finalizes"),
        ),
        sa.CheckConstraint(
            "matches IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_result_matches"),
        ),
        sa.CheckConstraint(
            "validates IN ('yes', 'no', 'unknown', 'crashed', 'hung', 'not-applicable')",
            name=op.f("ck_result_validates"),
        ),
        sa.ForeignKeyConstraint(
            ["conformance_case_id"],
            ["conformance_case.id"],
            name=op.f("fk_result_conformance_case_id_conformance_case"),
        ),
        sa.ForeignKeyConstraint(
            ["executor_id"], ["executor.id"], name=op.f("fk_result_executor_id_executor")
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["run.id"], name=op.f("fk_result_run_id_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_result")),
        sa.UniqueConstraint(
            "run_id",
            "conformance_case_id",
            "executor_id",
            "soc",
            name=op.f("uq_result_run_id_conformance_case_id_executor_id_soc"),
        ),
    )
    op.create_index(op.f("ix_result_conformance_case_id"), "result", ["conformance_case_id"], unique=False)
    op.create_index(op.f("ix_result_executor_id"), "result", ["executor_id"], unique=False)
    op.create_table(
        "sample",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_sample_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_sample_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sample")),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_sample_definition_id_position")),
    )
    op.create_table(
        "soc_name",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("soc_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_soc_name_position")),
        sa.ForeignKeyConstraint(
            ["soc_id"], ["soc.id"], name=op.f("fk_soc_name_soc_id_soc"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_soc_name")),
        sa.UniqueConstraint("soc_id", "position", name=op.f("uq_soc_name_soc_id_position")),
    )
    op.create_table(
        "support",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_type_row_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("sdk", sa.Text(), nullable=False),
        sa.Column("sdk_number", sa.Integer(), nullable=False),
        sa.Column("device", sa.Boolean(), nullable=False),
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("validates", sa.Text(), nullable=False),
        sa.Column("finalizes", sa.Text(), nullable=False),
        sa.Column("executes", sa.Text(), nullable=False),
        sa.Column("matches", sa.Text(), nullable=False),
        sa.Column("evidence_cell_id", sa.Integer(), nullable=True),
        sa.Column("own", sa.Boolean(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("at", sa.Text(), nullable=True),
        sa.Column("library", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["evidence_cell_id"], ["evidence_cell.id"], name=op.f("fk_support_evidence_cell_id_evidence_cell")
        ),
        sa.ForeignKeyConstraint(
            ["op_type_row_id"],
            ["op_type_row.id"],
            name=op.f("fk_support_op_type_row_id_op_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_support")),
        sa.UniqueConstraint(
            "op_type_row_id", "part", "sdk", "device", name=op.f("uq_support_op_type_row_id_part_sdk_device")
        ),
    )
    op.create_table(
        "tolerance",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("ulp", sa.Text(), nullable=False),
        sa.Column("absolute", sa.Float(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_tolerance_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_tolerance_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tolerance")),
        sa.UniqueConstraint("definition_id", "dtype", name=op.f("uq_tolerance_definition_id_dtype")),
        sa.UniqueConstraint("definition_id", "position", name=op.f("uq_tolerance_definition_id_position")),
    )
    op.create_table(
        "torch_mapping",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("guard", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_torch_mapping_position")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_torch_mapping_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_torch_mapping_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_torch_mapping")),
        sa.UniqueConstraint(
            "definition_id", "position", name=op.f("uq_torch_mapping_definition_id_position")
        ),
        sa.UniqueConstraint("definition_id", "target", name=op.f("uq_torch_mapping_definition_id_target")),
    )
    op.create_table(
        "kernel_dtype",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kernel_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_kernel_dtype_position")),
        sa.ForeignKeyConstraint(
            ["kernel_id"], ["kernel.id"], name=op.f("fk_kernel_dtype_kernel_id_kernel"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_kernel_dtype")),
        sa.UniqueConstraint("kernel_id", "position", name=op.f("uq_kernel_dtype_kernel_id_position")),
    )
    op.create_table(
        "op",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("definition_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("package", sa.Text(), nullable=False),
        sa.Column("base_id", sa.Integer(), nullable=True),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["base_id"], ["base.id"], name=op.f("fk_op_base_id_base")),
        sa.ForeignKeyConstraint(
            ["definition_id"],
            ["definition.id"],
            name=op.f("fk_op_definition_id_definition"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op")),
        sa.UniqueConstraint("definition_id", name=op.f("uq_op_definition_id")),
        sa.UniqueConstraint("name", name=op.f("uq_op_name")),
    )
    op.create_table(
        "op_enum",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_param_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_op_enum_position")),
        sa.ForeignKeyConstraint(
            ["op_param_id"], ["op_param.id"], name=op.f("fk_op_enum_op_param_id_op_param"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op_enum")),
        sa.UniqueConstraint("op_param_id", "name", name=op.f("uq_op_enum_op_param_id_name")),
        sa.UniqueConstraint("op_param_id", "position", name=op.f("uq_op_enum_op_param_id_position")),
    )
    op.create_table(
        "result_rule",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("result_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_result_rule_position")),
        sa.ForeignKeyConstraint(
            ["result_id"], ["result.id"], name=op.f("fk_result_rule_result_id_result"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_result_rule")),
        sa.UniqueConstraint("result_id", "position", name=op.f("uq_result_rule_result_id_position")),
        sa.UniqueConstraint("result_id", "rule", name=op.f("uq_result_rule_result_id_rule")),
    )
    op.create_table(
        "torch_binding",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("torch_mapping_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('inputs', 'absent', 'params', 'outputs', 'ignored')", name=op.f("ck_torch_binding_kind")
        ),
        sa.CheckConstraint("position >= 0", name=op.f("ck_torch_binding_position")),
        sa.ForeignKeyConstraint(
            ["torch_mapping_id"],
            ["torch_mapping.id"],
            name=op.f("fk_torch_binding_torch_mapping_id_torch_mapping"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_torch_binding")),
        sa.UniqueConstraint(
            "torch_mapping_id", "kind", "name", name=op.f("uq_torch_binding_torch_mapping_id_kind_name")
        ),
        sa.UniqueConstraint(
            "torch_mapping_id",
            "kind",
            "position",
            name=op.f("uq_torch_binding_torch_mapping_id_kind_position"),
        ),
    )
    op.create_table(
        "type_config",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_type_config_position")),
        sa.ForeignKeyConstraint(
            ["op_backend_id"],
            ["op_backend.id"],
            name=op.f("fk_type_config_op_backend_id_op_backend"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_type_config_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_type_config")),
        sa.UniqueConstraint("op_backend_id", "name", name=op.f("uq_type_config_op_backend_id_name")),
        sa.UniqueConstraint("op_backend_id", "position", name=op.f("uq_type_config_op_backend_id_position")),
    )
    op.create_table(
        "unchecked",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_backend_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("since", sa.Text(), nullable=True),
        sa.Column("until", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_unchecked_position")),
        sa.ForeignKeyConstraint(
            ["op_backend_id"],
            ["op_backend.id"],
            name=op.f("fk_unchecked_op_backend_id_op_backend"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_unchecked_source_id_source")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unchecked")),
        sa.UniqueConstraint("op_backend_id", "position", name=op.f("uq_unchecked_op_backend_id_position")),
        sa.UniqueConstraint("op_backend_id", "rule", name=op.f("uq_unchecked_op_backend_id_rule")),
    )
    op.create_table(
        "type_row",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type_config_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_type_row_position")),
        sa.ForeignKeyConstraint(
            ["type_config_id"],
            ["type_config.id"],
            name=op.f("fk_type_row_type_config_id_type_config"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_type_row")),
        sa.UniqueConstraint("type_config_id", "name", name=op.f("uq_type_row_type_config_id_name")),
        sa.UniqueConstraint("type_config_id", "position", name=op.f("uq_type_row_type_config_id_position")),
    )
    op.create_table(
        "candidate_avoid",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("erratum", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_avoid_position")),
        sa.ForeignKeyConstraint(
            ["candidate_id"],
            ["candidate.id"],
            name=op.f("fk_candidate_avoid_candidate_id_candidate"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_avoid")),
        sa.UniqueConstraint(
            "candidate_id", "position", name=op.f("uq_candidate_avoid_candidate_id_position")
        ),
    )
    op.create_table(
        "candidate_name",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('let', 'ignored')", name=op.f("ck_candidate_name_kind")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_name_position")),
        sa.ForeignKeyConstraint(
            ["candidate_id"],
            ["candidate.id"],
            name=op.f("fk_candidate_name_candidate_id_candidate"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_name")),
        sa.UniqueConstraint(
            "candidate_id", "kind", "name", name=op.f("uq_candidate_name_candidate_id_kind_name")
        ),
        sa.UniqueConstraint(
            "candidate_id", "kind", "position", name=op.f("uq_candidate_name_candidate_id_kind_position")
        ),
    )
    op.create_table(
        "candidate_step",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("line", sa.Text(), nullable=True),
        sa.Column("entry", sa.Integer(), nullable=True),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_step_position")),
        sa.ForeignKeyConstraint(
            ["candidate_id"],
            ["candidate.id"],
            name=op.f("fk_candidate_step_candidate_id_candidate"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_step")),
        sa.UniqueConstraint("candidate_id", "position", name=op.f("uq_candidate_step_candidate_id_position")),
    )
    op.create_table(
        "candidate_target",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_target_position")),
        sa.ForeignKeyConstraint(
            ["candidate_id"],
            ["candidate.id"],
            name=op.f("fk_candidate_target_candidate_id_candidate"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_target")),
        sa.UniqueConstraint(
            "candidate_id", "position", name=op.f("uq_candidate_target_candidate_id_position")
        ),
    )
    op.create_table(
        "candidate_tensor",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dims", sa.Text(), nullable=True),
        sa.Column("shape", sa.Text(), nullable=True),
        sa.Column("like_tensor", sa.Text(), nullable=True),
        sa.CheckConstraint("dims IS NULL OR shape IS NULL", name=op.f("ck_candidate_tensor_shape_or_dims")),
        sa.CheckConstraint("position >= 0", name=op.f("ck_candidate_tensor_position")),
        sa.ForeignKeyConstraint(
            ["candidate_id"],
            ["candidate.id"],
            name=op.f("fk_candidate_tensor_candidate_id_candidate"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_tensor")),
        sa.UniqueConstraint("candidate_id", "name", name=op.f("uq_candidate_tensor_candidate_id_name")),
        sa.UniqueConstraint(
            "candidate_id", "position", name=op.f("uq_candidate_tensor_candidate_id_position")
        ),
    )
    op.create_table(
        "step_binding",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("candidate_step_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("expression", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('inputs', 'absent', 'params', 'outputs')", name=op.f("ck_step_binding_kind")
        ),
        sa.CheckConstraint("position >= 0", name=op.f("ck_step_binding_position")),
        sa.ForeignKeyConstraint(
            ["candidate_step_id"],
            ["candidate_step.id"],
            name=op.f("fk_step_binding_candidate_step_id_candidate_step"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_step_binding")),
        sa.UniqueConstraint(
            "candidate_step_id", "kind", "name", name=op.f("uq_step_binding_candidate_step_id_kind_name")
        ),
        sa.UniqueConstraint(
            "candidate_step_id",
            "kind",
            "position",
            name=op.f("uq_step_binding_candidate_step_id_kind_position"),
        ),
    )
    op.create_table(
        "type_cell",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type_row_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.CheckConstraint("position >= 0", name=op.f("ck_type_cell_position")),
        sa.ForeignKeyConstraint(
            ["type_row_id"],
            ["type_row.id"],
            name=op.f("fk_type_cell_type_row_id_type_row"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_type_cell")),
        sa.UniqueConstraint("type_row_id", "position", name=op.f("uq_type_cell_type_row_id_position")),
    )


def downgrade() -> None:
    op.drop_table("type_cell")
    op.drop_table("step_binding")
    op.drop_table("candidate_tensor")
    op.drop_table("candidate_target")
    op.drop_table("candidate_step")
    op.drop_table("candidate_name")
    op.drop_table("candidate_avoid")
    op.drop_table("type_row")
    op.drop_table("unchecked")
    op.drop_table("type_config")
    op.drop_table("torch_binding")
    op.drop_table("result_rule")
    op.drop_table("op_enum")
    op.drop_table("op")
    op.drop_table("kernel_dtype")
    op.drop_table("torch_mapping")
    op.drop_table("tolerance")
    op.drop_table("support")
    op.drop_table("soc_name")
    op.drop_table("sample")
    op.drop_index(op.f("ix_result_executor_id"), table_name="result")
    op.drop_index(op.f("ix_result_conformance_case_id"), table_name="result")
    op.drop_table("result")
    op.drop_table("quant_rule")
    op.drop_index("ix_probe_result_verdicts", table_name="probe_result")
    op.drop_index("ix_probe_result_statuses", table_name="probe_result")
    op.drop_table("probe_result")
    op.drop_index("ix_op_type_cell_dtype", table_name="op_type_cell")
    op.drop_table("op_type_cell")
    op.drop_table("op_tensor")
    op.drop_table("op_rule")
    op.drop_table("op_param")
    op.drop_table("op_let")
    op.drop_table("op_backend")
    op.drop_table("kernel")
    op.drop_table("erratum_seen")
    op.drop_table("erratum_let")
    op.drop_table("erratum_evidence")
    op.drop_table("declared")
    op.drop_table("base")
    op.drop_table("soc")
    op.drop_index("ix_probe_run_sweeps", table_name="probe_run")
    op.drop_table("probe_run")
    op.drop_table("op_type_row")
    op.drop_table("executor")
    op.drop_index(op.f("ix_evidence_cell_evidence_run_id"), table_name="evidence_cell")
    op.drop_table("evidence_cell")
    op.drop_table("erratum")
    op.drop_table("definition")
    op.drop_table("case_rule")
    op.drop_table("candidate")
    op.drop_table("backend_need")
    op.drop_table("backend_chip")
    op.drop_table("support_place")
    op.drop_table("spec_file")
    op.drop_table("source")
    op.drop_table("snapshot")
    op.drop_table("sdk")
    op.drop_table("run")
    op.drop_table("retired")
    op.drop_table("library")
    op.drop_table("implication")
    op.drop_table("family")
    op.drop_table("evidence_run")
    op.drop_index("ix_evidence_outcome_name", table_name="evidence_outcome")
    op.drop_table("evidence_outcome")
    op.drop_table("evidence_file")
    op.drop_table("conformance_case")
    op.drop_table("chip_class")
    op.drop_table("backend")
