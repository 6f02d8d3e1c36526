"""The content of an OpDef collection as data; ``opdb.author.importers.opxml.limits`` lists the parts of a spec that do not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Replaces data types or a layout: each backend's supplement has its own.
BACKEND_SPECIFIC = "BACKEND_SPECIFIC"
#: Rank in the document -> number of dims; None: any.
RANKS: dict[str, int | None] = {"SCALAR": 0, "1D": 1, "2D": 2, "3D": 3, "4D": 4, "5D": 5, "ND": None}
#: NONTRIVIAL keeps a converter from moving a tensor's axes.
LAYOUTS = ("NHWC", "NHCW", "NDHWC", "NONTRIVIAL")
KINDS = ("Number", "Shape", "Value", "Datatype", "Description")
#: The element of each kind of tensor -> its name in messages.
ROLES = {"Input": "input", "Output": "output", "Parameter": "parameter"}


@dataclass(frozen=True)
class Constraint:
    number: int
    kind: str  # one of KINDS
    text: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Tensor:
    """An input, output, or parameter.  ``dtypes``: short names, () if the backend decides."""

    role: str  # Input, Output, Parameter
    name: str
    mandatory: bool = True
    dtypes: tuple[str, ...] = ()
    rank: str | None = None  # one of RANKS; None in a supplement
    layout: str | None = None
    text: str | None = None  # the shape, in words or in the notation of specs
    description: str | None = None
    code: tuple[str, ...] = ()
    default: str | None = None
    repeated: bool = False
    static: bool = False
    enum: tuple[str, ...] = ()  # values are 0, 1, ... in this order
    constraints: tuple[Constraint, ...] = ()
    only_default: bool = False  # in a supplement
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class OpXml:
    name: str
    tensors: tuple[Tensor, ...]
    description: str | None = None
    code: tuple[str, ...] = ()
    references: tuple[tuple[str, str], ...] = ()  # source and URL
    default_translation: bool | None = None  # True if the op replaces a native one of QNN
    backends: tuple[str, ...] = ()
    unread: tuple[str, ...] = field(default=(), compare=False)  # elements that no known schema has
    line: int = field(default=0, compare=False)
    #: Uses of the op: shapes of inputs and values of parameters, by role and name.
    examples: tuple[Mapping[tuple[str, str], Any], ...] = field(default=(), compare=False)

    def of(self, role: str) -> tuple[Tensor, ...]:
        return tuple(t for t in self.tensors if t.role == role)


@dataclass(frozen=True)
class Supplement:
    """One backend's part: its ops, and the tensors of an op that differ there."""

    backend: str
    ops: tuple[str, ...]
    tensors: Mapping[str, tuple[Tensor, ...]]  # by op
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Collection:
    package: str
    domain: str
    version: str
    ops: tuple[OpXml, ...]
    supplements: tuple[Supplement, ...] = ()
    qhpi: bool = False  # the package is written for QHPI (UseQHPI)
    notes: tuple[str, ...] = field(default=(), compare=False)  # omitted parts, each with its line
    rows: str = field(
        default="xml", compare=False
    )  # the configuration for its data types, which have no names for one


def package_of(domain: str) -> str:
    """The name of the op package for a domain, in a form that QNN accepts."""
    name = re.sub(r"\W", "_", domain, flags=re.ASCII)
    return name if re.match(r"[A-Za-z]", name) else f"P{name}"
