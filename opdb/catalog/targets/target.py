"""The target of an op: backend, SoC, and SDK, and the values that rules read from them."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from opdb.catalog.targets.chips import nearest_of, resolve, with_name
from opdb.catalog.targets.sdks import known_sdk
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.sdk import sdk_number
from opdb.generated.constants.backends import BACKENDS, DEFAULT, Backend, Context
from opdb.generated.constants.sdks import DEFAULT_SDK, SDKS
from opdb.generated.constants.socs import SOCS

#: Soc.libraries of a chip that no library opens.
NO_LIBRARY = "none"
#: What people call the NPU; QNN's backend for it is DEFAULT.
NPU = ("NPU", "HEXAGON")
EXECUTIONS = ("device", "emulator")
POLICIES = ("avoid", "warn", "ignore")
#: Up to NO_FLOATS HTP has almost no floats; a float graph that will be quantized is judged as on FLOATS.
NO_FLOATS, FLOATS = 68, 75


@dataclass(frozen=True)
class Target:
    """The target an op will run on.  Without ``backend``, only the op definition is checked.

    ``soc`` is required by backends whose rules depend on the Hexagon version (HTP); the library's default is never used.
    ``execution`` is "device" or "emulator" (the library's emulation on this machine); it selects the policy on faults of
    the library (opdb.judge.errata.policy).  ``errata`` sets one policy for all faults: "avoid", "warn", or "ignore".
    ``ignored``: ids of errata to ignore, e.g. HTP-0395.  ``to_quantize``: judges float graphs that will be quantized, so that it
    does not count whether the chip has floating point.

    >>> import opdb
    >>> opdb.Target("HTP", "8 Gen 3").spelled().soc
    'SM8650'
    """

    backend: str | None = None  # e.g. HTP
    soc: str | None = None  # e.g. SM8650
    sdk: str | None = None  # e.g. 2.47
    execution: str = "device"  # one of EXECUTIONS
    errata: str | None = None  # one of POLICIES for all errata; None: the default of the execution
    ignored: frozenset[str] = frozenset()  # ids of errata that are ignored
    to_quantize: bool = False

    def __post_init__(self) -> None:
        if self.execution not in EXECUTIONS:
            raise OpdbError(f"unknown execution '{self.execution}'; one of {', '.join(EXECUTIONS)}")
        if self.errata is not None and self.errata not in POLICIES:
            raise OpdbError(f"unknown policy for errata '{self.errata}'; one of {', '.join(POLICIES)}")

    def context(self) -> Context:
        """The values that rules read, e.g. ``arch``.  Raises OpdbError for an unknown backend, SoC, or SDK."""
        return _context(self)

    def _read(self) -> Context:
        backend = None if self.backend is None else backend_name(self.backend)
        record = None if backend is None else BACKENDS[backend]
        fields = {} if record is None else record.chip_fields
        if self.soc is None and fields:
            raise OpdbError(
                f"{backend}: its rules depend on the SoC; give one, e.g. --soc SM8650 (opdb query socs lists them)"
            )
        soc = None if self.soc is None else soc_name(self.soc)
        if record is not None and soc is not None and record.chips and soc not in record.chips:
            raise OpdbError(f"{backend} runs on {', '.join(record.chips)}, not on {soc}")
        chip = None if soc is None else SOCS[soc]
        read: dict[str, Any] = {name: getattr(chip, of) or 0 for name, of in fields.items()}
        if self.to_quantize and "has_fp16" in read and not (read["has_fp16"] and read["arch"] > NO_FLOATS):
            read |= {"has_fp16": True, "arch": max(read["arch"], FLOATS)}
        return Context(backend, known_sdk(self.sdk or DEFAULT_SDK), **read)

    def check_chip(self) -> None:
        """Raises OpdbError, with the nearest chip that works, if no library of the backend prepares for the chip.

        ``context`` accepts such a chip: cases are derived for each Hexagon version that rules distinguish.
        """
        asked = self.spelled()
        if asked.backend is None or asked.soc is None:
            return
        record = BACKENDS[asked.backend]
        why = _unprepared(record, asked.soc, asked.sdk)
        if why:
            usable = [soc for soc in SOCS if not _unprepared(record, soc, asked.sdk)]
            nearest = nearest_of(asked.soc, usable)
            works = f"; the nearest chip that works is {with_name(nearest)}" if nearest else ""
            older = (SOCS[asked.soc].htp_arch or 0) < record.oldest_arch
            raise OpdbError(f"{with_name(asked.soc)} {why}{works}" + (f"; {record.older}" if older else ""))

    def spelled(self) -> Target:
        """The same target with backend and SoC in canonical spelling, e.g. htp -> HTP."""
        backend = None if self.backend is None else backend_name(self.backend)
        return replace(self, backend=backend, soc=None if self.soc is None else soc_name(self.soc))

    @property
    def integers_only(self) -> bool:
        """True if the chip has no floating point on this backend."""
        return half(self.backend) and not self.context().has_fp16

    def __str__(self) -> str:
        return " ".join(
            p for p in (self.backend or "any backend", self.soc, self.sdk and f"SDK {self.sdk}") if p
        )


def execution_here() -> str:
    """The execution on this machine: "emulator" on x86-64, where Qualcomm's libraries emulate the chip."""
    return "emulator" if platform.machine() in ("x86_64", "AMD64") else "device"


def emulates_here(backend: str) -> bool:
    """True if the backend's library emulates a chip on this machine."""
    record = BACKENDS.get(backend)
    return record is not None and record.emulated and execution_here() == "emulator"


def half(backend: str | None) -> bool:
    """True if a backend computes float32 in float16."""
    record = BACKENDS.get(backend or "")
    return record is not None and record.half


def _unprepared(record: Backend, soc: str, sdk: str | None) -> str:
    """Why no library of a backend prepares for a chip, after the chip's name; "" if one does.  ``sdk``: None for any library."""
    if not record.oldest_arch:
        return ""
    chip = SOCS[soc]
    if not chip.htp_arch:
        return f"has no {record.name} that QNN's libraries know"
    if chip.htp_arch < record.oldest_arch:
        return f"has Hexagon v{chip.htp_arch} and no {record.name}, which begins with v{record.oldest_arch}"
    if chip.libraries == NO_LIBRARY:
        return f"is a chip that no library of QNN {DEFAULT_SDK} to {SDKS[-1]} prepares for"
    since = chip.libraries.removeprefix("since ")
    if since and sdk is not None and sdk_number(sdk) < sdk_number(since):
        return f"is a chip that QNN's libraries prepare for since {since}, not {sdk}"
    return ""


@lru_cache(256)
def _context(target: Target) -> Context:
    return target._read()


def backend_name(name: str) -> str:
    """The canonical spelling of a backend.  Raises OpdbError that lists the known ones."""
    if name.upper() in BACKENDS:
        return name.upper()
    meant = DEFAULT if name.upper() in NPU else name
    hint = did_you_mean(meant, BACKENDS, lists=f"known: {', '.join(BACKENDS)}")
    raise OpdbError(f"unknown backend '{name}'{hint}")


def soc_name(name: str) -> str:
    """The SoC with this name or marketing name.  Raises OpdbError with the nearest ones."""
    return resolve(name, {chip: soc.names for chip, soc in SOCS.items()})
