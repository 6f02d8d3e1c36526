"""The definition of an op, as data: frozen models with the structure of the YAML files, expressions still as text.

Principles.  A model has exactly the contents of its file (``resolve`` merges ``extends`` and keeps
the name of the base), so that YAML -> model -> YAML and YAML -> SQL -> YAML are the identity; only families
are in SQL as ``opdb.spec.family.expand`` gives them.
Order matters: slots are in QNN's order, rules in the order of checking.  ``opdb.spec.definitions``
derives everything that needs more than one field (names, types, derived rules), never this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
    Field,
    model_serializer,
    model_validator,
)

from opdb.core.dtypes import BY_SHORT
from opdb.runtime.checks import RuleStrength
from opdb.spec.fields import IDENTIFIER, Expression, Identifier, Model, Source, WithShort, listed
from opdb.spec.spelling import no_type
from opdb.spec.tiling import Tiling

KERNEL = r"^opdb_[a-z0-9_]+$"  # no other C functions are called
PARAM = re.compile(
    r"^(?P<base>[a-z][a-z0-9]*|enum (i32 )?\{[^{}]*\})(?P<dims>(\[\d*\]){0,2})(?P<absent>\?)?( = (?P<default>.+))?$"
)


class TensorDef(WithShort):
    """One tensor slot.  Three spellings: a list of dims, a shape expression, a record."""

    shape: list[Expression] | str | None = None  # None: any shape (variadic inputs), "any": not inferable
    dtype: Annotated[list[str], BeforeValidator(listed)] = []  # fixed data types
    optional: bool = False
    static: bool = False
    variadic: bool = False
    min: int = 1  # minimum number of tensors in a variadic slot
    count: Expression | None = None  # number of tensors of a variadic output
    index: Identifier | None = None  # the name of the tensor's index in the shape of a variadic output
    layout: str | None = None  # e.g. NHWC
    doc: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        return {"shape": raw} if isinstance(raw, (list, str)) else raw

    @model_validator(mode="after")
    def _sound(self) -> TensorDef:
        for d in self.dtype:
            if d not in BY_SHORT:
                raise ValueError(no_type(d))
        return self

    def _short(self, kept: dict[str, Any]) -> Any:
        return kept["shape"] if list(kept) == ["shape"] else kept


class ParamDef(WithShort):
    """One parameter.  ``type`` in one line: ``u32[2] = [1, 1]``, ``f32 = 0.001``, ``f32?``, ``enum {A: 0} = A``.

    An enum is u32, as most of QNN's are; the exceptions are ``enum i32 {A: 0}``.
    """

    type: str
    kind: Literal["axis", "axes", "perm", "shape", "pads", "scalar"] = "scalar"
    doc: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        return {"type": raw} if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _sound(self) -> ParamDef:
        match = PARAM.match(self.type)
        if match is None:
            raise ValueError(
                f"'{self.type}' is not a parameter type; e.g. u32, f32 = 0.5, u32[2], u32[], f32?, enum {{A: 0, B: 1}}"
            )
        if not self.enum and self.base not in BY_SHORT:
            raise ValueError(f"'{self.base}' is not a data type; e.g. u32, f32, bool8")
        if match["absent"] and match["default"]:
            raise ValueError("a parameter has '?' (may be absent) or a default, not both")
        if len(set(self.enum.values())) != len(self.enum):
            raise ValueError("two names of the enum have one value")
        return self

    @property
    def _match(self) -> re.Match[str]:
        match = PARAM.match(self.type)
        assert match is not None, "validated"
        return match

    @property
    def enum(self) -> dict[str, int]:
        """Maps the names of an enum parameter to values; empty for other parameters."""
        base = self._match["base"]
        if not base.startswith("enum"):
            return {}
        out: dict[str, int] = {}
        for part in base[base.index("{") + 1 : -1].split(","):
            name, _, value = part.partition(":")
            if not re.match(IDENTIFIER, name.strip()) or not value.strip().isdigit() or name.strip() in out:
                raise ValueError(f"'{part.strip()}' is not NAME: NUMBER, or is given twice")
            out[name.strip()] = int(value)
        return out

    @property
    def base(self) -> str:
        """The short dtype of one value."""
        base = self._match["base"]
        if base.startswith("enum"):
            return "i32" if base.startswith("enum i32 ") else "u32"
        return base

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The dimensions; () for a scalar, None for a free length."""
        return tuple(int(d) if d else None for d in re.findall(r"\[(\d*)\]", self._match["dims"]))

    @property
    def default(self) -> str | None:
        return self._match["default"]

    @property
    def optional(self) -> bool:
        return bool(self._match["absent"])

    def _short(self, kept: dict[str, Any]) -> Any:
        return kept["type"] if list(kept) == ["type"] else kept


#: The strengths of rules, which are the keys of their expressions in a spec.
STRENGTHS: tuple[RuleStrength, ...] = get_args(RuleStrength)


class Rule(WithShort):
    """One constraint.  ``require`` must hold; ``expect`` is a warning where a backend leaves it open.

    Faults of a library on ops that it accepts are not rules but records of specs/errata.
    """

    when: Expression | None = None
    require: Expression | None = None
    expect: Expression | None = None
    why: str | None = None
    source: Source | None = None

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        return {"require": raw} if isinstance(raw, (str, bool, int)) else raw

    @model_validator(mode="after")
    def _sound(self) -> Rule:
        if len([s for s in STRENGTHS if getattr(self, s) is not None]) != 1:
            raise ValueError(
                "a rule has either 'require' or 'expect'; faults of a library belong in specs/errata"
            )
        return self

    @property
    def strength(self) -> RuleStrength:
        return next(s for s in STRENGTHS if getattr(self, s) is not None)

    @property
    def expression(self) -> str:
        return getattr(self, self.strength) or ""

    def _short(self, kept: dict[str, Any]) -> Any:
        return kept["require"] if list(kept) == ["require"] else kept


Cell = Annotated[list[str], BeforeValidator(listed)]


class Configuration(Model):
    """The source of a configuration's rows and the SDKs that have them, if they differ from the backend's."""

    source: Source | None = None  # e.g. probe HTP 2.47.0
    since: str | None = None  # first SDK, e.g. 2.47
    until: str | None = None  # last SDK


class Unchecked(WithShort):
    """A rule of the op that a backend's libraries do not check, so that breaking it is only a warning there."""

    source: Source
    since: str | None = None  # first SDK, e.g. 2.47
    until: str | None = None  # last SDK
    why: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, raw: Any) -> Any:
        return {"source": raw} if isinstance(raw, str) else raw

    def _short(self, kept: dict[str, Any]) -> Any:
        return kept["source"] if list(kept) == ["source"] else kept


def unchecked_where(backend: str, since: str | None, until: str | None) -> str:
    """A backend with a range of SDKs as text, e.g. HTP since 2.47."""
    return " ".join([backend, *([f"since {since}"] if since else []), *([f"until {until}"] if until else [])])


class BackendDef(Model):
    """One backend's documentation of the op: its own rules, and the rows of allowed dtypes."""

    source: Source | None = None
    since: str | None = None  # first SDK, e.g. 2.13
    until: str | None = None  # last SDK
    constraints: dict[Identifier, Rule] = {}
    unchecked: dict[Identifier, Unchecked] = {}  # by the id of the op's rule
    dtypes: dict[Identifier, list[dict[Identifier, Cell]]] = {}
    configurations: dict[Identifier, Configuration] = {}  # of `dtypes`

    @model_serializer(mode="wrap")
    def _rows(self, handler: Any) -> Any:
        full: dict[str, Any] = handler(self)
        out = {k: v for k, v in full.items() if v not in (None, {})}
        if "dtypes" in out:
            out["dtypes"] = {
                config: [{k: v[0] if len(v) == 1 else v for k, v in row.items()} for row in rows]
                for config, rows in out["dtypes"].items()
            }
        return out


class TorchMapping(Model):
    """One torch target -> this op.  Right-hand sides are expressions over the schema's argument names."""

    signature: str | None = (
        None  # the schema of a target that is not ATen's; e.g. my_relu(Tensor x) -> Tensor
    )
    when: Expression | None = None
    why: str | None = None  # the meaning of the guard, in words
    inputs: dict[Identifier, Expression] = {}
    absent: dict[Identifier, Expression] = {}
    params: dict[Identifier, Expression] = {}
    #: output slot -> the number of the torch result, or an expression over `result` / `results`
    outputs: dict[Identifier, Expression] = {}
    ignored: dict[Identifier, str] = {}
    source: Source | None = None


#: The formula of a result element: one expression, or one for each kind of numbers (opdb.spec.lang.element).
EachDef = Expression | dict[Literal["truth", "whole", "real"], Expression]


class KernelDef(Model):
    """The C function that computes the op, and the dtypes it takes (short names of the first input).

    ``each``: the function is generated from the formula of a result element over the input elements; with
    ``by``, from one formula for each value of that enum parameter.  Without ``each`` it is written by hand.
    ``arguments``: the function's arguments in order: inputs, parameters, names of ``let``, outputs;
    by default all inputs, parameters, and outputs.  ``computes``: the type it is written for; tensors of
    other real types are converted to it and back.  ``scratch``: the extra bytes it needs, passed last.
    ``tiling``: ways to split a run; by default it computes its whole output at once.
    """

    function: Annotated[str, Field(pattern=KERNEL)]
    each: EachDef | dict[Identifier, EachDef] | None = None
    by: Identifier | None = None
    arguments: list[Identifier] | None = None
    computes: Literal["f32"] | None = None
    scratch: Expression | None = None
    tiling: Tiling | None = None
    dtypes: list[str]

    @model_validator(mode="after")
    def _sound(self) -> KernelDef:
        if self.by is not None and not isinstance(self.each, dict):
            raise ValueError("with 'by', 'each' has an expression for each value of that parameter")
        if (
            self.by is None
            and isinstance(self.each, dict)
            and not self.each.keys() <= {"truth", "whole", "real"}
        ):
            raise ValueError(
                "without 'by', 'each' is an expression, or one for each of truth, whole and real"
            )
        if self.each is not None and (self.arguments or self.computes or self.scratch):
            raise ValueError("a generated function has no 'arguments', 'computes' or 'scratch' of its own")
        for d in self.dtypes:
            if d not in BY_SHORT:
                raise ValueError(no_type(d))
        return self


class Tolerance(Model):
    """The allowed difference of a result from the oracle: units in the last place, and an absolute floor."""

    ulp: Expression = "0"
    abs: float = 0.0


class Body(Model):
    """The fields that ops and bases have in common."""

    summary: str | None = None
    source: Source | None = None
    inputs: dict[Identifier, TensorDef] = {}
    params: dict[Identifier, ParamDef] = {}
    let: dict[Identifier, Expression] = {}
    outputs: dict[Identifier, TensorDef] = {}
    constraints: dict[Identifier, Rule] = {}
    backends: dict[Identifier, BackendDef] = {}
    torch: dict[str, TorchMapping] = {}
    quant: dict[str, Any] = {}
    kernel: KernelDef | None = None
    tolerance: dict[str, Tolerance] = {}
    samples: list[dict[Identifier, Any]] = []


class BaseDef(Body):
    """The shared definition of a family of ops (specs/bases/)."""

    base: Identifier


#: The package of QNN's own ops.
QNN_PACKAGE = "qti.aisw"


class OpDef(Body):
    """One op (specs/ops/<Op>.yaml).  ``torch`` is for ops of other packages: families map QNN's ops."""

    op: Identifier
    package: str = QNN_PACKAGE
    extends: Identifier | None = None

    @property
    def slots(self) -> dict[str, TensorDef]:
        return {**self.inputs, **self.outputs}


def resolve(own: OpDef, bases: Mapping[str, BaseDef]) -> OpDef:
    """The op with its base merged in: the op's entries win, the base's come first in order."""
    if own.extends is None:
        return own
    base = bases[own.extends]
    merged: dict[str, Any] = {}
    for name in type(base).model_fields:
        if name == "base":
            continue
        ours, theirs = getattr(own, name), getattr(base, name)
        merged[name] = {**theirs, **ours} if isinstance(ours, dict) else ours or theirs
    return OpDef.model_construct(**merged, op=own.op, package=own.package, extends=own.extends)


class Intermediate(Model):
    """A tensor between two ops of a decomposition that differs from what its op infers.

    ``like``: an expression whose dtype and encoding it takes, or a dtype.
    """

    shape: list[Expression] | str | None = None
    like: Expression | None = None

    @model_validator(mode="after")
    def _sound(self) -> Intermediate:
        if self.shape is None and self.like is None:
            raise ValueError("a tensor is stated for its 'shape' or 'like'; leave out what the op infers")
        return self


class Step(Model):
    """One QNN op of a decomposition."""

    op: Identifier
    inputs: dict[Identifier, Expression] = {}
    absent: dict[Identifier, Expression] = {}
    params: dict[Identifier, Expression] = {}
    outputs: dict[Identifier, Expression]


class Decomposition(Model):
    """A chain of QNN ops for one torch node: a candidate of a family (opdb.spec.family) with variants expanded."""

    decomposition: Identifier
    summary: str
    torch: Annotated[list[str], BeforeValidator(listed)]
    when: Expression | None = None
    why: str | None = None
    let: dict[Identifier, Expression] = {}
    tensors: dict[Identifier, Intermediate] = {}
    ops: list[Step]
    ignored: dict[Identifier, str] = {}
