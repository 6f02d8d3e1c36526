"""The differences of all cases, each once, judged by the numbers; as a page."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

EQUAL, OURS, THEIRS, NEITHER = "equal in effect", "ours right", "theirs right", "both wrong"
#: How a side handled a node, best first; equal ranks are equal in effect.
RANK = {"right": 3, "declines": 2, "refused by QNN": 2, "raises": 1, "wrong": 0, "fails": 0}
LAYOUT = {"Transpose", "Reshape"}
#: Names of nodes and numbers in messages.
NAMES = re.compile(r"\b(aten_\w+|(args|given)_\d+|b__?\w+|p_\w+|_lifted\w*|\d[\d.e-]*)\b")

Row = dict[str, Any]

INTRO = """# Differences from ExecuTorch's builders

Written by `python benchmarks/executorch_differences --page docs/results/executorch-differences.md`. For each operator of the edge
graph that ExecuTorch 1.4.1 and opdb both have a builder for, both build the same node of the same graph (ExecuTorch's own
flow, SM8650, QNN 2.47), and what they hand to QNN is compared: op types, parameters with type and values, tensors with
shape, type, data type, encoding and data. `fp16` are float programs, `8a8w` those of ExecuTorch's quantizer. Opdb's builders are
those for the emulator (`execution="emulator"`); *on a device* has what they make by default, where that is other ops.

A row is a difference of one node. The numbers are from programs that differ in the builders alone, run on QNN's emulation:
the largest error over the largest value of what PyTorch computes, of the float or of the quantized module. Right is an
error of at most 1e-2 (some long sums 2e-2), three steps of a quantized output, none in whole numbers. Where several
operators of a program differ and only one side is right, each operator is exchanged alone.

- *ours right*: theirs is wrong, does not compile or run, raises (which ends the export), declines, or is refused by QNN's
  validator (the node runs on the CPU); *theirs right*: the other way round
- *equal in effect*: both are right; *both wrong*: neither is (here: whole numbers that are cut from fractions)
- `~`: one or more of Transpose, Reshape; `×n`: n ops in a row; `declines (...)`: the rules that refuse
- *why more ops*: where ours are more, the errata that are avoided ([errata.md](../guides/errata.md)), or the rule or reason that
  ruled out a shorter candidate
"""
#: (flow, operator, difference) of rows in which theirs is right, with the reason; the sweep allows no others.
REASONS: dict[tuple[str, str, str], str] = {
    ("fp16", "aten._to_copy.default", "Cast ×2 → Cast, ElementWiseAdd, Cast"): (
        "theirs rounds where PyTorch cuts (0.6 becomes 1, -2.75 becomes -3); here HTP's floor of 3.5 is 3.0001, and what "
        "comes of it is cut as 0.9998 by ours and rounded to 1 by theirs"
    ),
}


#: (operator, op) -> why an op more is needed that no erratum and no rule asks for; see ``why``.
NEEDED = {
    ("aten.where.self", "Tile"): "HTP-0327",
    (
        "aten.native_group_norm.default",
        "GroupNorm",
    ): "GroupNorm.H1: of five dimensions it is reshaped to four",
    (
        "aten.index.Tensor",
        "ElementWiseMod",
    ): "PyTorch counts negative indices from the end; Gather takes none",
    (
        "aten.index_put.default",
        "ElementWiseMod",
    ): "PyTorch counts negative indices from the end; ScatterNd takes none",
}


@dataclass(frozen=True)
class Key:
    """Differences with the same key share one row.  ``lines``: without names, shapes, scales and values of tensors."""

    precision: str
    edge: str
    lines: tuple[str, ...]


def targets_of(record: Mapping[str, Any]) -> set[str]:
    """Edge names that both builders were asked about."""
    return {*record.get("equal", ()), *(d["edge"] for d in record.get("differences", ()))}


def key(precision: str, difference: Mapping[str, Any]) -> Key:
    lines = [_line(difference, *line) for line in difference["lines"]]
    return Key(precision, difference["edge"], tuple(dict.fromkeys(lines)))


def _line(d: Mapping[str, Any], place: str, what: str, theirs: str, ours: str) -> str:
    if what == "ops":
        return f"{side(d['theirs'])} → {side(d['ours'])}"
    place = re.sub(r"\[\d+\] (in|out)puts", r" \1puts", place)
    if what in ("shape", "quant", "data", "tensor"):
        return f"{place} {'encoding' if what == 'quant' else what}"
    return f"{place} {what}: {_values(theirs)} → {_values(ours)}"


def _values(shown: str) -> str:
    """A parameter's values, with those of a tensor elided; e.g. (0, 2) (UINT_32[2]) -> values (UINT_32)."""
    return re.sub(r"^\(.*\) \((\w+)\[.*\]\)$", r"values (\1)", shown)


def side(made: Mapping[str, Any]) -> str:
    """The ops, with runs of Transpose and Reshape as "~", or the refusal."""
    if made["raised"]:
        return f"raises {NAMES.sub('…', made['refusal'])[:70]}"
    if made["refusal"]:
        rules = dict.fromkeys(part.partition(":")[0] for part in made["refusal"].split("; ") if ": " in part)
        shown = [*list(rules)[:2], *(["…"] if len(rules) > 2 else [])]
        return f"declines ({', '.join(shown)})" if rules else "declines"
    words = ["~" if op in LAYOUT and len(set(made["ops"]) - LAYOUT) else op for op in made["ops"]]
    runs = [(op, len(list(run))) for op, run in groupby(words)]
    return ", ".join(op if n == 1 or op == "~" else f"{op} ×{n}" for op, n in runs) or "nothing"


def judged(
    records: Sequence[Mapping[str, Any]],
    proofs: Sequence[Mapping[str, Any]],
    kept: Mapping[Key, Row] = MappingProxyType({}),
) -> list[Row]:
    """A row for each difference, with the judgement of the decisive case; ``kept``: rows of cases that were not run.

    Differences that were neither run nor kept have no row.
    """
    numbers = {(p["case"], p["precision"]): p for p in proofs}
    found: dict[Key, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = defaultdict(list)
    for record in records:
        seen = set()
        for d in record.get("differences", ()):
            k = key(record["precision"], d)
            if k not in seen:
                found[k].append((record, d))
            seen.add(k)
    return [
        _row(k, uses, numbers, kept.get(k))
        for k, uses in sorted(found.items(), key=lambda x: (x[0].edge, x[0].precision, x[0].lines))
        if k in kept or any((record["case"], record["precision"]) in numbers for record, _ in uses)
    ]


def settled(records: Sequence[Mapping[str, Any]], proofs: Sequence[Mapping[str, Any]]) -> set[Key]:
    """Differences for which some case has shown that a side is right."""
    proved = {(p["case"], p["precision"]) for p in proofs}
    rows = judged([r for r in records if (r["case"], r["precision"]) in proved], proofs)
    return {Key(r["precision"], r["target"], tuple(r["differs"])) for r in rows if r["judgement"] != NEITHER}


def _row(k: Key, uses: Any, numbers: Mapping[tuple[str, str], Mapping[str, Any]], kept: Row | None) -> Row:
    tried = []
    for record, d in uses:
        proof = numbers.get((record["case"], record["precision"]))
        if proof is not None:
            theirs, ours = outcomes(d, proof)
            shared = len({key(k.precision, x) for x in record["differences"] if x["edge"] == k.edge})
            tried.append((judge(theirs["status"], ours["status"]), record["case"], theirs, ours, d, shared))
    if not tried and kept is not None:
        record, d = uses[0]
        return {**kept, "case": record["case"], "cases": len(uses), "device": _on_device(d), "why": why(d)}
    order = [THEIRS, OURS, EQUAL, NEITHER]
    fewest = min(t[5] for t in tried)  # an operator that differs in several ways in one program says less
    tried = [t for t in tried if t[5] == fewest]
    judgement, case, theirs, ours, d, _ = min(tried, key=lambda t: (order.index(t[0]), -(t[3]["error"] or 0)))
    return {
        "target": k.edge, "precision": k.precision, "differs": list(k.lines), "judgement": judgement,
        "theirs": theirs, "ours": ours, "case": case, "cases": len(uses), "run": len(tried),
        "device": _on_device(d), "why": why(d),
        "example": [f"{' '.join(filter(None, line[:2]))}: {line[2]} | {line[3]}" for line in d["lines"]],
    }  # fmt: skip


def _on_device(d: Mapping[str, Any]) -> str:
    """The ops for a device; "" if they equal those for the emulator."""
    device = side(d.get("device", d["ours"]))
    return "" if device == side(d["ours"]) else device


def why(d: Mapping[str, Any]) -> str:
    """The reason opdb makes more ops of a node, for the emulator or for a device; "" if it does not, "?" if no reason is known."""
    theirs, ours, device = (
        (d[s] for s in ("theirs", "ours", "device")) if "device" in d else [d["theirs"]] * 3
    )
    if any(made["refusal"] for made in (theirs, ours, device)):
        return ""
    if max(len(ours["ops"]), len(device["ops"])) <= len(theirs["ops"]):
        return ""
    if d.get("avoided"):
        return ", ".join(d["avoided"])
    needed = [reason for (edge, op), reason in NEEDED.items() if edge == d["edge"] and op in ours["ops"]]
    passed = [rule if ".M_" not in rule else f"{form}: {message.partition('; got ')[0]}"
              for form, rule, message in d.get("passed", ())]  # fmt: skip
    return "; ".join(dict.fromkeys((*needed, *passed[:2]))) or "?"


def judge(theirs: str, ours: str) -> str:
    if RANK[theirs] != RANK[ours]:
        return OURS if RANK[ours] > RANK[theirs] else THEIRS
    return EQUAL if RANK[ours] else NEITHER


def outcomes(d: Mapping[str, Any], proof: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outcome of one node on each side; from the run with its operator exchanged alone if there is one."""
    runs = proof["runs"]
    sides = {"theirs": runs["theirs"], "ours": runs["ours"]}
    if d["target"] in runs:
        sides["theirs" if runs["ours"]["right"] else "ours"] = runs[d["target"]]
    theirs, ours = (
        {"status": _status(d[name], run, d["node"]), "error": run["error"], "failure": run["failure"]}
        for name, run in sides.items()
    )
    return theirs, ours


def _status(made: Mapping[str, Any], run: Mapping[str, Any], node: str) -> str:
    if run["right"] or run["failure"]:  # wrong numbers are not excused by a refusal
        if made["refusal"]:
            return "raises" if made["raised"] else "declines"
        if node in run["left"]:
            return "refused by QNN"
    if run["failure"]:
        return "fails"
    return "right" if run["right"] else "wrong"


# -- the page


def counts(rows: Sequence[Mapping[str, Any]], precision: str | None = None) -> dict[str, int]:
    found = Counter(r["judgement"] for r in rows if precision in (None, r["precision"]))
    return {j: found[j] for j in (EQUAL, OURS, THEIRS, NEITHER)}


def summary(
    rows: Sequence[Mapping[str, Any]], records: Sequence[Mapping[str, Any]], both: Sequence[str]
) -> str:
    reached = set().union(*map(targets_of, records))
    differ = {r["target"] for r in rows}
    lines = [f"{len(both)} operators that both have; {len(reached)} reached; {len(differ)} differ somewhere"]
    missing = sorted(set(both) - reached)
    if missing:
        lines.append(f"not reached: {', '.join(missing)}")
    for precision in ("fp16", "8a8w"):
        mine = [r for r in records if r["precision"] == precision]
        compared = [r for r in mine if targets_of(r)]
        shown = ", ".join(f"{n} {j}" for j, n in counts(rows, precision).items())
        lines.append(f"{precision}: {len(compared)} programs; {shown}")
        if kept := sum(r["run"] == 0 and r["precision"] == precision for r in rows):
            lines.append(
                f"{precision}: {kept} of these rows are as on the earlier page, and their numbers were not run again"
            )
    unexplained = [
        f"{r['target']} ({r['case']})" for r in rows if r["judgement"] == EQUAL and r["why"] == "?"
    ]
    lines.append(
        f"equal in effect with more ops, without an erratum or a rule: {', '.join(unexplained) or 'none'}"
    )
    return "\n".join(lines)


def page(rows: Sequence[Mapping[str, Any]], told: str) -> str:
    """The text of the page; ``told``: the summary."""
    parts = [INTRO.rstrip(), "", *(f"- {line}" for line in told.splitlines()), ""]
    for judgement in (THEIRS, NEITHER, OURS, EQUAL):
        mine = [r for r in rows if r["judgement"] == judgement]
        parts += [f"## {judgement.capitalize()}: {len(mine)}", ""]
        if mine:
            parts += [
                "| operator | flow | theirs → ours | on a device | theirs | ours | cases | why more ops |",
                "|---|---|---|---|---|---|---|---|",
            ]
            parts += [_cells(r) for r in mine] + [""]
            found = [(r, REASONS.get((r["precision"], r["target"], "; ".join(r["differs"])))) for r in mine]
            parts += [f"{r['target'].removesuffix('.default')}: {reason}.\n" for r, reason in found if reason]
    return re.sub("\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _cells(row: Mapping[str, Any]) -> str:
    operator = row["target"].removesuffix(".default")
    differs = "; ".join(row["differs"]).replace("|", "\\|")
    numbers = " | ".join(_number(row[side]) for side in ("theirs", "ours"))
    cells = (
        operator,
        row["precision"],
        differs,
        row["device"],
        numbers,
        row["cases"],
        row["why"].replace("|", "\\|"),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _number(outcome: Mapping[str, Any]) -> str:
    if "shown" in outcome:
        return str(outcome["shown"])
    if outcome["status"] in ("right", "wrong"):
        return f"{'' if outcome['status'] == 'right' else 'wrong, '}{outcome['error']:.0e}"
    return str(outcome["status"])
