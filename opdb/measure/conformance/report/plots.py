"""Error plots as SVG: distances of results from PyTorch's against magnitude, and their frequency.

Both axes are logarithmic; a point or a bar names its executor by color and in its title.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from opdb.measure.conformance.report.rows import Row
from opdb.core.names import counted

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 260, 56, 40, 14
#: Okabe and Ito's colors, which color-blind people can tell apart.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b8a800")
#: Bins of the histogram: errors up to this number of units in the last place; the last bin takes the rest.
BINS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 1024.0, math.inf)


def plots(rows: Sequence[Row]) -> str:
    """Returns two figures as HTML; "" if no result was compared."""
    measured = [r for r in rows if r.ulp is not None and r.error_max is not None and r.executor != "torch"]
    if not measured:
        return ""
    places = sorted({r.place for r in measured})
    colors = {p: COLORS[i % len(COLORS)] for i, p in enumerate(places)}
    keys = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><circle cx="6" cy="6" r="5" fill="{colors[p]}"/></svg>'
        f"{html.escape(p)}</li>"
        for p in places
    )
    exact = sum(r.error_max == 0 for r in measured)
    return (
        f"<p>{counted(len(measured), 'result')} compared with PyTorch's, {exact} of them equal.</p>"
        f'<ul class="legend">{keys}</ul><div class="plots">'
        f"<figure>{_scatter(measured, colors)}<figcaption>Largest error of a result against the size of the"
        " number there, both in real units; equal results are not drawn.</figcaption></figure>"
        f"<figure>{_histogram(measured, colors)}<figcaption>Results by their largest error, in units of the last"
        " place (quantized: in steps).</figcaption></figure></div>"
    )


def _scatter(rows: Sequence[Row], colors: dict[str, str]) -> str:
    points = [
        (float(r.magnitude), float(r.error_max), r)
        for r in rows
        if r.magnitude and r.error_max and math.isfinite(r.magnitude) and math.isfinite(r.error_max)
    ]
    if not points:
        return _figure("No result with an error", ())
    (x, across), (y, up) = _scale([p[0] for p in points], LEFT, WIDTH - 8), _scale(
        [p[1] for p in points], HEIGHT - BOTTOM, TOP
    )  # fmt: skip
    shapes = [
        f'<circle cx="{x(m):.1f}" cy="{y(e):.1f}" r="3" fill="{colors[r.place]}" fill-opacity=".6">'
        f"<title>{html.escape(f'{r.place} {r.case}: error {e:.3g} at {m:.3g}')}</title></circle>"
        for m, e, r in points
    ]
    grid = [*_ticks(across, x, True), *_ticks(up, y, False)]
    return _figure("Error against magnitude", (*grid, *shapes), "magnitude", "error")


def _histogram(rows: Sequence[Row], colors: dict[str, str]) -> str:
    counts = Counter((r.place, _bin(float(r.ulp or 0.0))) for r in rows)
    tallest = max(sum(counts[p, b] for p in colors) for b in range(len(BINS)))
    wide = (WIDTH - LEFT - 8) / len(BINS)
    shapes = []
    for b, limit in enumerate(BINS):
        left, base = LEFT + b * wide, float(HEIGHT - BOTTOM)
        for place, color in colors.items():
            high = counts[place, b] / tallest * (HEIGHT - BOTTOM - TOP)
            base -= high
            if high:
                title = html.escape(f"{place}: {counts[place, b]} results, {_bin_text(b)}")
                shapes.append(
                    f'<rect x="{left + 2:.1f}" y="{base:.1f}" width="{wide - 4:.1f}" height="{high:.1f}" '
                    f'fill="{color}"><title>{title}</title></rect>'
                )
        label = "more" if math.isinf(limit) else "equal" if limit == 0 else f"≤{limit:g}"
        shapes.append(_text(left + wide / 2, HEIGHT - BOTTOM + 14, label, "middle"))
    shapes.append(_text(LEFT - 6, TOP + 8, str(tallest), "end"))
    return _figure("Results by error", shapes, "units of the last place", "results")


def _bin(ulp: float) -> int:
    return next(i for i, limit in enumerate(BINS) if ulp <= limit or math.isinf(limit))


def _bin_text(b: int) -> str:
    return "equal" if b == 0 else f"over {BINS[b - 1]:g}" + ("" if math.isinf(BINS[b]) else f" to {BINS[b]:g}")


def _scale(values: Sequence[float], start: float, end: float) -> tuple[Callable[[float], float], range]:
    """Returns the function that places a value between ``start`` and ``end``, and the powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    return (
        lambda v: start + (math.log10(v) - low) / (high - low) * (end - start),
        range(low, high + 1, max(1, (high - low) // 6)),
    )


def _ticks(powers: range, place: Callable[[float], float], across: bool) -> Iterator[str]:
    for power in powers:
        at = place(10.0**power)
        if across:
            yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            yield _text(at, HEIGHT - BOTTOM + 14, f"1e{power}", "middle")
        else:
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{at:.1f}" y2="{at:.1f}"/>'
            yield _text(LEFT - 6, at + 4, f"1e{power}", "end")


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _figure(title: str, shapes: Sequence[str], across: str = "", up: str = "") -> str:
    axes = (
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 8}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>'
        f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
    )
    words = _text((LEFT + WIDTH) / 2, HEIGHT - 6, across, "middle") + _text(LEFT, TOP - 3, up, "middle")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">{axes}{words}'
        f"{''.join(shapes)}</svg>"
    )
