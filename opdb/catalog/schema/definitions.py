"""The tables that every sync updates to match the specs."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    UniqueConstraint,
)

from opdb.catalog.schema.columns import (
    listed,
    maybe,
    metadata,
    number,
    of,
    one_of,
    parts,
    position,
    shape,
    table,
    text,
    to,
)
from opdb.catalog.schema.names import BINDING_KINDS, FEATURES, RULE_KINDS, STATUS_COLUMNS, TABLES

# -- backends, chips, SDKs, and files

source = table(
    "source", text("text"), text("document"), maybe("version"), maybe("locator"), UniqueConstraint("text")
)
backend = table(
    "backend",
    *position(),
    text("name"),
    Column("number", Integer, nullable=True),  # QNN's backend id
    text("letter"),  # the first letter of its rule ids, e.g. H
    maybe("context"),  # JSON: the names its rules may read, e.g. {"arch": "u32"}
    text("more", "{}"),  # JSON: the other fields of its file
    maybe("about"),  # the hardware it computes on
    maybe("library"),  # its file, if opdb drives it
    Column("asked", Integer, nullable=False, server_default="0"),  # 1: the library answers on x86-64 Linux
    UniqueConstraint("name"),
    UniqueConstraint("letter"),
)
backend_need = parts(  # needs of type rows, by the first word of their configuration
    "backend_need",
    "backend",
    text("feature"),
    key="word",  # a column of soc, e.g. fp16
)
backend_chip = listed("backend_chip", "backend", "chip")  # the only chips it runs on
chip_class = table(
    "chip_class",  # chips that the rules of data types treat alike; "": no chip applies
    text("name"),  # e.g. V73 fp16
    Column("htp_arch", Integer, nullable=True),
    *(Column(name, Integer, nullable=False, server_default="0") for name in FEATURES),
    UniqueConstraint("name"),
)
soc = table(
    "soc",
    *position(),
    text("chip"),  # e.g. SM8650
    to("chip_class"),
    Column("soc_model", Integer, nullable=True),
    Column("htp_arch", Integer, nullable=True),
    text("more", "{}"),  # JSON: the other fields of socs.yaml
    *(Column(name, Integer, nullable=False, server_default="0") for name in FEATURES),  # 1: the chip has it
    maybe("soc_ids"),  # numbers separated by blanks
    maybe("libraries"),  # the versions that open it, e.g. since 2.48; null: all that were tried
    UniqueConstraint("chip"),
)
soc_name = listed("soc_name", "soc", "name")  # its marketing names
sdk = table("sdk", text("version"), UniqueConstraint("version"))
retired = table(
    "retired",
    text("kind"),
    *position(),
    text("entry"),  # JSON
    one_of("kind", ("rules", "ops")),
    UniqueConstraint("kind", "position"),
)
spec_file = table("spec_file", text("path"), text("sha256"), UniqueConstraint("path"))
snapshot = table(
    "snapshot",  # one row: the state after the last sync
    text("hash"),
    text("reader"),  # the version of the code that read the files
    CheckConstraint("id = 1", name="single"),
)

# -- ops and bases

definition = table(
    "definition", text("kind"), maybe("summary"), to("source", nullable=True), one_of("kind", ("op", "base"))
)
base = table(
    "base", of("definition"), text("name"), UniqueConstraint("definition_id"), UniqueConstraint("name")
)
op = table(
    "op",
    of("definition"),
    text("name"),
    text("package"),
    to("base", nullable=True),
    text("hash"),
    UniqueConstraint("definition_id"),
    UniqueConstraint("name"),
)
op_tensor = table(
    "op_tensor",
    of("definition"),
    Column("output", Boolean, nullable=False),
    *position(),
    text("name"),
    *shape(),
    text("dtypes", ""),  # short names separated by spaces
    Column("optional", Boolean, nullable=False),
    Column("static", Boolean, nullable=False),
    Column("variadic", Boolean, nullable=False),
    number("minimum"),
    maybe("count"),
    maybe("index_name"),
    maybe("layout"),
    maybe("doc"),
    UniqueConstraint("definition_id", "output", "position"),
    UniqueConstraint("definition_id", "name"),
)
op_param = parts(
    "op_param",
    "definition",
    text("type"),  # as written; e.g. u32[2] = [1, 1]
    text("dtype"),  # e.g. u32
    text("dims"),  # e.g. [2]
    Column("optional", Boolean, nullable=False),
    maybe("default_value"),
    text("kind"),
    maybe("doc"),
    one_of("kind", ("axis", "axes", "perm", "shape", "pads", "scalar")),
)
op_enum = parts("op_enum", "op_param", Column("value", BigInteger, nullable=False))
op_let = parts("op_let", "definition", text("expression"))
op_rule = table(
    "op_rule",
    of("definition"),
    to("backend", nullable=True),
    *position(),
    text("name"),  # e.g. C3
    text("kind"),
    text("strength"),
    maybe("guard"),  # `when`
    text("expression"),
    maybe("why"),
    to("source", nullable=True),
    one_of("kind", RULE_KINDS),
    one_of("strength", ("require", "expect")),
    UniqueConstraint("definition_id", "name"),
)
op_backend = table(
    "op_backend",
    of("definition"),
    to("backend"),
    *position(),
    to("source", nullable=True),
    maybe("since"),  # first SDK
    maybe("until"),  # last SDK
    UniqueConstraint("definition_id", "position"),
    UniqueConstraint("definition_id", "backend_id"),
)
type_config = parts("type_config", "op_backend", to("source", nullable=True), maybe("since"), maybe("until"))
unchecked = parts(  # the op's rules that a backend does not check
    "unchecked", "op_backend", to("source"), maybe("since"), maybe("until"), maybe("why"), key="rule"
)
type_row = parts("type_row", "type_config")  # e.g. HTP.FP16.1
type_cell = table(
    "type_cell",  # each data type that a slot may have
    of("type_row"),
    *position(),
    text("slot"),
    text("dtype"),  # short name
    UniqueConstraint("type_row_id", "position"),
)
torch_mapping = parts(
    "torch_mapping",  # of the op's own spec; those of families are candidates
    "definition",
    maybe("guard"),
    maybe("why"),
    to("source", nullable=True),
    maybe("signature"),
    key="target",
)
torch_binding = parts(
    "torch_binding",
    "torch_mapping",
    text("expression"),  # for an ignored argument, the reason
    one_of("kind", BINDING_KINDS),
    within=("kind",),
)
quant_rule = parts("quant_rule", "definition", text("value"))  # JSON
kernel = table(
    "kernel",
    of("definition"),
    text("function"),
    maybe("each"),  # JSON: the formula of one element of the result, if the function is generated
    maybe("by"),  # the enum parameter that selects a formula
    maybe("arguments"),  # names separated by blanks; NULL: all inputs, parameters, and outputs
    maybe("computes"),  # the data type that the function is written for
    maybe("scratch"),  # expression: bytes
    maybe("tiling"),  # JSON: ways to split a run
    UniqueConstraint("definition_id"),
)
kernel_dtype = listed("kernel_dtype", "kernel", "dtype")  # short name
tolerance = parts(
    "tolerance", "definition", text("ulp"), Column("absolute", Float, nullable=False), key="dtype"
)
sample = table(
    "sample",
    of("definition"),
    *position(),
    text("value"),  # JSON
    UniqueConstraint("definition_id", "position"),
)

# -- families of candidates

family = table(
    "family",
    text("name"),
    text("summary"),
    text("hash"),  # of what its rows say
    UniqueConstraint("name"),
)
candidate = table(
    "candidate",  # of an entry with variants there is one for each
    of("family"),
    *position(),
    text("name"),
    text("form"),  # op: a mapping to one op; chain
    number("entry"),  # its place in the file, from 0
    maybe("variant"),
    maybe("summary"),  # of a chain
    maybe("guard"),  # `when`
    maybe("why"),
    maybe("signature"),  # the schema of a target that is not ATen's
    to("source", nullable=True),
    one_of("form", ("op", "chain")),
    UniqueConstraint("family_id", "position"),
)
candidate_target = listed("candidate_target", "candidate", "target")
candidate_avoid = listed("candidate_avoid", "candidate", "erratum")  # that cannot show in it
candidate_name = parts(
    "candidate_name",  # named expressions, and ignored arguments with their reasons
    "candidate",
    text("expression"),
    one_of("kind", ("let", "ignored")),
    within=("kind",),
)
candidate_tensor = parts(
    "candidate_tensor", "candidate", *shape(), maybe("like_tensor")
)  # else as the op infers
candidate_step = table(
    "candidate_step",  # an op; that of a mapping is its only step
    of("candidate"),
    *position(),
    text("op"),
    maybe("line"),  # of the formula that it stands in
    Column("entry", Integer, nullable=True),  # its place in the file, where the chain is written op by op
    UniqueConstraint("candidate_id", "position"),
)
step_binding = parts(
    "step_binding",
    "candidate_step",
    text("expression"),
    one_of("kind", BINDING_KINDS[:-1]),
    within=("kind",),
)

# -- faults in vendor libraries

erratum = table(
    "erratum",
    text("name"),  # its id; e.g. HTP-0042
    to("backend"),
    maybe("op"),  # the op whose config the conditions read; by name, because sync may rewrite the op
    text("title"),
    maybe("pattern"),  # the ops it needs, in words
    text("effect"),
    maybe("guard"),  # `when`
    maybe("exception"),  # `unless`
    maybe("detail"),
    text("cause"),
    maybe("since"),  # first affected version of QNN
    maybe("until"),  # last affected version
    text("arch"),  # JSON: Hexagon versions; []: all
    text("socs"),  # JSON: chips; []: all
    text("execution"),  # where it was seen
    text("workaround"),
    maybe("cost_class"),
    maybe("cost_note"),
    maybe("reproduction"),  # JSON
    Column("flaky", Boolean, nullable=False),
    one_of("effect", ("wrong-result", "not-finalized", "crash", "refuses-valid", "imprecise")),
    one_of("cause", ("graph-preparation", "kernel", "unknown")),
    one_of("execution", ("emulator", "device", "unknown")),
    one_of("cost_class", ("none", "small", "large")),
    UniqueConstraint("name"),
)
erratum_let = parts("erratum_let", "erratum", text("expression"))
erratum_seen = table(
    "erratum_seen",
    of("erratum"),
    *position(),
    text("library"),  # e.g. HTP 2.47.0
    text("socs"),  # JSON
    maybe("date"),
    to("source", nullable=True),
    UniqueConstraint("erratum_id", "position"),
)
erratum_evidence = table(
    "erratum_evidence",  # results on devices
    of("erratum"),
    *position(),
    text("device"),
    text("model"),
    text("runtime"),
    text("figure"),
    text("shows"),
    to("source", nullable=True),
    one_of("shows", ("absent", "present")),
    UniqueConstraint("erratum_id", "position"),
)

# -- derived by sync: type rows by op, and support by class of chips

op_type_row = table(
    "op_type_row",  # an op's rows, including inherited ones; an undocumented row that was measured has no place
    text("op"),
    text("backend"),
    text("type_row"),  # e.g. HTP.FP16.1
    maybe("config"),  # e.g. FP16
    maybe("cells"),  # in words
    maybe("since"),
    maybe("until"),
    to("source", nullable=True),
    maybe("needs"),  # a column of soc, e.g. fp16
    Column("place", Integer, nullable=True),  # index among the op's rows
    UniqueConstraint("op", "type_row", "backend"),
)
op_type_cell = table(
    "op_type_cell",  # each data type that a row allows for a slot
    of("op_type_row"),
    *position(),
    text("slot"),
    text("dtype"),
    UniqueConstraint("op_type_row_id", "position"),
    Index("ix_op_type_cell_dtype", "dtype"),
)
op_type_fault = table(
    "op_type_fault",  # errata that can occur for a row's data types, whatever their scope
    of("op_type_row"),
    text("erratum"),
    Column("always", Boolean, nullable=False),  # the data types alone make it occur
    UniqueConstraint("op_type_row_id", "erratum"),
)
declared = table(
    "declared",  # opdb.spec.declared: SDKs that have a row on a class of chips
    of("op_type_row"),
    to("chip_class"),
    number("first"),  # as numbers: 2.47.1 is 2047001
    number("last"),
    UniqueConstraint("op_type_row_id", "chip_class_id", "first"),
)
support_place = table(
    "support_place",  # chips with the same support rows share a part
    number("part"),
    text("soc"),  # "": no chip applies
    UniqueConstraint("part", "soc"),
)
support_status = table(
    "support_status",  # opdb.catalog.evidence.status: the status of rows of support in words
    text("status"),
    text("why"),  # the exceptions, or what rules the row out
    text("errata"),  # separated by ", "
    UniqueConstraint("status", "why", "errata"),
)
support = table(
    "support",  # opdb.catalog.store.support: the contents of v_support, stored once for all chips of a part
    of("op_type_row"),
    number("part"),
    text("sdk"),
    number("sdk_number"),
    Column("device", Boolean, nullable=False),  # results on devices have separate rows
    to("support_status"),
    *(text(c) for c in STATUS_COLUMNS),
    to("evidence_cell", nullable=True),
    Column("own", Boolean, nullable=False),  # from own runs, not from evidence
    number("n"),  # the number of own measurements
    maybe("at"),  # the time of the last one
    maybe("library"),  # the library they ran
    UniqueConstraint("op_type_row_id", "part", "sdk", "device"),
)

#: Ordered so that parents come first.

DEFINITIONS = tuple(metadata.tables[name] for name in TABLES)
