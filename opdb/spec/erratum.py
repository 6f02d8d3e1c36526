"""A fault in a vendor library, as data: the model of specs/errata/<backend>/<ID>.yaml, with expressions as text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opdb.spec.fields import Expression, Identifier, Model, Source, Version, WithShort

ID = r"^[A-Z][A-Z0-9]*-[0-9]{4}$"
NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


class Scope(Model):
    """The versions and chips that have the fault.  An omitted field does not limit it."""

    since: Version | None = None  # first QNN version that has it, as measured; e.g. '2.47'
    until: Version | None = None  # last version that has it
    arch: list[int] = Field(default_factory=list)  # Hexagon versions; e.g. [68, 69]
    socs: list[str] = Field(default_factory=list)  # e.g. [SM8350]
    execution: Literal["emulator", "device", "unknown"] = "unknown"  # where it was seen


class Cost(WithShort):
    """The cost of the workaround.  Small: at most one extra op per node, no extra MACs, at most twice the bytes."""

    class_: Annotated[Literal["none", "small", "large"], Field(alias="class")]
    note: str | None = None

    def _short(self, kept: dict[str, Any]) -> Any:
        return {"class": kept.pop("class_"), **kept}


class Seen(Model):
    """One observation of the fault."""

    library: str  # e.g. HTP 2.47.0
    socs: list[str] = Field(default_factory=list)
    date: Annotated[str, Field(pattern=DATE)] | None = None
    source: Source | None = None


class Evidence(Model):
    """Evidence from a device: a published accuracy that the fault would have spoiled, or did spoil."""

    device: str
    model: str
    runtime: str
    figure: str
    shows: Literal["absent", "present"]
    source: Source | None = None


class Reproduction(Model):
    """The smallest case that shows the fault: one op config, or a graph of op configs joined by tensor names."""

    config: dict[str, Any] | None = None
    graph: list[dict[str, Any]] = Field(default_factory=list)
    inputs: dict[str, Any] = Field(
        default_factory=dict
    )  # the contents of inputs: arange, random, or a list of values
    expected: str | None = None
    seen: str | None = None

    @model_validator(mode="after")
    def _sound(self) -> Reproduction:
        if (self.config is None) == (not self.graph):
            raise ValueError("a reproduction has either 'config' (one op) or 'graph' (a list of ops)")
        return self


class Erratum(Model):
    """One record of specs/errata."""

    erratum: Annotated[str, Field(pattern=ID)]  # permanent; the name of the file
    title: Annotated[str, Field(min_length=1, max_length=140)]
    op: Identifier | None = None  # the op whose config `when` and `unless` read
    pattern: str | None = None  # the ops it needs, in words, if one op alone does not show it
    effect: Literal["wrong-result", "not-finalized", "crash", "refuses-valid", "imprecise"]
    let: dict[Identifier, Expression] = Field(default_factory=dict)
    when: Expression | None = None  # the fault occurs if this holds
    unless: Expression | None = None  # and this does not
    detail: str | None = None
    cause: Literal["graph-preparation", "kernel", "unknown"] = "unknown"
    scope: Scope = Scope()
    workaround: Annotated[str, Field(pattern=NAME)]
    cost: Cost | None = None
    seen: list[Seen] = Field(default_factory=list)
    evidence: list[Evidence] = Field(default_factory=list)
    reproduction: Reproduction | None = None
    flaky: bool = False  # it shows depending on uninitialized memory

    @property
    def backend(self) -> str:
        return self.erratum.rpartition("-")[0]

    @property
    def conditional(self) -> bool:
        """True if the config of one op determines that the fault occurs."""
        return self.op is not None and (
            self.when is not None or self.unless is not None or self.pattern is None
        )

    @model_validator(mode="after")
    def _sound(self) -> Erratum:
        if self.op is None and self.pattern is None:
            raise ValueError("an erratum has an 'op', or a 'pattern' of ops in words")
        if self.op is None and (self.when or self.unless or self.let):
            raise ValueError("'when', 'unless' and 'let' read the config of an op: give 'op'")
        if self.effect == "not-finalized" and self.cause != "graph-preparation":
            raise ValueError("the cause of 'not-finalized' is always graph-preparation")
        return self
