"""Reports of a profile's data as text, rows per node, JSON, and a Chrome trace."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.graph import GraphOp
from opdb.runtime.qnn.profile import NODE, STAGES, Event, Profile, ProfiledCall

FORMATS = ("text", "json", "trace")
VERSION = 1
#: The NodeTime row for the time that no node accounts for.
REST = "(rest)"
LAYOUT = (
    "the library gives durations without a time of day: calls follow one another, and so do the parts of a call, "
    "in the library's order; parts counted in cycles share the accelerator's time in proportion"
)


@dataclass(frozen=True)
class NodeTime:
    """The time of one node, summed over ``runs`` calls.

    ``node`` is the node's name, the library's name for a part that is not a node, or REST for the remainder of the
    call.  ``op`` and ``origin`` (e.g. the torch node) are "" if unknown: for a part that is not a node, and in a
    graph from a context binary.  ``total`` and ``mean`` (per run) are in ``unit``, us or cycles; ``share`` is the
    fraction of the whole, from 0 to 1.
    """

    graph: str
    node: str
    op: str
    origin: str
    runs: int
    total: float
    mean: float
    unit: str
    share: float


COLUMNS = ("graph", "node", "op", "origin", "runs", "mean", "unit", "share")


def note(profile: Profile) -> str:
    """A note on how meaningful the figures of a profile are."""
    machine = platform.machine()
    if profile.backend == "HTP" and machine in ("x86_64", "AMD64"):
        return f"HTP is an emulation on {machine}: times and cycles are this machine's, not those of a device"
    if profile.backend == "HTP":
        return "times and cycles as the library gives them"
    return f"{profile.backend} runs QNN's reference kernels on this machine: its times say nothing about a device"


def node_times(profile: Profile, stage: str = "execute") -> list[NodeTime]:
    """The time of each node in the calls of one stage, in the library's order, per graph.

    The shares of a graph add up to 1.  Empty if the calls were not split by node: at level basic, or when HTP
    finalizes.  Raises OpdbError for an unknown stage.
    """
    if stage not in STAGES:
        raise OpdbError(f"{stage!r} is not a stage; one of {', '.join(STAGES)}")
    graphs: dict[str, list[ProfiledCall]] = {}
    for call in profile.calls:
        if call.stage == stage and call.split and any(e.type == NODE for e in call.split.events):
            graphs.setdefault(call.graph, []).append(call)
    return [row for graph, calls in graphs.items() for row in _node_times(graph, calls)]


def _node_times(graph: str, calls: Sequence[ProfiledCall]) -> Iterator[NodeTime]:
    ops: dict[str, GraphOp] = {op.name: op for op in calls[-1].ops}
    splits = [call.split for call in calls if call.split]
    sums: dict[
        tuple[str, bool], float
    ] = {}  # nodes are keyed apart from other parts, which may have the same names
    for event in (e for split in splits for e in split.events):
        key = (event.node, True) if event.node else (event.name, False)
        sums[key] = sums.get(key, 0) + event.value
    whole = sum(split.value for split in splits)
    rest = whole - sum(sums.values())
    if rest > 0:
        sums[REST, False] = rest
    whole = max(whole, sum(sums.values()))
    for (name, is_node), total in sums.items():
        op = ops.get(name) if is_node else None
        yield NodeTime(
            graph=graph,
            node=name,
            op=op.op if op else "",
            origin=op.origin if op else "",
            runs=len(splits),
            total=total,
            mean=total / len(splits),
            unit=splits[0].unit,
            share=total / whole if whole else 0.0,
        )


def origin_times(rows: Sequence[NodeTime]) -> list[NodeTime]:
    """The rows summed by origin, because one torch node may become several QNN nodes."""
    out: dict[tuple[str, str], NodeTime] = {}
    for row in rows:
        key = (row.graph, row.origin or f"\0{row.node}")
        if (old := out.get(key)) is None:
            out[key] = row
        else:
            out[key] = NodeTime(
                row.graph,
                f"{old.node}, {row.node}",
                f"{old.op}, {row.op}",
                row.origin,
                row.runs,
                old.total + row.total,
                old.mean + row.mean,
                row.unit,
                old.share + row.share,
            )
    return list(out.values())


def rows(times: Sequence[NodeTime]) -> list[dict[str, Any]]:
    """The times as table rows with at least the columns COLUMNS; the share in percent."""
    return [
        {**asdict(t), "mean": round(t.mean, 1) if t.mean < 100 else round(t.mean), "share": f"{t.share:.1%}"}
        for t in times
    ]


def text(profile: Profile) -> str:
    """All events as an indented tree below the note, one per line with value and unit."""
    lines = [_title(profile), note(profile)]
    if profile.level == "off":
        lines.append("level off: nothing was collected")
    for call in profile.calls:
        lines.append(_label(call))
        parts = [(depth, e) for event in call.events for depth, e in _tree(event, 1)]
        width = max((2 * depth + len(e.name) for depth, e in parts), default=0)
        for depth, e in parts:
            name = "  " * depth + e.name.strip()
            lines.append(f"{name.ljust(width)}  {e.value:>12} {e.unit}".rstrip())
    return "\n".join(lines) + "\n"


def document(profile: Profile) -> dict[str, Any]:
    """Everything as JSON data: the calls with their event trees, and the nodes of finalization and execution.

    Times are in the unit next to them.  Within a version (``opdb_profile``) keys are only added.
    """
    return {
        "opdb_profile": VERSION,
        "backend": profile.backend,
        "build_id": profile.build_id,
        "soc": profile.soc,
        "soc_model": profile.soc_model,
        "level": profile.level,
        "note": note(profile),
        "calls": [
            {
                "stage": call.stage,
                "graph": call.graph,
                "run": call.run,
                "total_us": call.total.value if call.total else None,
                "events": [_event(e, {op.name: op for op in call.ops}) for e in call.events],
            }
            for call in profile.calls
        ],
        "nodes": {
            stage: [asdict(t) for t in node_times(profile, stage)] for stage in ("finalize", "execute")
        },
    }


def _event(event: Event, ops: Mapping[str, GraphOp]) -> dict[str, Any]:
    op = ops.get(event.node)
    return {
        "name": event.name,
        "type": event.type,
        "type_name": event.type_name,
        "unit": event.unit,
        "value": event.value,
        "timestamp": event.timestamp,
        "node": event.node,
        "op": op.op if op else "",
        "origin": op.origin if op else "",
        "events": [_event(e, ops) for e in event.events],
    }


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """The calls in Chrome's trace event format, for chrome://tracing and Perfetto; times in us.

    One slice per call contains the accelerator's part, which contains the nodes or steps.  Other figures of a call
    are its ``args``.  See LAYOUT, which ``otherData`` repeats.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": _title(profile)}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "calls"}},
    ]
    start = 0.0
    for call in profile.calls:
        events += slices(call, start)
        start += float(call.total.value) if call.total else 0.0
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "note": note(profile),
            "layout": LAYOUT,
            "backend": profile.backend,
            "build_id": profile.build_id,
            "soc": profile.soc or "",
            "level": profile.level,
        },
    }


def slices(call: ProfiledCall, start: float) -> Iterator[dict[str, Any]]:
    """One call as complete events (ph X), outermost first; ``start`` in us.  Empty for a call without a time."""
    if call.total is None:
        return
    whole = float(call.total.value)
    shown = [e for e in (call.total, call.accelerator, call.split) if e]
    other = {e.name: f"{e.value} {e.unit}".rstrip() for e in call.events if e not in shown}
    yield _slice(_label(call), call.stage, start, whole, {"event": call.total.name, **other})
    if call.accelerator:
        whole = min(whole, float(call.accelerator.value))
        yield _slice(call.accelerator.name, call.stage, start, whole, {})
    if call.split is None:
        return
    scale = whole / call.split.value if call.split.unit == "cycles" and call.split.value else 1.0
    sum_ = sum(e.value for e in call.split.events) * scale
    scale *= min(1.0, whole / sum_) if sum_ else 1.0
    ops = {op.name: op for op in call.ops}
    for event in call.split.events:
        op = ops.get(event.node)
        args = {"value": event.value, "unit": event.unit, **{e.name: e.value for e in event.events}}
        if op:
            args |= {"op": op.op, "origin": op.origin}
        yield _slice(
            event.node or event.name, "node" if event.node else "part", start, event.value * scale, args
        )
        start += event.value * scale


def _slice(
    name: str, category: str, start: float, duration: float, args: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": 1,
        "tid": 1,
        "ts": round(start, 3),
        "dur": round(duration, 3),
        "args": dict(args),
    }


def render(profile: Profile, format_: str) -> str:
    """The profile in one of FORMATS.  Raises OpdbError for an unknown format."""
    if format_ == "text":
        return text(profile)
    if format_ == "json":
        return json.dumps(document(profile), indent=2, ensure_ascii=False) + "\n"
    if format_ == "trace":
        return json.dumps(chrome_trace(profile), ensure_ascii=False) + "\n"
    raise OpdbError(f"{format_!r} is not a format of a profile; one of {', '.join(FORMATS)}")


def save(profile: Profile, path: Path | str, format_: str) -> None:
    """Writes ``render`` to a file atomically.  Raises OpdbError."""
    write_atomically(Path(path), render(profile, format_))


def _title(profile: Profile) -> str:
    chip = profile.soc or (f"SoC {profile.soc_model}" if profile.soc_model is not None else "")
    return f"QNN {profile.backend} {chip}".rstrip() + f" {profile.build_id}, level {profile.level}"


def _label(call: ProfiledCall) -> str:
    return f"{call.stage} {call.graph}".rstrip() + f", run {call.run}"


def _tree(event: Event, depth: int) -> Iterator[tuple[int, Event]]:
    yield depth, event
    for below in event.events:
        yield from _tree(below, depth + 1)
