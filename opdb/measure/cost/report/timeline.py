"""Draws the engines of the chip during one execution, and the fill level of its memory, as SVG."""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opdb.measure.cost.difference import kinds
from opdb.measure.cost.figures import Estimate

#: The color of kinds of ops without a color of their own.
OTHER = "#7f7f7f"
WIDTH, LEFT, LANE, GAP, VTCM = 1200, 90, 22, 4, 60
#: Prefix of the name of the counter with the bytes in use.
USAGE = "TCM usage"


def picture(estimate: Estimate, colors: Mapping[str, str]) -> str:
    """Draws a lane for each active thread, colored by the kinds of ops of its group, and the use of VTCM below.

    A column stands for a fixed part of the time; it has the color of the group that is busy longest in it.
    """
    assert estimate.trace is not None
    events: Sequence[Mapping[str, Any]] = estimate.trace["traceEvents"]
    work = [e for e in events if e["ph"] == "X" and e["dur"] > 0]
    end = max((e["ts"] + e["dur"] for e in work), default=1.0)
    names = {e["tid"]: e["args"]["name"].rstrip(":") for e in events if e.get("name") == "thread_name"}
    lanes: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for e in work:
        lanes[e["tid"]].append(e)
    kind_of = {node: kinds(g) for g in estimate.groups for node in g.nodes}
    shapes: list[str] = []
    for i, (tid, slices) in enumerate(sorted(lanes.items())):
        top = i * (LANE + GAP)
        shapes.append(_label(top + LANE - 7, names.get(tid, f"thread {tid}")))
        shapes += _lane(slices, top, end, kind_of, colors)
    top = len(lanes) * (LANE + GAP)
    shapes += _usage([e for e in events if e.get("name") == USAGE], top, end, estimate.chip.vtcm_bytes)
    height = top + VTCM + 24
    shapes += _axis(height, end)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Engines over time">{"".join(shapes)}</svg>'


def _lane(
    slices: Sequence[Mapping[str, Any]],
    top: float,
    end: float,
    kind_of: Mapping[str, str],
    colors: Mapping[str, str],
) -> Iterator[str]:
    """Draws columns with the same owner as one rectangle."""
    owners = _columns(slices, end)
    begin = 0
    for column in range(1, len(owners) + 1):
        if column < len(owners) and owners[column] == owners[begin]:
            continue
        if owner := owners[begin]:
            kind = kind_of.get(owner, owner)
            title = html.escape(f"{owner} ({kind})" if kind != owner else owner)
            yield (
                f'<rect x="{LEFT + begin}" y="{top}" width="{column - begin}" height="{LANE}" '
                f'fill="{colors.get(kind, OTHER)}"><title>{title}</title></rect>'
            )
        begin = column


def _columns(slices: Sequence[Mapping[str, Any]], end: float) -> list[str]:
    """The node, or the library's own op, that is busy longest in each column; "" if nothing runs."""
    count = WIDTH - LEFT
    scale = count / end
    busy: list[dict[str, float]] = [defaultdict(float) for _ in range(count)]
    for e in slices:
        owner = e["args"].get("node") or e["name"].partition("(")[2].rstrip(")") or e["name"]
        first, last = e["ts"] * scale, (e["ts"] + e["dur"]) * scale
        for column in range(int(first), min(count, int(last) + 1)):
            busy[column][owner] += max(0.0, min(last, column + 1) - max(first, column))
    return [max(b, key=lambda name: b[name]) if b and max(b.values()) > 0 else "" for b in busy]


def _usage(events: Sequence[Mapping[str, Any]], top: float, end: float, size: int) -> Iterator[str]:
    """Draws the bytes of VTCM in use as a filled step line."""
    count, bottom = WIDTH - LEFT, top + VTCM
    yield _label(top + 14, "VTCM used")
    yield f'<text x="0" y="{top + 30}" class="quiet">of {size / 2**20:g} MB</text>'
    path, height = [f"M{LEFT} {bottom}"], 0.0
    for e in events:
        x = LEFT + min(count, e["ts"] / end * count)
        path.append(f"H{x:.1f}")
        height = min(1.0, float(e["args"]["Bytes"]) / size) * VTCM if size else 0.0
        path.append(f"V{bottom - height:.1f}")
    path.append(f"H{WIDTH}V{bottom}Z")
    yield f'<path d="{"".join(path)}" fill="#56b4e9" fill-opacity=".6"/>'


def _axis(height: float, end: float) -> Iterator[str]:
    for i in range(6):
        x = LEFT + (WIDTH - LEFT) * i / 5
        anchor = "end" if i == 5 else "middle" if i else "start"
        yield f'<text x="{x:.0f}" y="{height - 6}" text-anchor="{anchor}" class="quiet">{end * i / 5:,.0f} us</text>'


def _label(y: float, text: str) -> str:
    return f'<text x="0" y="{y}">{html.escape(text)}</text>'
