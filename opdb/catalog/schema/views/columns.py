"""The type, unit, and meaning of every column of every view, also for docs/reference/sql-views.md and Datasette's metadata.

A line is ``name type[unit] meaning``; a name alone is a column with the same meaning in every view.
"""

from __future__ import annotations

from dataclasses import dataclass

from opdb.catalog.schema.names import STATUSES

_STATUS = f"({', '.join(STATUSES)})"
_COMMON = f"""
op text QNN's name of the op
backend text the QNN backend; empty where it plays no part
soc text the chip, e.g. SM8650; empty where the backend's verdicts do not depend on one
sdk text the QNN SDK, e.g. 2.47
type_row text the documented row of data types, e.g. HTP.FP16.1; empty for what belongs to none
cells text slot: data types; those between | are all allowed
source text document@version#locator
place integer the order within an op
sdk_number integer the SDK as a number to sort by; 2.47.1 is 2047001
declared text whether the documents, or the case, say that it works {_STATUS}
validates text what the library's validation said {_STATUS}
finalizes text whether a graph with it was prepared {_STATUS}
executes text whether it ran {_STATUS}
matches text whether the numbers were PyTorch's, within the op's tolerance {_STATUS}
measurements integer how many measurements are behind the row
run text the run's id
started text when the run began: ISO 8601, UTC
code integer what the library returned: the low 16 bits
code_name text the name of that code
log text what the library wrote
package text the package that the library came in, e.g. onnxruntime-qnn
package_version text the version of that package
emulated boolean whether the library ran on a host in place of the chip
case text the conformance case
executor text what ran the case: python, c, hexagon, torch, onnx.reference, qnn-cpu, qnn-htp
executor_version text the version of what computes
when text the condition under which it applies; empty: always
why text the reason, in words
rule text the permanent id, e.g. LayerNorm.C3
torch_op text the ATen target, e.g. aten.relu.default
inherited text the base that says it; empty: the op itself
latest boolean whether the sweep asked what the last one over this op, library and SoC asked
counts text how many cases had which status, by stage, of evidence from a file
furthest text the last stage that some case passed, of evidence from a file
stopped text the stage and status at which the first case ended that did not pass all stages
reason text what the library logged there, or the numbers that differ
errata text the faults of the library that explain failures, separated by blanks
measured text when: ISO 8601, UTC
execution text where: emulator (a chip on x86-64), host (the processor that the library is for) or device
n integer configs on which the library said yes or no
both_accept integer we accept, the library accepts
both_reject integer we reject, the library rejects
we_accept_it_rejects integer we accept, the library rejects
we_reject_it_accepts integer we reject, the library accepts
undecided integer we cannot judge, the library said yes or no
crashed integer the library crashed or hung
"""
_COUNTS = "n\nboth_accept\nboth_reject\nwe_accept_it_rejects\nwe_reject_it_accepts\nundecided\ncrashed"


@dataclass(frozen=True)
class ViewColumn:
    name: str
    type: str  # text, integer, number or boolean
    about: str
    unit: str = ""


@dataclass(frozen=True)
class ViewAbout:
    name: str
    about: str
    columns: tuple[ViewColumn, ...]
    facets: tuple[str, ...]  # columns with few values, to filter by


def _lines(text: str) -> list[ViewColumn]:
    out = []
    for line in text.strip().splitlines():
        name, _, rest = line.partition(" ")
        if not rest:
            out.append(_KNOWN[name])
            continue
        kind, _, about = rest.partition(" ")
        kind, _, unit = kind.rstrip("]").partition("[")
        out.append(ViewColumn(name, kind, about, unit))
    return out


_KNOWN: dict[str, ViewColumn] = {}
_KNOWN |= {c.name: c for c in _lines(_COMMON)}


def _view(name: str, about: str, columns: str, facets: str = "") -> ViewAbout:
    return ViewAbout(name, about, tuple(_lines(columns)), tuple(facets.split()))


_ABOUT = (
    _view("v_backends", "The QNN backends.", """
backend
about text what it computes on
id integer QNN's number of the backend; empty: none is known
letter text with which the ids of its rules begin
library text the file of its library, where opdb drives it
asked integer 1: the library answers on x86-64 Linux
chips text the only chips that it runs on, between commas; empty: those of its context
ops integer the ops with rules of the backend
context text JSON: what its rules may read
place integer the order of the backends
"""),
    _view("v_socs", "The chips.", """
soc
names text what it is sold as, between commas
hexagon text the version of its Hexagon, e.g. v75; empty: QNN's libraries name none
htp text yes: QNN's libraries prepare graphs for its HTP
floats text what its HTP computes in besides integers: fp16, bf16 or none; empty: it has no HTP
simulated text the first version of QNN whose library simulates graphs for it (opdb cost); empty: none does
vtcm_mb integer VTCM in MiB; empty: no document says
soc_model integer QNN's number of the chip
htp_arch integer the HTP architecture, e.g. 75 for V75
fp16 integer 1: it has floating point
bf16 integer 1: it has bfloat16
soc_ids text what Linux shows in /sys/devices/soc0/soc_id, between blanks
libraries text the versions of QNN, of 2.47 to 2.51, whose library opens it: empty for all, none, since or until one
"""),
    _view("v_op_torch", "The ops that a torch op becomes, directly or as a step of a chain.", """
op
torch_op
"""),
    _view("v_unchecked", "The rules of ops that a backend's library does not check.", """
op
rule
backend
since text the first SDK whose library does not check it; empty: open
until text the last SDK whose library does not check it; empty: open
why
source
place
""", "backend"),
    _view("v_rules", "Every rule, written and derived.", """
op
rule
backend
kind text signature, rank, derived, written or types: in the order of checking
strength text require (else the op is rejected), expect (else a warning)
unchecked text the backends, with SDKs, whose libraries do not check the rule: there it is a warning
when
expression text what must hold, in the rule language
why
inherited
source
place
""", "backend kind strength"),
    _view("v_ops", "The ops of the catalog.", """
op
package text the op package, e.g. qti.aisw
extends text the base that it is derived from
inputs text slots in order; x... takes any number of tensors, x? may be absent
params text names in order
outputs text slots in order
backends text the backends with a document about the op
torch text the ATen targets that are mapped to it alone
rules integer how many rules it has
kernel text our C kernel
summary text what it computes
source
""", "extends"),
    _view("v_params", "The parameters of the ops.", """
op
param text the name
type text as the spec writes it, e.g. u32[2] = [1, 1]
dtype text the data type, e.g. u32
dims text the shape, e.g. [2]; empty for a scalar
optional boolean whether it may be absent
default text the value where it is absent
kind text axis, axes, perm, shape, pads or scalar: how a layout changes it
enum text NAME=value, for an enumeration
inherited
doc text what it means
place
""", "dtype kind optional"),
    _view("v_types", "The documented rows of data types.", """
op
backend
config text the document's name of the configuration, e.g. FP16
type_row
cells
since text the first SDK that has it; empty: open
until text the last SDK that has it; empty: open
source
source_version text the version of that document
needs text what a chip must have, a column of v_socs: fp16 or bf16; empty: nothing
place
""", "backend config"),
    _view("v_type_cells", "The data types that each slot may have in each documented row, one to a row.", """
op
backend
type_row
slot text the input or output
dtype text a data type, e.g. bf16
place
""", "backend dtype"),
    _view("v_torch", "The ATen targets, and how each becomes QNN ops.", """
torch_op
form text op (one op) or decomposition (a chain of ops)
ops text the ops, in the order of execution
decomposition text the name of the decomposition
when
why
inputs text slot: expression over the arguments
absent text slot: what is made where the argument is None
params text parameter: expression
outputs text slot: number of the result, or expression
ignored text argument: why it does not matter
family text the file of specs/torch that has the candidate; empty: the op's own spec
place integer its place in the family: the canonical candidate has the lowest
source
""", "form"),
    _view("v_errata", "The faults of vendor libraries.", """
erratum text its permanent id, e.g. HTP-0042
backend
op text the op whose config tells whether it occurs; empty: it needs a pattern of several ops
title text what goes wrong
effect text wrong-result, not-finalized, crash, refuses-valid or imprecise
cause text graph-preparation, kernel or unknown
since text the first version of QNN that has it; empty: open
until text the last version of QNN that has it; empty: open
arch text the Hexagon versions that have it, between commas; empty: all
socs text the chips that have it, between commas; empty: all
execution text where it was seen: emulator, device or unknown
workaround text what avoids it: a function of opdb/lower/workarounds, other-candidate, prefer-other-candidate or reject
cost text what that costs: none, small or large; empty: not measured
seen text the libraries that showed it, each with the chips that it was opened for, between semicolons
""", "backend effect cause execution cost"),
    _view("v_results", "The last result of each conformance case, executor and SoC.", """
id integer the result's number; later ones are larger
case
kind text positive (made to be accepted) or negative (made to break a rule)
op
type_row
case_backend text the backend that the case is for
backend text the QNN backend that was measured; empty for our own code and PyTorch
soc text the chip; '' where it plays no part
sdk
executor
executor_version
declared
validates
finalizes
executes
matches
rules text the ids of the rules that the executor reported, between blanks
code
code_name
log
package
package_version
emulated
run
started
""", "executor kind validates"),
    _view("v_sweeps", "The sweeps of 'opdb probe' over single ops, with what the library and we said.", f"""
id integer the sweep's number; later ones are larger
run
started
op
backend
soc
sdk
latest
library_id integer the library's number
package
package_version
{_COUNTS}
""", "backend soc sdk latest"),
    _view("v_agreement", "How often a library's validation and ours agree, by the last sweeps.", f"""
op
backend
soc
sdk
{_COUNTS}
percent number[%] of n, those on which both say the same
package
package_version
""", "backend soc sdk"),
    _view("v_census", "How far each op comes in a library, by the last sweeps.", """
op
backend
soc
sdk
asked integer the configs that the sweeps asked about
validates integer how many of them the library's validator took
finalizes integer how many it finalized in a graph of one op
executes integer how many ran
furthest text validates, finalizes or executes; empty: it took none
stopped text no, crashed or hung: what the first good config said to the stage after that
code integer QNN's error code of that config
code_name text its name
config text JSON: the first config that came furthest
package
package_version
""", "backend soc sdk furthest"),
    _view("v_evidence", "The evidence: what libraries did, as opdb ships it or as it was merged; the newest of each cell.", """
kind text op (an op in a type row, by a library alone) or torch (a PyTorch operator, by a whole flow)
op
torch_op
type_row
precision text of a whole flow: float, 8a8w or 16a8w
backend
soc text the chip that was named to the library; v_support gives its cells to all chips of its class
sdk
execution
validates
finalizes
executes
matches
cases integer how many cases were asked
counts
furthest
case text the case that came furthest
config text JSON: its op config
stopped
stopped_case text that case
code
code_name
reason
errata
package
package_version
build_id text what the library says of itself
sha256 text of the library
flow text the whole flow, e.g. ExecuTorch 1.4.1
measured
host text what the machine was
generator text what measured, e.g. opdb 1.5.0
seed integer of the cases' data
case_limit integer the most cases of a cell; 0: all that the specs give
origin text shipped or merged
""", "kind backend soc sdk execution validates matches"),
    _view("v_support", "The five statuses of each op, type row, backend, SoC and SDK: the worst that was measured.", """
op
type_row
cells
backend
soc
sdk
status text yes; yes, except (why: the conditions); no (why: what rules it out); not known
why text the conditions, or the reason
errata text the errata seen in measurements, and those known for these data types, separated by commas
since text the first SDK with the row, where one is known
declared
validates
finalizes
executes
matches
measurements
counts
furthest
stopped
code_name
reason
library text what answered: package and version, where, the chip of the same class that was asked, whose measurement it is
measured
execution text emulator, host or device, of evidence from a file: a device has rows of its own
source
place
sdk_number
""", "backend soc sdk declared validates"),
    _view("v_runs", "Every measurement of one's own, by probes and by conformance runs.", """
kind text probe or conformance
id integer the number among its kind; later ones are larger
run
started
op
type_row
backend
soc
sdk
declared
validates
finalizes
executes
matches
ours text what our validator says: accept, reject or unknown
rules text the ids of the rules that we, or the executor, reported, between blanks
reasons text JSON: what the log says, typed
code
code_name
log
error_max number the largest difference from PyTorch's number
ulp number[ulp] that difference in units of the last place
magnitude number how large PyTorch's number is where ulp is largest
seconds number[s] how long it took
detail text what else was noticed
package
package_version
emulated
config text JSON: the op config
case
case_kind text positive (made to be accepted) or negative (made to break a rule)
executor
executor_version
disagrees boolean of a probe: whether the library said otherwise than we
latest
"""),
    _view("v_coverage", "For each rule: where it is, and which cases tried it; of the last result of each case.", """
op
rule
backend
stated integer 1: it stands in a spec
python integer results in which our Python validator reported it
c integer results in which our C validator reported it
positive integer accepted cases in which it was in force
negative integer cases made to break it
executed integer results of all these cases
implied_by text the rules without which no case can break it
place
""", "backend"),
)  # fmt: skip
#: Ordered so that a view comes after the views it reads.
ABOUT = {v.name: v for v in _ABOUT}
