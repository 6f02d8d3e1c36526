#!/usr/bin/env python3
"""Writes the figures of the documents that this machine can make again in minutes.

    .venv/bin/python tools/figures.py               # those that follow from the specs; seconds
    .venv/bin/python tools/figures.py --simulated   # also those of Qualcomm's simulation (QNN 2.51); minutes
    .venv/bin/python tools/figures.py --check       # prints what differs, and exits with 1

A figure is a number in a sentence (SENTENCES) or a table between two comments of a page (TABLES):

    <!-- figures: NAME -->
    <!-- /figures -->

Figures that need hours or other machines are not here: their pages give a date and the command.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from opdb.catalog.store import read_catalog
from opdb.core import settings
from opdb.spec.soc import Soc

ROOT = Path(__file__).resolve().parents[1]
#: The chip and the library of all simulated figures.
CHIP, QNN = "SA8255", "2.51"


# -- numbers in sentences


@cache
def chips() -> tuple[Soc, ...]:
    return tuple(read_catalog(settings.specs_folder()).socs.values())


def without_htp() -> int:
    return sum((chip.htp_arch or 0) < 68 for chip in chips())


def without_floats() -> int:
    """Chips with an HTP that computes no floating point."""
    return sum((chip.htp_arch or 0) >= 68 and not chip.more.get("fp16") for chip in chips())


def kernels() -> int:
    """Ops with a C kernel, as `opdb generate` counted them."""
    found = re.search(r"(\d+) have a C kernel", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    return int(found[1])


#: File, the sentence with its number in parentheses, what the number is.
SENTENCES: tuple[tuple[str, str, Callable[[], int]], ...] = (
    ("docs/reference/qnn-libraries.md", r"\*\*(\d+) of the chips with an HTP", without_floats),
    ("docs/guides/quantization.md", r"(\d+) of Qualcomm's chips compute nothing else", without_floats),
    ("docs/guides/quantization.md", r"QCM6490, SM8635 and (\d+) more", lambda: without_floats() - 2),
    ("opdb/judge/error_codes.yaml", r"(\d+) chips are like that, e\.g\.", without_floats),
    ("opdb/judge/error_codes.yaml", r"(\d+) chips are like that\. Quantize", without_floats),
    ("docs/guides/cloud-ai.md", r"\d+ of the (\d+) ops that have a kernel fit", kernels),
    ("docs/guides/custom-ops.md", r"\d+ of the (\d+) ops that have a kernel fit", kernels),
)


def sentences(path: str, text: str) -> str:
    """The text with its numbers.  Exits if a sentence is gone: then its line of SENTENCES goes, too."""
    for file, sentence, number in SENTENCES:
        if file != path:
            continue
        found = re.search(sentence, text)
        if found is None:
            sys.exit(f"figures: {path} has no sentence {sentence!r}; change SENTENCES in tools/figures.py")
        text = f"{text[: found.start(1)]}{number()}{text[found.end(1) :]}"
    return text


# -- tables of the simulation


def estimate(model: str) -> dict[str, Any]:
    """What `opdb cost MODEL --soc SA8255 --json` answers."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"OPDB_URL": f"sqlite:///{folder}/opdb.db"}
        command = [sys.executable, "-m", "opdb", "cost", model, "--soc", CHIP, "--qnn", QNN, "--json"]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"figures: {' '.join(command[2:])}: {done.stderr.splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def microseconds(found: dict[str, Any]) -> str:
    return f"{found['us']:,.0f}{'+' if found['at_least'] else ''}"


def onnx_files() -> Iterator[str]:
    """The networks of the package onnx, fastest first."""
    spec = importlib.util.find_spec("onnx")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "backend" / "test" / "data" / "light"
    found = {path.stem: estimate(str(path)) for path in sorted(folder.glob("*.onnx"))}
    yield from ("| file | QNN ops | us | |", "|---|---|---|---|")
    for name, each in sorted(found.items(), key=lambda item: item[1]["us"]):
        avoided = ", ".join(
            f"{e['erratum']} in {e['nodes']} {'node' if e['nodes'] == 1 else 'nodes'}"
            for e in each["errata"]
            if e["policy"] == "avoid"
        )
        spilled = f"spills {each['spilled_bytes'] / 1e6:.1f} MB" if each["spilled_bytes"] else ""
        notes = "; ".join(filter(None, (f"avoids {avoided}" if avoided else "", spilled)))
        yield f"| {name} | {each['nodes']} | {microseconds(each)} | {notes} |"


#: What is written, its functions in benchmarks/attention_forms.py.
ATTENTION = (
    ("`scaled_dot_product_attention` on repeated keys and values, as transformers calls it", "attention"),
    ("the same with both products written out", "products"),
    ("grouped: the heads that share keys are rows of one product", "grouped"),
    ("head by head", "heads"),
)


def attention() -> Iterator[str]:
    """A layer's attention by how it is written."""
    yield from ("| attention | one token, us | 128 tokens, us |", "|---|---|---|")
    for words, name in ATTENTION:
        times = [
            microseconds(estimate(f"benchmarks/attention_forms.py:{kind}_{name}"))
            for kind in ("decode", "prompt")
        ]
        yield f"| {words} | {' | '.join(times)} |"


#: Page and name of a table, and what writes it.
TABLES: dict[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("docs/results/cost.md", "onnx-files"): onnx_files,
    ("docs/guides/deploy-an-llm.md", "attention"): attention,
}


def tables(path: str, text: str) -> str:
    """The text with its simulated tables."""
    for (file, name), lines in TABLES.items():
        if file != path:
            continue
        begin, end = f"<!-- figures: {name} -->\n", "<!-- /figures -->"
        before, opened, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (opened and closed):
            sys.exit(f"figures: {path} needs the lines {begin.strip()} and {end}")
        text = "\n".join([f"{before}{begin.rstrip()}", *lines(), f"{end}{after}"])
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if a figure differs"
    )
    parser.add_argument("--simulated", action="store_true", help="also what Qualcomm's simulation says")
    asked = parser.parse_args()
    kinds = (sentences, tables) if asked.simulated else (sentences,)
    differ = 0
    for name in sorted(
        {file for file, *_ in SENTENCES} | ({file for file, _ in TABLES} if asked.simulated else set())
    ):
        path = ROOT / name
        old = new = path.read_text(encoding="utf-8")
        for kind in kinds:
            new = kind(name, new)
        if new == old:
            continue
        differ += 1
        if asked.check:
            print(f"differs {name}: run tools/figures.py{' --simulated' if asked.simulated else ''}")
        else:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {name}")
    return int(asked.check and differ > 0)


if __name__ == "__main__":
    sys.exit(main())
