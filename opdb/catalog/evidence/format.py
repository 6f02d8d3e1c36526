"""The evidence file: gzipped JSON lines, the same bytes for the same cells.

The first line is the head, {"format": "opdb-evidence", "version": 1, "cells": N}.  Then come runs, in order; then op
configs and reasons, each once; then one line per op (or PyTorch operator) and row: its outcomes, each with the indices
of the runs that had it.  ``zcat FILE`` shows all of it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from opdb.catalog.evidence import EXECUTIONS, KINDS, STAGES, WORST, Cell, Evidence, Outcome, Run
from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically

FORMAT, VERSION = "opdb-evidence", 1
#: The letter of a status in counts.
LETTERS = {"yes": "y", "no": "n", "unknown": "u", "crashed": "c", "hung": "h", "not-applicable": "-"}
_WORDS = {letter: word for word, letter in LETTERS.items()}
#: The text fields of an outcome; each distinct text is stored once per file.
_TEXTS = ("case", "config", "stopped_case", "reason")
_PLAIN = ("spec", "cases", "furthest", "stopped", "code", "code_name")


def shipped_path() -> Path:
    """The path of the shipped evidence file."""
    return Path(str(files("opdb.catalog.evidence"))) / "shipped.jsonl.gz"


def shipped() -> Evidence:
    """The evidence shipped with opdb.  Raises OpdbError if the file is damaged."""
    path = shipped_path()
    return _read_once(path, path.stat().st_mtime_ns) if path.is_file() else Evidence()


@cache
def _read_once(path: Path, changed: int) -> Evidence:
    return read(path)


def read(path: Path) -> Evidence:
    """Reads a file of evidence.  Raises OpdbError if it is unreadable, of another format, or damaged (with the line)."""
    try:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise OpdbError(f"{path}: no file of evidence can be read from it: {error}") from None
    return _Reader(str(path)).read(text.splitlines())


def write(path: Path, evidence: Evidence) -> int:
    """Writes the file atomically and returns its size in bytes.  Raises OpdbError if it cannot be written."""
    data = packed(evidence)
    write_atomically(path, data)
    return len(data)


def packed(evidence: Evidence) -> bytes:
    """The bytes of the file, without a time or file name in the gzip header."""
    text = "".join(f"{line}\n" for line in _lines(evidence))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _lines(evidence: Evidence) -> Iterator[str]:
    yield _json({"format": FORMAT, "version": VERSION, "cells": len(evidence)})
    runs = evidence.runs
    number = {run: i for i, run in enumerate(runs)}
    yield from (_json({"run": asdict(run)}) for run in runs)
    outcomes = [cell.outcome for cell in evidence.cells.values()]
    texts = sorted({getattr(o, name) for o in outcomes for name in _TEXTS} - {""})
    place = {text: i for i, text in enumerate(texts)}
    yield from (_json({"text": text}) for text in texts)
    rows: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for cell in evidence.cells.values():
        said = rows.setdefault((cell.kind, cell.name, cell.row), {})
        said.setdefault(_json(_outcome(cell.outcome, place)), []).append(number[cell.run])
    for key, outcomes_of in sorted(rows.items()):
        each = sorted((sorted(found), text) for text, found in outcomes_of.items())
        joined = ",".join(f"[{_json(found)},{text}]" for found, text in each)
        yield f'{{"of":{_json(key)},"outcomes":[{joined}]}}'


def _outcome(outcome: Outcome, place: dict[str, int]) -> dict[str, Any]:
    """The non-empty fields; counts are encoded as e.g. "2y1n"."""
    found = {name: getattr(outcome, name) for name in _PLAIN}
    found |= {name: place[text] for name in _TEXTS if (text := getattr(outcome, name))}
    found["counts"] = [
        "".join(f"{n}{LETTERS[s]}" for s, n in sorted(counts.items(), key=lambda e: WORST.index(e[0])))
        for counts in outcome.counts
    ]
    return {k: v for k, v in found.items() if v not in ("", None)} | (
        {"errata": list(outcome.errata)} if outcome.errata else {}
    )


class _Reader:
    """One file; ``name`` is for messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs: list[Run] = []
        self.texts: list[str] = []
        self.cells: list[Cell] = []

    def read(self, lines: list[str]) -> Evidence:
        head = self._json(1, lines[0]) if lines else {}
        if head.get("format") != FORMAT:
            raise OpdbError(
                f"{self.name}: this is no file of evidence: its first line has no format {FORMAT}"
            )
        if head.get("version") != VERSION:
            raise OpdbError(
                f"{self.name}: evidence of format {head.get('version')}; this opdb reads format {VERSION}: "
                "use the opdb that wrote it, or export it again with this one"
            )
        for number, line in enumerate(lines[1:], 2):
            try:
                self._line(self._json(number, line))
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise OpdbError(f"{self.name}:{number}: not a line of evidence: {error!r}") from None
        found = Evidence.of(self.cells)
        if len(found) != head.get("cells") or len(found) != len(self.cells):
            raise OpdbError(
                f"{self.name}: the head says {head.get('cells')} cells, {len(self.cells)} follow, {len(found)} of them "
                "different: the file is damaged; export or install it again"
            )
        return found

    def _json(self, number: int, line: str) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            raise OpdbError(f"{self.name}:{number}: not JSON: {error.msg}") from None
        if not isinstance(found, dict):
            raise OpdbError(f"{self.name}:{number}: not a line of evidence")
        return found

    def _line(self, line: dict[str, Any]) -> None:
        if "run" in line:
            run = Run(**line["run"])
            if run.execution not in EXECUTIONS:
                raise ValueError(f"no execution '{run.execution}'; one of {', '.join(EXECUTIONS)}")
            self.runs.append(run)
        elif "text" in line:
            self.texts.append(str(line["text"]))
        else:
            kind, name, row = line["of"]
            if kind not in KINDS:
                raise ValueError(f"no kind '{kind}'; one of {', '.join(KINDS)}")
            for runs, said in line["outcomes"]:
                outcome = self._read_outcome(said)
                self.cells += [Cell(kind, name, row, self.runs[i], outcome) for i in runs]

    def _read_outcome(self, said: dict[str, Any]) -> Outcome:
        found = dict(said)
        found |= {name: self.texts[found[name]] for name in _TEXTS if name in found}
        found["counts"] = tuple(map(_counts, found["counts"]))
        if len(found["counts"]) != len(STAGES):
            raise ValueError(f"counts of {len(found['counts'])} stages, not of {len(STAGES)}")
        found["errata"] = tuple(found.get("errata", ()))
        return Outcome(**found)


@cache
def _counts(text: str) -> dict[str, int]:
    """Decodes counts, e.g. "2y1n" -> yes: 2, no: 1."""
    found, digits = {}, ""
    for letter in text:
        if letter.isdigit():
            digits += letter
        else:
            found[_WORDS[letter]], digits = int(digits), ""
    if digits:
        raise ValueError(f"counts '{text}' end in a number")
    return found
