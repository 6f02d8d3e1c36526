"""Profiles: a library's reports about finalizing, executing, loading, and freeing.

Behavior of QNN 2.47 on x86-64 Linux (measured):

- A profile has only the events of the last call: each call replaces them; HTP reuses the ids of the old events,
  CPU frees the old events.  So ``Profile`` reads them right after each call, before releasing the library's
  lock, and keeps them by stage and run.
- CPU answers 12002 to profileGetEventData; profileGetExtendedEventData works on CPU and HTP, with the same values
  on HTP.  The timestamps of both are 0: only durations are known.
- CPU: one event per call (300, 400, 500, in microseconds; loading a binary: none); "detailed" adds one 404 per
  node, named "_<node>".  Any level number is accepted; all above basic act like detailed.
- HTP: "basic" gives times of QNN and of the accelerator (300; 400 and 3004; 100 and 1004; 500 and 4003).
  "detailed" adds the eight steps of a finalization (type 0), counts, and cycles per node under 3003, named
  "<node>:OpId_<n> (cycles)"; "Input OpId_<n>" and "Output OpId_<n>" are the graph's inputs and outputs, and
  "OpId_<n>" are ops that HTP added, e.g. for other layouts.  They add up to 3003.
  "linting" has 6001, the critical path, instead of 3003, and 5001 to 5004 under each node; nodes and waits add
  up to 6001.  Finalization then has no sub-events.  5004 is a mask and 5005 and 5006 are numbers of ops, although
  the library reports their unit as cycles.  A graph can be profiled later even if it was finalized without a profile.
- HTP runs as an emulation: times and cycles are those of this machine.  "Time for HVX + HMX power on and
  acquire" (3011) can exceed the time of the whole execution there.
- The exception is finalization on HTP for some chips, which reports Qualcomm's own simulation of the graph on the
  chip at every level.  2004 is its heading, 2006 to 2008 are cycles (expected, lower, upper), 2011 to 2016 bytes, 2017
  the number of ops without a cost in the simulation, with one 2018 for each of them; 2019 to 2021 are 2006 to 2008 in
  microseconds (QNN 2.50 and 2.51; 2.47 to 2.49 have none of the three).  The headings 2004, 2005, 2009, 2010 and the
  count 2017 have the unit us anyway.  opdb.measure.cost reads them.
- With ``optrace``, which QNN accepts only at level "detailed" (else 1004), 600 has the simulation as a Chrome trace,
  and the library writes <graph>_schematic.bin into the current folder of the process (QNN 2.47 and 2.51).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import NULL, Arena, CData, ffi, lib, text
from opdb.runtime.qnn.session import Session

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

LEVELS = {
    "off": 0,
    "basic": lib.QNN_PROFILE_LEVEL_BASIC,
    "detailed": lib.QNN_PROFILE_LEVEL_DETAILED,
    "linting": lib.QNN_HTP_PROFILE_LEVEL_LINTING,
}
UNITS = {
    lib.QNN_PROFILE_EVENTUNIT_MICROSEC: "us",
    lib.QNN_PROFILE_EVENTUNIT_BYTES: "bytes",
    lib.QNN_PROFILE_EVENTUNIT_CYCLES: "cycles",
    lib.QNN_PROFILE_EVENTUNIT_COUNT: "count",
    lib.QNN_PROFILE_EVENTUNIT_OBJECT: "object",
    lib.QNN_PROFILE_EVENTUNIT_NONE: "",
    lib.QNN_PROFILE_EVENTUNIT_BACKEND: "backend",
}
#: Stage -> the event with the time of the whole call, and the event with the accelerator's part of it (HTP).
STAGES = {
    "load": (
        lib.QNN_PROFILE_EVENTTYPE_INIT,
        lib.QNN_HTP_PROFILE_EVENTTYPE_CONTEXT_LOAD_BIN_ACCEL_TIME_MICROSEC,
    ),
    "finalize": (
        lib.QNN_PROFILE_EVENTTYPE_FINALIZE,
        lib.QNN_HTP_PROFILE_EVENTTYPE_GRAPH_FINALIZE_ACCEL_TIME_MICROSEC,
    ),
    "execute": (
        lib.QNN_PROFILE_EVENTTYPE_EXECUTE,
        lib.QNN_HTP_PROFILE_EVENTTYPE_GRAPH_EXECUTE_ACCEL_TIME_MICROSEC,
    ),
    "free": (
        lib.QNN_PROFILE_EVENTTYPE_DEINIT,
        lib.QNN_HTP_PROFILE_EVENTTYPE_GRAPH_DEINIT_ACCEL_TIME_MICROSEC,
    ),
}
NODE = lib.QNN_PROFILE_EVENTTYPE_NODE
_HTP_NODE = re.compile(r"(.*):OpId_\d+ \(cycles\)", re.DOTALL)
_HTP_PREFIX = "QNN_HTP_PROFILE_EVENTTYPE_"
_CORE_PREFIX = "QNN_PROFILE_EVENTTYPE_"
#: Member of Qnn_Scalar_t by data type.
_SCALARS = {
    lib.QNN_DATATYPE_UINT_64: "uint64Value",
    lib.QNN_DATATYPE_INT_64: "int64Value",
    lib.QNN_DATATYPE_UINT_32: "uint32Value",
    lib.QNN_DATATYPE_INT_32: "int32Value",
    lib.QNN_DATATYPE_FLOAT_32: "floatValue",
    lib.QNN_DATATYPE_FLOAT_64: "doubleValue",
}


@dataclass(frozen=True)
class Event:
    """One figure that a library reports, and its sub-events.

    ``name`` is the library's identifier, ``type`` QNN's event type and ``type_name`` QNN's name for it ("":
    none).  ``unit`` is us, bytes, cycles, count, object (``value`` is its size in bytes), backend, or "".
    ``timestamp`` is the library's, or None.  ``node`` is the graph node that the figure is about, "" if none.
    ``data`` has the bytes of an object, b"" for a figure.
    """

    name: str
    type: int
    type_name: str
    unit: str
    value: int | float
    timestamp: int | None = None
    node: str = ""
    events: tuple[Event, ...] = ()
    data: bytes = field(default=b"", repr=False)

    def walk(self) -> Iterator[Event]:
        """This event and all its sub-events, depth first."""
        yield self
        for event in self.events:
            yield from event.walk()


@dataclass(frozen=True)
class ProfiledCall:
    """A library's report about one call.

    ``stage`` is load, finalize, execute, or free; ``graph`` is the graph, "" for a context; ``run`` counts a
    profile's calls with the same stage and graph, from 0.  ``ops`` are the nodes of the graph, none for a graph
    from a context binary.
    """

    stage: str
    graph: str
    run: int
    events: tuple[Event, ...]
    ops: Sequence[GraphOp] = field(default=(), repr=False, compare=False)

    @property
    def total(self) -> Event | None:
        """The time of the whole call, in us; None if the library gave none (CPU: load)."""
        return self._event(STAGES[self.stage][0])

    @property
    def accelerator(self) -> Event | None:
        """The accelerator's part of it, in us; None on CPU."""
        return self._event(STAGES[self.stage][1])

    @property
    def split(self) -> Event | None:
        """The event whose sub-events split it by node or step: in us on CPU, in cycles for HTP's nodes."""
        return next((e for e in self.events if e.events), None)

    def _event(self, type_: int) -> Event | None:
        return next((e for e in self.events if e.type == type_), None)


class Profile(Resource):
    """Collects one backend's reports; from ``Backend.create_profile``.

    Pass it as ``profile=`` to Graph.finalize, Graph.execute, Graph.bind, Context.close, and context loading.
    It can be used for many calls, and keeps the collected data after it is closed.
    """

    def __init__(self, backend: Backend, level: str, *, optrace: bool = False) -> None:
        check_level(level, backend.name, optrace)
        self.backend = backend.name
        self.build_id = backend.build_id
        self.soc = backend.soc
        self.soc_model = backend.soc_model
        self.level = level
        self.session: Session = backend.session
        self._calls: list[ProfiledCall] = []
        self._runs: Counter[tuple[str, str]] = Counter()
        self._types = type_names(backend.name)
        free = self.session.api.profileFree
        pointer = NULL if level == "off" else _create(backend, LEVELS[level])
        handle = Handle(pointer, None if level == "off" else free, backend._backend)
        super().__init__(f"a profile of {backend.what}", handle, backend)
        key = lib.QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT
        self._extended = self.session.ask("propertyHasCapability", key)[0] == 0
        if optrace:
            self._enable_optrace()

    @property
    def calls(self) -> tuple[ProfiledCall, ...]:
        """The collected calls, oldest first."""
        return tuple(self._calls)

    def events(self, stage: str | None = None) -> tuple[Event, ...]:
        """The top-level events, oldest first, of all calls or of one stage: load, finalize, execute, or free."""
        if stage is not None and stage not in STAGES:
            raise OpdbError(f"{stage!r} is not a stage; one of {', '.join(STAGES)}")
        return tuple(e for call in self._calls if stage in (None, call.stage) for e in call.events)

    def clear(self) -> None:
        """Discards the collected data; runs count from 0 again."""
        with self.session.lock:
            self._calls.clear()
            self._runs.clear()

    def record(self, stage: str, graph: str = "", ops: Sequence[GraphOp] = ()) -> None:
        """Reads the events of the last call.  The session's lock must have been held since that call."""
        if self.level == "off":
            return
        ids, n = ffi.new("const QnnProfile_EventId_t **"), ffi.new("uint32_t *")
        self.session.call("read a profile", "profileGetEvents", self.pointer, ids, n)
        events = tuple(self._event(i) for i in ffi.unpack(ids[0], n[0])) if n[0] else ()
        run = self._runs[stage, graph]
        self._runs[stage, graph] += 1
        self._calls.append(ProfiledCall(stage, graph, run, events, ops))

    def _event(self, event: int) -> Event:
        kind, unit, value, timestamp, name, data = (
            self._extended_data(event) if self._extended else self._data(event)
        )
        ids, n = ffi.new("const QnnProfile_EventId_t **"), ffi.new("uint32_t *")
        self.session.call("read a profile's sub-events", "profileGetSubEvents", event, ids, n)
        below = tuple(self._event(i) for i in ffi.unpack(ids[0], n[0])) if n[0] else ()
        return Event(
            name=name,
            type=kind,
            type_name=self._types.get(kind, ""),
            unit=UNITS.get(unit, str(unit)),
            value=value,
            timestamp=timestamp or None,
            node=node_of(self.backend, kind, name),
            events=below,
            data=data,
        )

    def _enable_optrace(self) -> None:
        arena = Arena()
        config = arena.new("QnnProfile_Config_t *")
        config.option = lib.QNN_PROFILE_CONFIG_OPTION_ENABLE_OPTRACE
        config.u.enableOptrace = True
        configs = arena.configs("QnnProfile_Config_t", config)
        try:
            self.session.call("ask a profile for an optrace", "profileSetConfig", self.pointer, configs)
        except QnnError:
            self.close()
            raise

    def _extended_data(self, event: int) -> tuple[int, int, int | float, int, str, bytes]:
        out = ffi.new("QnnProfile_ExtendedEventData_t *")
        self.session.call("read an event of a profile", "profileGetExtendedEventData", event, out)
        if out.version != lib.QNN_PROFILE_DATA_VERSION_1:
            raise OpdbError(f"{self.what}: its events are of version {out.version}; opdb reads version 1")
        data = out.u.v1
        return data.type, data.unit, _value(data), data.timestamp, text(data.identifier), _object(data)

    def _data(self, event: int) -> tuple[int, int, int | float, int, str, bytes]:
        out = ffi.new("QnnProfile_EventData_t *")
        self.session.call("read an event of a profile", "profileGetEventData", event, out)
        return out.type, out.unit, out.value, 0, text(out.identifier), b""


def check_level(level: str, backend: str, optrace: bool = False) -> None:
    """Raises OpdbError for a level that is invalid or that ``backend`` lacks, also in combination with ``optrace``."""
    if level not in LEVELS:
        raise OpdbError(f"{level!r} is not a profiling level; one of {', '.join(LEVELS)}")
    if level == "linting" and backend != "HTP":
        raise OpdbError(f"the {backend} backend has no profiling level linting, HTP does; use detailed")
    if optrace and backend != "HTP":
        raise OpdbError(f"the {backend} backend has no optrace, HTP does")
    if optrace and level != "detailed":
        raise OpdbError(f"an optrace is made at the profiling level detailed alone, not at {level}")


def type_names(backend: str) -> dict[int, str]:
    """The names of ``backend``'s event types, e.g. 404 -> QNN_PROFILE_EVENTTYPE_NODE.

    They are QNN's; specs/abi states which ones opdb invented because QNN has none.
    """
    prefixes = (_HTP_PREFIX, _CORE_PREFIX) if backend == "HTP" else (_CORE_PREFIX,)
    return {getattr(lib, name): name for prefix in prefixes for name in dir(lib) if name.startswith(prefix)}


def node_of(backend: str, type_: int, name: str) -> str:
    """The graph node that an event is about, "" if none; see the top of this file for the patterns."""
    if type_ != NODE:
        return ""
    if backend == "HTP":
        match = _HTP_NODE.fullmatch(name)
        return match[1] if match else ""
    return name.removeprefix("_")


def _create(backend: Backend, level: int) -> CData:
    out = ffi.new("Qnn_ProfileHandle_t *")
    backend.session.call("create a profile", "profileCreate", backend.pointer, level, out)
    return out[0]


def _object(data: CData) -> bytes:
    """A copy of the bytes of an object, which the library owns until the next call; b"" for a figure."""
    if data.unit != lib.QNN_PROFILE_EVENTUNIT_OBJECT or not data.u.opaque[0]:
        return b""
    return bytes(ffi.buffer(ffi.cast("char *", data.u.opaque[0]), data.u.opaque[1]))


def _value(data: CData) -> int | float:
    if data.unit == lib.QNN_PROFILE_EVENTUNIT_OBJECT:
        return int(data.u.opaque[1])  # Qnn_OpaqueObject_t: a pointer, then the size
    member = _SCALARS.get(data.u.value.dataType)
    if member is None:
        raise OpdbError(
            f"an event of a profile has the data type {data.u.value.dataType:#x}; opdb cannot read it"
        )
    value: int | float = getattr(data.u.value.u, member)
    return value
