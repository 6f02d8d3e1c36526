"""A family: the ordered candidates of a group of ATen targets, the canonical one first (specs/torch/<family>.yaml).

A candidate maps a target to one op (``op``), or to a chain of ops, as a formula (``expression``) or op by op (``ops``).
Its ``when`` states where it is correct; opdb.lower chooses between several correct ones.  A candidate with
``variants`` stands for one candidate per variant: ``$name`` in its texts is replaced by the variant's value.
``FamilyDef`` is the file; the catalog and its rows in SQL have ``Family``, with variants expanded and formulas as steps.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from opdb.spec.definitions import Fault
from opdb.spec.fields import Expression, Identifier, Model, Source, listed
from opdb.spec.formula import read_formula
from opdb.spec.hashes import to_json
from opdb.spec.lang.parse import ExpressionError
from opdb.spec.model import Decomposition, Intermediate, OpDef, Step, TorchMapping

VALUE = re.compile(r"\$([A-Za-z_]\w*)")
PLAIN = re.compile(r"-?[\w.]+")  # a value that needs no brackets inside an expression
PROSE = ("summary", "why", "ignored")  # texts that are not expressions
Place = tuple[str | int, ...]
#: An op, or the ``$name`` of one.
OpName = Annotated[str, Field(pattern=r"^\$?[A-Za-z_][A-Za-z0-9_]*$")]


def _lines(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


class VariantDef(Model):
    """One variant of a candidate: its targets, and the value of each ``$name``."""

    torch: Annotated[list[str], BeforeValidator(listed)]
    values: dict[Identifier, Expression] = {}


class VariantIntermediate(Intermediate):
    only: Annotated[list[Identifier], BeforeValidator(listed)] = []  # names of variants


class VariantStep(Step):
    op: OpName
    outputs: dict[Identifier, Expression]
    only: Annotated[list[Identifier], BeforeValidator(listed)] = []


class CandidateDef(Model):
    """One entry of a family, as in its file."""

    candidate: Identifier | None = None  # None: the op's name
    summary: str | None = None
    torch: Annotated[list[str], BeforeValidator(listed)] = []
    signature: str | None = None  # the schema of a target that is not ATen's
    variants: dict[Identifier, VariantDef] = {}
    when: Expression | None = None
    why: str | None = None
    let: dict[Identifier, Expression] = {}
    tensors: dict[Identifier, VariantIntermediate] = {}
    op: OpName | None = None
    inputs: dict[Identifier, Expression] = {}
    absent: dict[Identifier, Expression] = {}
    params: dict[Identifier, Expression] = {}
    outputs: dict[Identifier, Expression] = {}
    expression: Annotated[str, BeforeValidator(_lines)] | None = None
    ops: list[VariantStep] = []
    ignored: dict[Identifier, str] = {}
    avoids: list[str] = []  # errata that cannot occur here, whatever the configs of its ops, e.g. HTP-0318
    source: Source | None = None

    @model_validator(mode="after")
    def _sound(self) -> CandidateDef:
        if bool(self.torch) == bool(self.variants):
            raise ValueError("a candidate has either 'torch', its targets, or 'variants', each with its own")
        if sum(map(bool, (self.op, self.expression, self.ops))) != 1:
            raise ValueError("a candidate has one of 'op' (one op), 'expression' and 'ops' (chains)")
        of_one = (self.signature, self.inputs, self.absent, self.params, self.outputs, self.source)
        if self.op is None and any(of_one):
            raise ValueError(
                "signature, inputs, absent, params, outputs and source belong to 'op'; those of a chain stand in its 'expression' or 'ops'"
            )
        if self.op is not None and (self.let or self.tensors):
            raise ValueError("'let' and 'tensors' belong to a chain; write 'expression'")
        if self.op is None and self.candidate is None and not self.variants:
            raise ValueError("a chain needs a name under 'candidate'")
        if self.op is None and self.summary is None:
            raise ValueError("a chain needs a 'summary'")
        return self


class FamilyDef(Model):
    """One file of specs/torch."""

    family: Identifier
    summary: str
    candidates: list[CandidateDef]


@dataclass(frozen=True)
class Candidate:
    """One way to express ``torch``, with variants expanded: a mapping to ``op``, or a chain."""

    family: str
    name: str
    torch: tuple[str, ...]
    op: str | None
    definition: TorchMapping | Decomposition
    entry: int  # its index in the family
    avoids: tuple[str, ...] = ()  # ids of errata
    steps: tuple[int, ...] = ()  # for a chain given op by op, the indices of its steps in the entry
    lines: tuple[str, ...] = ()  # for a formula, the line of each step
    variant: str | None = None

    @property
    def ops(self) -> tuple[str, ...]:
        """The distinct ops it becomes, in the order of its steps."""
        steps = self.definition.ops if isinstance(self.definition, Decomposition) else ()
        return (self.op,) if self.op is not None else tuple(dict.fromkeys(s.op for s in steps))

    def fault(self, fault: Fault) -> Fault:
        """Moves a fault of the mapping or the chain to its place in the family's file."""
        at = fault.at[2:] if self.op is not None else fault.at
        told, column = fault.message, 0 if self.variant else fault.column
        if at[:1] == ("ops",) and self.lines:
            told += f" (in the line '{self.lines[int(at[1])]}')" if len(at) > 1 else ""
            at, column = ("expression",), 0
        elif at[:1] == ("ops",) and len(at) > 1:
            at = ("ops", self.steps[int(at[1])], *at[2:])
        told += f" (variant {self.variant})" if self.variant else ""
        return Fault(("candidates", self.entry, *at), told, column)


@dataclass(frozen=True)
class Family:
    """A family with its variants and formulas worked out."""

    family: str
    summary: str
    candidates: tuple[Candidate, ...]

    @cached_property
    def digest(self) -> str:
        """sha256 over everything that the family says."""
        said = [
            {
                **vars(c),
                "definition": c.definition.model_dump(mode="json"),
                "form": type(c.definition).__name__,
            }
            for c in self.candidates
        ]
        text = to_json([self.family, self.summary, said])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def families_of(files: Mapping[str, FamilyDef], ops: Mapping[str, OpDef]) -> dict[str, Family]:
    """The families of sound files; ``ops`` as in ``expand``."""
    return {name: Family(name, f.summary, expand(f, ops)[0]) for name, f in files.items()}


def expand(
    family: FamilyDef, ops: Mapping[str, OpDef] = MappingProxyType({})
) -> tuple[tuple[Candidate, ...], tuple[Fault, ...]]:
    """The candidates of a family in order, and the faults of its variants and formulas.

    ``ops``: the ops that formulas may use, with bases merged in.
    """
    found: list[Candidate] = []
    faults: list[Fault] = []
    for i, entry in enumerate(family.candidates):
        names: list[str | None] = [*entry.variants] or [None]
        data = _data(entry)
        wrong = [*_only(entry, i), *(fault for name in names for fault in _unknown(entry, data, i, name))]
        faults += wrong
        for name in [] if wrong else names:
            try:
                found.append(_candidate(family.family, i, entry, data, name, ops))
            except ExpressionError as error:
                told = f"{error.message}: {error.shown}" + (f" (variant {name})" if name else "")
                faults.append(Fault(("candidates", i, "expression"), told))
            except ValidationError as error:
                told = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
                faults.append(Fault(("candidates", i, "variants", name or ""), told))
    return tuple(found), tuple(faults)


def _unknown(entry: CandidateDef, data: Mapping[str, Any], i: int, variant: str | None) -> Iterator[Fault]:
    """Reports values that the texts read but the variant lacks, or that the variant gives but nothing reads."""
    at: Place = ("candidates", i)
    values: Mapping[str, str] = entry.variants[variant].values if variant else {}
    read = {n for text in _texts(_of(entry, data, variant)) for n in VALUE.findall(text)}
    for name in sorted(read - values.keys()):
        if variant:
            known = f"; it gives {', '.join(values)}" if values else ""
            yield Fault(
                (*at, "variants", variant), f"the variant '{variant}' gives no value for '${name}'{known}"
            )
        else:
            yield Fault(at, f"'${name}' is a value of variants, and this candidate has none")
    for name in sorted(values.keys() - read):
        yield Fault(
            (*at, "variants", variant or "", "values", name), f"no text of the candidate reads '${name}'"
        )


def _only(entry: CandidateDef, i: int) -> Iterator[Fault]:
    """Reports variants under ``only`` that the candidate does not have."""
    places: list[tuple[Place, list[str]]] = [(("ops", n), s.only) for n, s in enumerate(entry.ops)]
    places += [(("tensors", name), made.only) for name, made in entry.tensors.items()]
    for place, names in places:
        for name in names:
            if name not in entry.variants:
                known = f"; known: {', '.join(entry.variants)}" if entry.variants else ""
                yield Fault(("candidates", i, *place, "only"), f"no variant '{name}'{known}")


def _data(entry: CandidateDef) -> dict[str, Any]:
    """The entry as plain data, without the fields that are read from the model."""
    return entry.model_dump(mode="json", exclude={"variants", "torch", "candidate"})


def _of(entry: CandidateDef, data: Mapping[str, Any], variant: str | None) -> dict[str, Any]:
    """The data of an entry with the steps and tensors of one variant."""
    steps = [data["ops"][n] for n in _steps(entry, variant)] if entry.ops else []
    tensors = {n: made for n, made in data.get("tensors", {}).items() if _in(entry.tensors[n].only, variant)}
    return {
        **data,
        "ops": [{k: v for k, v in step.items() if k != "only"} for step in steps],
        "tensors": {n: {k: v for k, v in made.items() if k != "only"} for n, made in tensors.items()},
    }


def _steps(entry: CandidateDef, variant: str | None) -> tuple[int, ...]:
    return tuple(n for n, step in enumerate(entry.ops) if _in(step.only, variant))


def _in(only: list[str], variant: str | None) -> bool:
    return not only or variant in only


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _candidate(
    family: str,
    i: int,
    entry: CandidateDef,
    whole: Mapping[str, Any],
    variant: str | None,
    ops: Mapping[str, OpDef],
) -> Candidate:
    """Builds the candidate of an entry, or of one of its variants.

    Raises ValidationError for a value that is invalid in its place, ExpressionError for a faulty formula.
    """
    data = _of(entry, whole, variant)
    targets, name = entry.torch, entry.candidate or ""
    if variant is not None:
        chosen = entry.variants[variant]
        data = {k: _filled(v, chosen.values, k in PROSE) for k, v in data.items()}
        targets, name = chosen.torch, variant
    if entry.op is not None:
        op = data["op"]
        mapping = TorchMapping.model_validate(
            {k: v for k, v in data.items() if k in TorchMapping.model_fields}
        )
        return Candidate(family, op, tuple(targets), op, mapping, i, tuple(entry.avoids), variant=variant)
    chain = {k: v for k, v in data.items() if k in Decomposition.model_fields}
    lines: tuple[str, ...] = ()
    if entry.expression is not None:
        formula = read_formula(data["expression"], ops)
        lines = tuple(s.line for s in formula.steps)
        chain["ops"] = [{k: v for k, v in vars(s).items() if k != "line"} for s in formula.steps]
        for tensor, like in formula.likes.items():
            chain["tensors"] = {
                **chain["tensors"],
                tensor: {**chain["tensors"].get(tensor, {}), "like": like},
            }
    made = Decomposition.model_validate({**chain, "decomposition": name, "torch": list(targets)})
    avoids, steps = tuple(entry.avoids), _steps(entry, variant)
    return Candidate(family, name, tuple(targets), None, made, i, avoids, steps, lines, variant)


def _filled(value: Any, values: Mapping[str, str], prose: bool) -> Any:
    """``value`` with each ``$name`` replaced, in parentheses inside a longer expression."""
    if isinstance(value, dict):
        return {k: _filled(v, values, prose) for k, v in value.items()}
    if isinstance(value, list):
        return [_filled(v, values, prose) for v in value]
    if not isinstance(value, str):
        return value

    def put(match: re.Match[str]) -> str:
        given = values[match[1]]
        whole = prose or match[0] == value or PLAIN.fullmatch(given)
        return given if whole else f"({given})"

    return VALUE.sub(put, value)
