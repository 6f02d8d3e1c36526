"""Reads the library's trace of a simulated graph: the bytes of event 600, and the file that maps ids to nodes.

Found by experiment with QNN 2.47 to 2.51.  Event 600 is a header of 56 bytes, whose sixth number (64 bits) is the size of the
following Chrome trace in JSON; the graph's name comes after that.  Times in the trace are cycles.  <graph>_schematic.bin is text, and
lists the names of nodes by the lower half of the ids in the trace.
"""

from __future__ import annotations

import ast
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.measure.cost.figures import SimulatedChip

HEADER = struct.Struct("<7Q")
SIZE = 5  # index of the header's number with the size of the JSON
CONFIGURATION = '"Hextimate Configuration"'
_NODE = re.compile(r"^(0x[0-9a-fA-F]+): (.*),$", re.MULTILINE)
#: Engines by the library's flags of a slice; a slice without any runs on the scalar core.
ENGINES = {"uses_hmx": "HMX", "for_hvx": "HVX", "for_dma": "DMA"}
SCALAR = "scalar"


@dataclass(frozen=True)
class Slice:
    """A stretch of time in which one thread of the chip does one thing; in cycles."""

    id: int
    op: str  # the library's own op; e.g. q::ConvLayer.fp16.s1.tcm
    engine: str
    thread: int
    start: float
    duration: float


def text_of(data: bytes) -> str:
    """The JSON of a trace.  Raises OpdbError for bytes in another layout."""
    if len(data) > HEADER.size:
        size = HEADER.unpack_from(data)[SIZE]
        text = data[HEADER.size : HEADER.size + size]
        if len(text) == size and text.startswith(b"{") and text.rstrip().endswith(b"}"):
            return text.decode("utf-8", "replace")
    raise OpdbError(f"the library's trace ({counted(len(data), 'byte')}) has a form that opdb does not know")


def chip_of(text: str) -> SimulatedChip:
    """Reads the simulator's configuration in a trace; cheaper than parsing all of it."""
    at = text.rfind(CONFIGURATION)
    if at < 0:
        raise OpdbError("the library's trace does not say which chip was simulated")
    begin = text.index("{", at)
    words: dict[str, Any] = json.JSONDecoder().raw_decode(text, begin)[0]
    return SimulatedChip.of(words)


def node_names(folder: Path) -> dict[int, str]:
    """Maps the ids of slices to node names, from the schematic in ``folder``; {} if the library left none."""
    files = sorted(folder.glob("*_schematic.bin"))
    if not files:
        return {}
    text = files[0].read_text(encoding="utf-8", errors="replace")
    begin = text.rfind("qnn_name_translations")
    if begin < 0:
        return {}
    listed = text[begin : text.find("\n}", begin)]
    return {int(number, 16): _unquoted(name) for number, name in _NODE.findall(listed)}


def _unquoted(name: str) -> str:
    try:
        return str(ast.literal_eval(name))
    except (SyntaxError, ValueError):  # a quote in the name
        return name[1:-1]


def slices(trace: Mapping[str, Any]) -> Iterator[Slice]:
    """Yields the activities of the chip's threads, in the library's order."""
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        flags = event["args"].get("flags", ())
        engine = next((name for flag, name in ENGINES.items() if flag in flags), SCALAR)
        number = int(event["args"]["id"], 16) & 0xFFFFFFFF
        yield Slice(number, event["name"], engine, event["tid"], event["ts"], event["dur"])


def in_microseconds(
    trace: Mapping[str, Any], chip: SimulatedChip, nodes: Mapping[int, Mapping[str, str]], note: str
) -> dict[str, Any]:
    """The trace for chrome://tracing and Perfetto, with times in microseconds; ``nodes``: what to add to slices of each id."""
    made = []
    for event in trace["traceEvents"]:
        changed = dict(event)
        for key in ("ts", "dur"):
            if key in event:
                changed[key] = round(event[key] / chip.mhz, 4)
        if event["ph"] == "X":
            number = int(event["args"]["id"], 16) & 0xFFFFFFFF
            changed["args"] = {**nodes.get(number, {}), **event["args"], "cycles": event["dur"]}
        made.append(changed)
    rest = {key: value for key, value in trace.items() if key != "traceEvents"}
    return {"traceEvents": made, "displayTimeUnit": "ns", "otherData": {"note": note}, **rest}
