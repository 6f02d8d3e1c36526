"""The list of each kind of page, the list of all ops with a matrix for any chip and SDK, and the page at the top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opdb.catalog.evidence.status import WORDS
from opdb.core.version import __version__
from opdb.plugins.site.facts import CHIP, Facts
from opdb.plugins.site.page import KINDS, Page

#: What a list says at its beginning.
ABOUT = {
    "op": "QNN's ops, and for a chip and an SDK which kinds of numbers each takes.",
    "torch": "Operators of PyTorch that have a form in QNN.",
    "onnx": "Operators of ONNX that opdb reads, and the QNN ops behind them.",
    "tflite": "Operators of TensorFlow Lite that opdb reads, and the QNN ops behind them.",
    "chip": "Chips that QNN's libraries or documents know, by part number; the search knows their other names, too.",
    "sdk": "Versions of QNN (AI Engine Direct, QAIRT) that the documents and libraries are from.",
    "rule": "Rules of the ops, of all backends. A config that breaks one is refused, or warned of.",
    "erratum": "Faults of Qualcomm's libraries, measured.",
    "code": "QNN's error codes and lines of its log: what they mean, why they come, what to type next.",
}


def pages(facts: Facts, made: Mapping[str, Sequence[Page]]) -> Iterator[Page]:
    """``made``: the pages of each kind."""
    for kind, (many, one) in KINDS.items():
        if kind == "rule":
            yield _rules(facts)
            continue
        entries = [
            {"name": p.title, "file": p.name, "also": list(p.also), "summary": p.summary} for p in made[kind]
        ]
        listed = {"kind": kind, "about": ABOUT[kind], "pages": entries}
        template = "ops.html.j2" if kind == "op" else "list.html.j2"
        yield Page(kind, "index", many, template, listed, {"one": one})
    counts = [{"kind": kind, "name": KINDS[kind][0], "pages": len(made[kind])} for kind in KINDS]
    known = {
        "version": __version__,
        "catalog": facts.catalog.hash,
        "counts": counts,
        "measured": max((r["measured"] for r in facts.runs), default=None),
    }
    yield Page(
        "",
        "index",
        "Which ops run on Qualcomm's NPU",
        "home.html.j2",
        known,
        {"about": ABOUT, "chip": CHIP, "sdk": facts.sdk},
    )


def _rules(facts: Facts) -> Page:
    """3,000 rules are too many for one page: they are listed by op, on the pages of ops."""
    entries = [{"op": op, "rules": len(facts.catalog.compiled(op).rule_ids())} for op in facts.catalog.ops]
    return Page(
        "rule", "index", "Rules", "rules.html.j2", {"kind": "rule", "about": ABOUT["rule"], "ops": entries}
    )


def matrix(facts: Facts) -> dict[str, Any]:
    """The content of matrix.js: a letter for each kind of numbers of each op, by backend, part and SDK.

    The letter is the position of the word in WORDS, "-" where no documents or libraries have such types.
    """
    found: dict[str, Any] = {}
    for backend in facts.backends:
        kinds, sdks = facts.support.kinds(backend), facts.support.sdks.get(backend, ())
        if not kinds:
            continue
        per_soc = facts.catalog.backends[backend].per_soc
        parts = [p for p in facts.support.members if bool(p) == per_soc]
        found[backend] = {
            "kinds": kinds,
            "sdks": list(sdks),
            "parts": {
                part: {
                    sdk: {
                        op: letters
                        for op in facts.catalog.ops
                        if (letters := _letters(facts, op, backend, part, sdk, kinds)).strip("-")
                    }
                    for sdk in sdks
                }
                for part in parts
            },
        }
    chips = {
        chip: {"part": facts.support.part_of.get(chip, chip), "names": row["names"] or ""}
        for chip, row in facts.chips.items()
    }
    return {"backends": found, "chips": chips, "chip": CHIP, "words": list(WORDS)}


def _letters(facts: Facts, op: str, backend: str, part: str, sdk: str, kinds: Sequence[str]) -> str:
    cells = (facts.support.of_kind(op, backend, kind, part, sdk) for kind in kinds)
    return "".join("-" if c is None else str(WORDS.index(c.word)) for c in cells)
