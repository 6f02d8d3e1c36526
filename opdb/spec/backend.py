"""One backend of QNN, as data: the model of specs/backends/<NAME>.yaml.

What the project asks of a backend is asked of this record, never of its name: generated code has the same fields
(constants/backends.py).  A new backend is a new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opdb.core.dtypes import BY_SHORT
from opdb.spec.fields import Identifier, Model, Version
from opdb.spec.soc import Soc

BACKEND = r"^[A-Z][A-Z0-9]*$"
LETTER = r"^[A-Z]$"
#: What a chip has or has not, as specs/socs.yaml says it.
FEATURES = ("fp16", "bf16")


class Need(Model):
    """What rows of data types need of a chip, and what is said where the chip does not have it."""

    has: Identifier  # a name of the backend's context; e.g. has_fp16
    why: str


class Oldest(Model):
    """The first Hexagon version that has the backend."""

    arch: int  # e.g. 68
    why: str  # what is said of older chips, with the cure


class Library(Model):
    """The backend's library, where opdb drives it."""

    file: str  # on Linux; e.g. libQnnHtp.so
    x86: Literal["computes", "emulates"] | None = None  # by itself, or a chip; None: it answers nothing there
    refusal: str | None = None  # why it answers nothing on x86-64

    @model_validator(mode="after")
    def _sound(self) -> Library:
        if (self.x86 is None) == (self.refusal is None):
            raise ValueError("a library has 'x86' where it answers there, else 'refusal' with the reason")
        return self


class Measured(Model):
    """What the backend's rows and rules were measured with: the place that is meant where none is given."""

    sdk: Version
    soc: Identifier | None = None


class OpPackages(Model):
    """How op packages for the backend come about."""

    by: Literal["opdb", "vendor"]  # who makes them: opdb package qnn, or the vendor's own tools
    made: str  # of what
    types: list[str] = []  # the data types of tensors that the backend shows to them
    links: bool = False  # whether they call functions of the backend's library

    @model_validator(mode="after")
    def _sound(self) -> OpPackages:
        if unknown := [t for t in self.types if t not in BY_SHORT]:
            raise ValueError(f"'types' has {', '.join(unknown)}; a data type is, e.g., f32 or uq8")
        if (self.by == "opdb") != bool(self.types):
            raise ValueError("'types' are what opdb's packages take: given with 'by: opdb', and only there")
        return self


class Backend(Model):
    """One backend of QNN."""

    backend: Annotated[str, Field(pattern=BACKEND, max_length=20)]
    about: str  # what it computes on
    letter: Annotated[str, Field(pattern=LETTER)]  # with which the ids of its rules begin; e.g. H
    id: int | None = None  # QNN's number of the backend; e.g. 6
    preference: int | None = (
        None  # the place in the order in which backends are tried; the first is the default
    )
    supplement: str | None = None  # the page of QNN's documentation about it
    context: dict[Identifier, Literal["u32", "i32", "bool8"]] = {}  # what its rules may read of a chip
    fields: dict[Identifier, Identifier] = {}  # of specs/socs.yaml, where the name is another
    needs: dict[Identifier, Need] = {}  # of type rows, by the first word of their configuration; e.g. FP16
    oldest: Oldest | None = None  # of a backend whose context has 'arch'
    chips: list[Identifier] = []  # the only ones that it runs on
    floats: Literal["f32", "f16"] = "f32"  # what it computes float32 in
    programs: list[Literal["context", "pte"]] = []  # what opdb compile makes for it
    library: Library | None = None
    measured: Measured | None = None
    op_packages: OpPackages | None = None

    @model_validator(mode="after")
    def _sound(self) -> Backend:
        for name in self.fields:
            if name not in self.context:
                raise ValueError(f"'fields' has {name}, which is not of 'context'")
        if self.oldest is not None and not self.per_soc:
            raise ValueError("'oldest' is of a backend whose 'context' has arch")
        for word, need in self.needs.items():
            if self.context.get(need.has) != "bool8" or self.feature(need) not in FEATURES:
                what = f"no bool8 of 'context' that stands for {' or '.join(FEATURES)} of a chip"
                raise ValueError(f"'needs' of {word}: '{need.has}' is {what}")
        return self

    @property
    def name(self) -> str:
        return self.backend

    @property
    def per_soc(self) -> bool:
        """Whether a verdict depends on the SoC."""
        return "arch" in self.context

    @property
    def asked(self) -> bool:
        """Whether its library answers on x86-64 Linux.  Of other backends documents declare only."""
        return self.library is not None and self.library.x86 is not None

    @property
    def chip_fields(self) -> dict[str, str]:
        """What its rules read of a chip -> the field of specs/socs.yaml."""
        return {name: self.fields.get(name, name) for name in self.context}

    def reads(self, soc: Soc | None) -> dict[str, int | bool]:
        """The values of ``context`` for a chip; 0 and False where it has none."""
        data: Mapping[str, Any] = {} if soc is None else soc.data()
        out: dict[str, int | bool] = {}
        for name, type_ in self.context.items():
            value = data.get(self.chip_fields[name]) or 0
            out[name] = bool(value) if type_ == "bool8" else int(value)
        return out

    def need(self, configuration: str) -> Need | None:
        """What the rows of a configuration need of a chip; e.g. FP16_2_47, as FP16 does."""
        return self.needs.get(configuration.partition("_")[0])

    def feature(self, need: Need) -> str:
        """The field of specs/socs.yaml that says whether a chip has it; e.g. fp16."""
        return self.fields.get(need.has, need.has)


def in_order(backends: Iterable[Backend]) -> dict[str, Backend]:
    """By name, in the order of QNN's numbers, then those without one: the order of the numbers in generated C."""
    last = 1 << 31
    found = sorted(backends, key=lambda b: (last if b.id is None else b.id, b.backend))
    return {b.backend: b for b in found}


def preferred(backends: Iterable[Backend]) -> tuple[str, ...]:
    """Their names in the order in which they are tried; the first is meant where none is named."""
    last = 1 << 31
    found = sorted(backends, key=lambda b: last if b.preference is None else b.preference)
    return tuple(b.backend for b in found)
