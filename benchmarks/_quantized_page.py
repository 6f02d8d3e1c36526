"""Writes docs/results/quantized-sweep.md from the rows of quantized_sweep.py."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from _quantized_case import BOUND, SLACK

Row = Mapping[str, Any]
LEFT = ("no program", "not finite")
#: Outcomes in the order of the table's columns.
OUTCOMES = (
    "right", "coarse", "both refuse", "wrong", "only check accepts", "only check refuses", "not finalized", "not run",
    "traceback", "left out",
)  # fmt: skip
#: Outcomes that need no reason of their own.
ORDERLY = ("right", "coarse", "both refuse", "left out")
#: Why a result is wrong, by a word of the operator that decides it; the first that fits.
REASONS = (
    (r"div_floor", "a quotient that is a whole number falls below it by the rounding of x or y, or by HTP-0446"),
    (r"argsort", "two values share a step: their order is open, and HTP's TopK has another than PyTorch"),
    (r"ceil$|ceil, exp|floor, div|round$", "Ceil, Floor or Round of values a few steps from where the result jumps"),
    (r"div input", "a divisor that its encoding rounds to 0"),
    (r"matmul", "v68's product of 16 by 8 bits is 200 to 1,700 steps off, beside what the Convert of the second factor costs"),
)  # fmt: skip
INTRO = """# Quantized modules: what check says, what compile does, and the values

`opdb check --quantize` shall say what `opdb compile --quantize` does, and results shall be right. {modules} modules (those of
corpus/operators, {random} random ones with a product before and a sum behind, and {chains} chains of two to four operators) were checked,
quantized with their example inputs, compiled by QNN 2.47's library, and run on the emulation of five chips: QCM6490 (v68, integers
alone), SM8350 (v68), SM8550 (v73), SM8650 (v75), SM8750 (v79). Measured on {date}:

    python benchmarks/quantized_sweep.py --random 300
    python benchmarks/quantized_sweep.py --page

"right": the signal is at least {low:.0f} dB above the noise in 8a8w and {high:.0f} dB in 16a8w, against PyTorch in floats. A uniform
tensor of 8 bits has 49 dB and one of 16 bits 98; HTP's products of 16 by 16 bits (HTP-0364) leave 48. "coarse": the
result is further off, but at most {slack:.0f} dB further than the same graph computed in floats with every tensor rounded to its
encoding, or a few steps from it: whatever computes with these encodings is. So are comparisons and roundings, whose
results jump. "both refuse": check rejects a node, and compile exits with 1 or 2. "left out": PyTorch exports no program, no
node is left, or values are not finite.
"""


def outcome(row: Row) -> str:
    """The outcome of a row in one word."""
    check, compiled, values = row["check"], row["compile"], row["values"]
    if check in LEFT:
        return "left out"
    if compiled == "no":
        return "both refuse" if check == "no" else "only check accepts"
    if compiled == "traceback":
        return "traceback"
    if compiled != "yes":
        return "not finalized"
    if check != "yes":
        return "only check refuses"
    return str(values) if values in ("right", "coarse", "wrong") else "not run"


def page(rows: Sequence[Row], kinds: Mapping[str, str], date: str) -> Iterator[str]:
    """The lines of the page.  ``kinds``: the parts of each random module or chain, by its name."""
    names = {r["case"] for r in rows}
    random, chains = (sum(n.startswith(word) for n in names) for word in ("random ", "chain "))
    yield from INTRO.format(
        modules=len(names), random=random, chains=chains, date=date, low=BOUND["8a8w"], high=BOUND["16a8w"], slack=SLACK
    ).splitlines()  # fmt: skip
    yield ""
    yield from _counts(rows)
    for title, wanted in (("Not in order", lambda o: o not in ORDERLY), ("Coarse", lambda o: o == "coarse")):
        yield from ("", f"## {title}", "")
        yield from _listed([r for r in rows if wanted(outcome(r))], kinds, title == "Coarse")
    yield from ("", "## Refused by both", "")
    yield from _refused([r for r in rows if outcome(r) == "both refuse"])


def _counts(rows: Sequence[Row]) -> Iterator[str]:
    yield "| chip | scheme | " + " | ".join(OUTCOMES) + " |"
    yield "|---" * (len(OUTCOMES) + 2) + "|"
    for soc in dict.fromkeys(r["soc"] for r in sorted(rows, key=lambda r: r["soc"])):
        for scheme in BOUND:
            found = Counter(outcome(r) for r in rows if (r["soc"], r["scheme"]) == (soc, scheme))
            yield f"| {soc} | {scheme} | " + " | ".join(str(found[o]) for o in OUTCOMES) + " |"


def _listed(rows: Sequence[Row], kinds: Mapping[str, str], coarse: bool) -> Iterator[str]:
    """A line for each module, scheme and outcome."""
    if not rows:
        yield "None."
        return
    yield "| module | scheme | chips | dB | rounded, dB |" + ("" if coarse else " outcome | reason |")
    yield "|---|---|---|---|---|" + ("" if coarse else "---|---|")
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for r in rows:
        groups.setdefault((r["case"], r["scheme"], outcome(r)), []).append(r)
    for (case, scheme, word), of in groups.items():
        shown = f"{case}: {kinds[case]}" if case in kinds else case
        cells = [shown, scheme, ", ".join(r["soc"] for r in of), _range(of, "found"), _range(of, "rounded")]
        cells += [] if coarse else [word, _reason(of[0], shown)]
        yield "| " + " | ".join(cells) + " |"


def _range(rows: Sequence[Row], key: str) -> str:
    found = sorted(round(r[key]) for r in rows if r[key] is not None)
    return "" if not found else f"{found[0]}" if found[0] == found[-1] else f"{found[0]} to {found[-1]}"


def _reason(row: Row, shown: str) -> str:
    if outcome(row) == "wrong":
        return next((why for word, why in REASONS if re.search(word, shown)), "open")
    return _cut(row["why"])


def _refused(rows: Sequence[Row]) -> Iterator[str]:
    """The chips and schemes of each refused module, with the reason of the first."""
    yield "| module | chips | reason |"
    yield "|---|---|---|"
    groups: dict[str, list[Row]] = {}
    for r in rows:
        groups.setdefault(r["case"], []).append(r)
    everywhere = max(len({(r["soc"], r["scheme"]) for r in of}) for of in groups.values()) if groups else 0
    for case, of in groups.items():
        chips = ", ".join(dict.fromkeys(r["soc"] for r in of))
        yield f"| {case} | {'all' if len(of) == everywhere else chips} | {_cut(of[0]['why'])} |"


def _cut(text: str) -> str:
    """The reason without the chip, fit for one cell."""
    short = re.sub(r"^.*?cannot be quantized for HTP \w+: ", "", text).replace("|", "\\|")
    return short if len(short) <= 150 else short[:147].rsplit(" ", 1)[0] + " ..."
