"""The combinations of data types and encodings that an op's ports may have on a target, from type rows and rules.

    Ports(Store(url), "HTP", "SM8650", "2.47").variants("Conv2d")    # one per combination of data types

Rules are evaluated with the data types of one combination, the encoding of one port, the SoC, and the SDK; everything
else is unknown.  Only a definite violation counts, so a variant is never stricter than the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from opdb.catalog.query.definitions import ops, rules, types, unchecked
from opdb.catalog.query.rows import Filters, Row, View
from opdb.catalog.store import Store
from opdb.catalog.targets.target import soc_name
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ENCODINGS
from opdb.core.sdk import declared, sdk_number
from opdb.generated.constants.backends import BACKENDS
from opdb.generated.constants.socs import SOCS
from opdb.spec.lang.certain import Rule, forbidden, parsed

_AXES = range(8)  # HTP takes tensors of rank 8 at most
_ALONG = ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCKWISE_EXPANSION", "VECTOR")

#: Patterns of the names a rule must read to matter here.
_ENCODED = re.compile(r"\.(?:encoding|symmetric|axis)\b|\bsame_quant\b")
_READ = re.compile(rf"\.dtype\b|\bpresent\(|{_ENCODED.pattern}")


@dataclass(frozen=True)
class Encodings:
    """Encodings that a port may have, and their constraints."""

    names: tuple[str, ...]
    symmetric: bool  # the zero point must be in the middle
    axes: tuple[int, ...] | None  # the allowed axes; None: all, or the encodings have no axis
    shared: bool  # the encoding must equal that of another port of the op


@dataclass(frozen=True)
class Port:
    slot: str
    dtype: str  # short name
    variadic: bool
    optional: bool
    encodings: tuple[Encodings, ...]  # empty for a type that is not quantized


@dataclass(frozen=True)
class Variant:
    """One combination of data types."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Ports:
    """The variants of every op on one target; reads the definitions once."""

    def __init__(self, store: Store, backend: str, soc: str, sdk: str) -> None:
        chip = SOCS[soc_name(soc)]
        read = BACKENDS[backend].chip_fields if backend in BACKENDS else {}
        self.values: dict[str, Any] = {"sdk": sdk_number(sdk)}
        self.values |= {name: getattr(chip, of) or 0 for name, of in read.items()}
        with store.asking() as reader:
            view = View(reader, Filters(backend=backend, sdk=sdk))
            self.slots = {r["op"]: r for r in ops(view)}
            self.rows: dict[str, list[Row]] = {}
            for row in types(view):
                if row["needs"] is None or getattr(chip, row["needs"]):
                    self.rows.setdefault(row["op"], []).append(row)
            self.rules: dict[str, list[Rule]] = {}
            self.encoded: dict[str, list[Rule]] = {}  # the subset that reads encodings
            whole = View(reader, Filters())
            exempt = unchecked(whole)
            for r in rules(whole):
                free = exempt.get((r["op"], r["rule"]), {}).get(backend)
                if free is not None and declared(free["since"], free["until"], sdk):
                    continue
                asked = (
                    r["kind"] == "written" and r["strength"] != "expect" and r["backend"] in (None, backend)
                )
                if asked and _READ.search(f"{r['when']} {r['expression']}"):
                    when = None if r["when"] is None else parsed(r["when"])
                    rule = (when, parsed(r["expression"]))
                    self.rules.setdefault(r["op"], []).append(rule)
                    if _ENCODED.search(f"{r['when']} {r['expression']}"):
                        self.encoded.setdefault(r["op"], []).append(rule)

    def supported(self) -> list[str]:
        """The ops that have a type row on the target."""
        return sorted(self.rows)

    def variants(self, op: str) -> list[Variant]:
        """Each combination of data types once; [] for an op that the target lacks."""
        found: dict[tuple[str, ...], Variant] = {}
        for row in self.rows.get(op, ()):
            cells = [cell.split(": ") for cell in row["cells"].split(", ")]
            for combo in product(*(dtypes.split("|") for _, dtypes in cells)):
                if combo not in found and (
                    made := self._variant(op, {s: d for (s, _), d in zip(cells, combo, strict=True)})
                ):
                    found[combo] = made
        return list(found.values())

    def _variant(self, op: str, dtypes: Mapping[str, str]) -> Variant | None:
        """The variant of one combination; None if the rules forbid it whatever the encodings are."""
        slots = self.slots[op]
        known = {f"{slot}.dtype": dtype for slot, dtype in dtypes.items()} | self.values
        names = {g: [n for n in (slots[g] or "").split(", ") if n] for g in ("inputs", "outputs")}
        plain = {n: n.rstrip("?.") for g in names.values() for n in g}
        known |= {f"present({plain[n]})": True for n in plain if not n.endswith("?")}
        rules = self.rules.get(op, ())
        if forbidden(rules, known):
            return None
        made: dict[str, tuple[Port, ...]] = {}
        for group, slot_names in names.items():
            ports = []
            for n in slot_names:
                slot = plain[n]
                given = {**known, f"present({slot})": True}
                if forbidden(rules, given):
                    if not forbidden(rules, {k: v for k, v in given.items() if k != f"{slot}.dtype"}):
                        return None  # it may be present with another data type
                    break  # it and everything after it must be left out
                allowed = tuple(self._encodings(op, slot, dtypes[slot], known, group == "outputs"))
                if BY_SHORT[dtypes[slot]].quantized and not allowed:
                    return None
                ports.append(Port(slot, dtypes[slot], n.endswith("..."), n.endswith("?"), allowed))
            made[group] = tuple(ports)
        return Variant(**made)

    def _encodings(
        self, op: str, slot: str, dtype: str, known: Mapping[str, Any], output: bool
    ) -> Iterator[Encodings]:
        if not BY_SHORT[dtype].quantized:
            return
        rules = self.encoded.get(op, ())
        groups: dict[tuple[bool, tuple[int, ...] | None, bool], list[str]] = {}
        for encoding in ENCODINGS:
            here = {**known, f"present({slot})": True, f"{slot}.encoding": encoding}
            if forbidden(rules, here):
                continue
            symmetric = forbidden(rules, {**here, f"{slot}.symmetric": False})
            shared = output and forbidden(rules, {**here, f"same_quant({slot})": False})
            axes = None
            if encoding in _ALONG:
                axes = tuple(a for a in _AXES if not forbidden(rules, {**here, f"{slot}.axis": a}))
                axes = None if len(axes) == len(_AXES) else axes
            groups.setdefault((symmetric, axes, shared), []).append(encoding)
        for (symmetric, axes, shared), encodings in groups.items():
            yield Encodings(tuple(encodings), symmetric, axes, shared)
