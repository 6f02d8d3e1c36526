"""One backend of QNN, as data: the model of specs/backends/<NAME>.yaml.

Code must query this record, never the backend's name; generated code has the same fields (constants/backends.py).
A new backend is a new file.
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
#: Yes/no features of chips in specs/socs.yaml.
FEATURES = ("fp16", "bf16")


class Need(Model):
    """A feature that type rows need of a chip, and the reason reported if the chip lacks it."""

    has: Identifier  # a name of the backend's context; e.g. has_fp16
    why: str


class Oldest(Model):
    """The first Hexagon version that supports the backend."""

    arch: int  # e.g. 68
    why: str  # the message for older chips, with the cure


class Library(Model):
    """The backend's library, if opdb drives it."""

    file: str  # on Linux; e.g. libQnnHtp.so
    x86: Literal["computes", "emulates"] | None = None  # computes, or emulates a chip; None: no answers
    refusal: str | None = None  # why it does not answer on x86-64

    @model_validator(mode="after")
    def _sound(self) -> Library:
        if (self.x86 is None) == (self.refusal is None):
            raise ValueError("a library has 'x86' where it answers there, else 'refusal' with the reason")
        return self


class Measured(Model):
    """The SDK and SoC that the backend's rows and rules were measured with; the default if none is given."""

    sdk: Version
    soc: Identifier | None = None


class OpPackages(Model):
    """The way op packages for the backend are built."""

    by: Literal["opdb", "vendor"]  # the builder: opdb package qnn, or the vendor's tools
    made: str  # what they are made of
    types: list[str] = []  # the tensor data types that the backend passes to them
    links: bool = False  # True if they call functions of the backend's library

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
    about: str  # the hardware it computes on
    letter: Annotated[str, Field(pattern=LETTER)]  # the first letter of its rule ids, e.g. H
    id: int | None = None  # QNN's backend id, e.g. 6
    preference: int | None = (
        None  # the rank in the order in which backends are tried; the first is the default
    )
    supplement: str | None = None  # the page of QNN's documentation about it
    context: dict[Identifier, Literal["u32", "i32", "bool8"]] = {}  # chip properties its rules may read
    fields: dict[Identifier, Identifier] = {}  # the fields of specs/socs.yaml, if named differently
    needs: dict[Identifier, Need] = {}  # of type rows, by the first word of the configuration, e.g. FP16
    oldest: Oldest | None = None  # for a backend whose context has 'arch'
    chips: list[Identifier] = []  # the only chips it runs on
    floats: Literal["f32", "f16"] = "f32"  # the type it computes float32 in
    programs: list[Literal["context", "pte"]] = []  # the outputs of opdb compile for it
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
        """True if verdicts depend on the SoC."""
        return "arch" in self.context

    @property
    def asked(self) -> bool:
        """True if its library answers on x86-64 Linux; other backends have only documents."""
        return self.library is not None and self.library.x86 is not None

    @property
    def chip_fields(self) -> dict[str, str]:
        """Maps each chip property that its rules read to the field of specs/socs.yaml."""
        return {name: self.fields.get(name, name) for name in self.context}

    def reads(self, soc: Soc | None) -> dict[str, int | bool]:
        """The values of ``context`` for a chip; 0 or False if the chip has none."""
        data: Mapping[str, Any] = {} if soc is None else soc.data()
        out: dict[str, int | bool] = {}
        for name, type_ in self.context.items():
            value = data.get(self.chip_fields[name]) or 0
            out[name] = bool(value) if type_ == "bool8" else int(value)
        return out

    def need(self, configuration: str) -> Need | None:
        """The need of a configuration's rows, by its first word; e.g. FP16_2_47 has the need of FP16."""
        return self.needs.get(configuration.partition("_")[0])

    def feature(self, need: Need) -> str:
        """The field of specs/socs.yaml for a need, e.g. fp16."""
        return self.fields.get(need.has, need.has)


def in_order(backends: Iterable[Backend]) -> dict[str, Backend]:
    """Maps names to backends, ordered by QNN's id, then those without one; generated C numbers them in this order."""
    last = 1 << 31
    found = sorted(backends, key=lambda b: (last if b.id is None else b.id, b.backend))
    return {b.backend: b for b in found}


def preferred(backends: Iterable[Backend]) -> tuple[str, ...]:
    """The backends' names in the order they are tried; the first is the default."""
    last = 1 << 31
    found = sorted(backends, key=lambda b: last if b.preference is None else b.preference)
    return tuple(b.backend for b in found)
