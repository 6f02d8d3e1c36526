"""The size of a page of each kind, and the time of Chromium's first paint, from its own trace.

    tools/with-chromium .venv/bin/python benchmarks/report_paint.py [FILE.html ...]

The pages are those of tests/core/pages, and the check of a model of 3,405 nodes; or the files given.  A line is a page: kB, then
milliseconds from the start of the navigation to the first contentful paint and to the end of loading, each the median of ROUNDS
processes with an empty cache.  The first line is for a page of one word.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "core" / "pages"))

import browser  # noqa: E402

ROUNDS = 5
LAYERS = 200
MARKS = ("firstContentfulPaint", "loadEventEnd")
CATEGORIES = "blink.user_timing,loading"


def pages(folder: Path) -> dict[str, Path]:
    from kinds import coverage_of, write_pages

    from opdb.catalog.store import read_catalog
    from opdb.checks.report.html import page
    from opdb.core import settings

    found = write_pages(folder, read_catalog(settings.specs_folder()))
    coverage = coverage_of(LAYERS)
    large = folder / "large.html"
    large.write_text(page(coverage, "models/encoder.py:make"), encoding="utf-8")
    return found | {f"check of {len(coverage.rows):,} nodes": large}


def milliseconds(path: Path, folder: Path) -> tuple[float, ...]:
    """Milliseconds from the start of one load's navigation to each of MARKS, from its trace."""
    trace = folder / "trace.json"
    asked = [
        os.environ["OPDB_TEST_CHROMIUM"].partition(":")[0], *(f"--{flag}" for flag in browser.FLAGS),
        f"--user-data-dir={folder / 'profile'}",
        f"--trace-startup={CATEGORIES}", f"--trace-startup-file={trace}", "--trace-startup-format=json", "--trace-startup-duration=0",
        "--window-size=1400,900", f"--screenshot={folder / 'page.png'}", path.as_uri(),
    ]  # fmt: skip
    subprocess.run(asked, check=True, capture_output=True, timeout=120)
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    start = next(
        e
        for e in events
        if e["name"] == "navigationStart" and e["args"]["data"]["documentLoaderURL"] == path.as_uri()
    )
    frame = start["args"]["frame"]
    times = {e["name"]: e["ts"] for e in events if e["ts"] > start["ts"] and e["args"].get("frame") == frame}
    return tuple((times[mark] - start["ts"]) / 1e3 for mark in MARKS)


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        word = folder / "word.html"
        word.write_text("<!doctype html><title>word</title>word", encoding="utf-8")
        asked = {Path(a).name: Path(a).resolve() for a in sys.argv[1:]} or pages(folder)
        for kind, path in ({"one word": word} | asked).items():
            rounds = [milliseconds(path, folder) for _ in range(ROUNDS + 1)][1:]
            paint, loaded = (statistics.median(times) for times in zip(*rounds, strict=True))
            print(
                f"{kind:24} {path.stat().st_size / 1e3:6.0f} kB  {paint:6.0f} ms  {loaded:6.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
