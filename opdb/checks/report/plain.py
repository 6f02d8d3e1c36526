"""A coverage as text, and as Markdown: the answer first, then why nodes fall back to the CPU, and which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opdb.checks.answer import Reason, main_reason
from opdb.checks.coverage import VERDICTS, Coverage, Row
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import amount
from opdb.core.names import counted

#: The most nodes that are listed for a reason, and named in the line of a note.
MANY, FEW = 20, 5
#: Prefixes of rules about values that do not fit a type (opdb.checks.range_warnings).
RANGES = ("FP16.", "INT32.")
#: A report's explanation of its FLOPs and bytes.
COUNTED = (
    "FLOPs: PyTorch's formulas for products (matrix products, convolutions, attention); for other operators 1 for each "
    "element of the results, 0 where they only move data. Bytes: what the nodes read and write."
)


def table(coverage: Coverage, verbose: bool = False) -> Iterator[str]:
    """The answer, why nodes fall back to the CPU, which ones, and notes on the others.

    ``verbose``: all nodes, with each broken rule in full, and the totals.
    """
    answer = coverage.answer
    yield answer.sentence
    if coverage.about:
        yield coverage.about
    if answer.reasons:
        yield from ("", "Why nodes fall back to the CPU:")
        for reason in answer.reasons:
            yield f"  {reason.line}"
            if reason.more:
                yield f"    {'cure' if reason.cure else 'more'}: {reason.more}"
    if verbose:
        yield from ("", "All nodes:", *_all_nodes(coverage), "", *_totals(coverage))
    elif answer.reasons:
        yield from ("", "Left to the CPU:", *_left(answer.reasons))
    if told := [*([] if verbose else _told_of(coverage)), *notes(coverage)]:
        yield from ("", *told)
    if not verbose and (taken := coverage.count("supported")) and not coverage.complete:
        yield from ("", f"-v lists the other {counted(taken, 'node')}, too.")


def _left(reasons: Sequence[Reason]) -> Iterator[str]:
    """A line for each node that falls back, in groups of one reason; what it breaks if its values are others than the first one's."""
    rows = [row for reason in reasons for row in reason.rows[:MANY]]
    width, of = max(len(r.node) for r in rows), max(len(r.target) for r in rows)
    for reason in reasons:
        for row in reason.rows[:MANY]:
            at = " ".join(p for p in (row.module, row.line) if p)
            yield f"  {row.node:{width}}  {row.target:{of}}{'  at ' if at else ''}{at}".rstrip()
            if (why := main_reason(row)["brief"]) != reason.text:
                yield f"  {'':{width}}  {why}"
        if (more := len(reason.rows) - MANY) > 0:
            yield f"  and {more} more for the same reason"


def _told_of(coverage: Coverage) -> Iterator[str]:
    """A line for each note and warning on supported nodes, with the nodes."""
    nodes: dict[str, list[str]] = {}
    for row in coverage.rows:
        for what in (*(f"note: {said}" for said in row.said), *(f"warning: {w}" for w in warned(row))):
            nodes.setdefault(what, []).append(row.node)
    for what, names in nodes.items():
        some = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        kind, _, text = what.partition(": ")
        yield f"{kind}: {some}: {text}"


def _all_nodes(coverage: Coverage) -> Iterator[str]:
    """One line for each node, and below a rejected one its reasons in full, or the earlier node with the same reasons."""
    width = max((len(r.node) for r in coverage.rows), default=4)
    quantized = coverage.any_quantized
    first: dict[tuple[str, ...], str] = {}
    for r in coverage.rows:
        taken = f"{r.form}: {' -> '.join(r.ops)}" if len(r.ops) > 1 else ", ".join(r.ops)
        types = f" in {r.types}" if quantized and r.types else ""
        yield f"{r.verdict:10} {r.node:{width}}  {r.target}{'  ' + taken + types if taken else ''}"
        for line in r.said:
            yield f"{'':10}   {line}"
        for warning in warned(r):
            yield f"{'':10}   warning: {warning}"
        if r.verdict == "supported":
            continue
        refused = tuple(_refused(r, verbose=True))
        above = first.setdefault(refused, r.node)
        for line in refused if above == r.node or not refused else (f"for the same reasons as {above}",):
            yield f"{'':10}   {line}"
        if r.module or r.line:
            yield f"{'':10}   at {' '.join(p for p in (r.module, r.line) if p)}"


def summary(coverage: Coverage) -> Iterator[str]:
    """The answer, nodes by verdict, work on the CPU, and notes."""
    yield coverage.answer.sentence
    yield from _totals(coverage)
    yield from notes(coverage)


def _totals(coverage: Coverage) -> Iterator[str]:
    """Nodes by verdict, and the work on the CPU."""
    counts = ", ".join(f"{coverage.count(v)} {v}" for v in VERDICTS)
    graphs = f"{counted(coverage.partitions, 'graph')} on {coverage.backend} {coverage.soc or ''}".rstrip()
    yield f"{counted(len(coverage.rows), 'node')}: {counts}; {graphs}"
    if not coverage.complete:
        yield f"on the CPU: {on_cpu(coverage)}"


def notes(coverage: Coverage) -> Iterator[str]:
    """How many nodes compute otherwise than the model says or have warnings, and the errata of the library that were met."""
    if coverage.from_documents:
        yield f"The rules of {coverage.backend} are those of Qualcomm's documents; no library was asked, which may refuse more."
    if told := sum(bool(r.said) for r in coverage.rows):
        yield f"{told} {_nodes(told)} not compute as {'the recipe' if coverage.quantize else 'the model'} says; the lines above tell why"
    if numbers := sum(bool(out_of_range(r)) for r in coverage.rows):
        yield f"{counted(numbers, 'node')} with values that do not fit fp16 or int32; see the warnings"
    if rules := sum(bool(_of_rules(r)) for r in coverage.rows):
        yield f"{counted(rules, 'node')} that a rule warns of; see the warnings"
    for erratum in coverage.errata():
        yield erratum.text


def _nodes(count: int) -> str:
    return "node does" if count == 1 else "nodes do"


def warned(row: Row) -> list[str]:
    """The row's warnings, each of which `--strict` counts; warnings of errata are in the summary."""
    return [*out_of_range(row), *_of_rules(row)]


def _of_rules(row: Row) -> list[str]:
    if row.verdict != "supported":
        return []
    told = [w for w in row.warnings if not w["rule"].startswith(RANGES) and w["rule"] not in RECORDS]
    return list(dict.fromkeys(map(_reason, told)))


def out_of_range(row: Row) -> list[str]:
    """The row's warnings about values that do not fit fp16 or int32 (opdb.checks.range_warnings)."""
    return [w["message"] for w in row.warnings if w["rule"].startswith(RANGES)]


def on_cpu(coverage: Coverage) -> str:
    """The work on the CPU and its share; e.g. 1 of 3 nodes, 28 of 280 FLOPs (10 %), 1.2 of 3.4 KB (35 %)."""
    cpu, whole = coverage.cost("rejected", "host"), coverage.cost()
    parts = [f"{cpu['nodes']} of {counted(whole['nodes'], 'node')}"]
    parts += [f"{amount(cpu[k])} of {amount(whole[k])} {n}{_share(cpu[k], whole[k])}"
              for k, n in (("flops", "FLOPs"), ("bytes", "bytes"))]  # fmt: skip
    if whole["unknown"]:
        parts.append(f"{counted(whole['unknown'], 'node')} of unknown cost left out")
    if n := cpu["at_least"]:
        parts.append(f"at least: {counted(n, 'loop')} that the data decide counted once")
    return ", ".join(parts)


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.3g} %)" if whole else ""


def markdown(coverage: Coverage, title: str) -> Iterator[str]:
    """The answer, why nodes fall back to the CPU, which operators, notes, and all nodes."""
    place = " ".join(p for p in (coverage.backend, coverage.soc, coverage.sdk and f"SDK {coverage.sdk}") if p)
    answer = coverage.answer
    yield from (f"# {escaped(title)} on {place}", "", f"**{escaped(answer.sentence)}**", "")
    if coverage.about:
        yield from (escaped(coverage.about), "")
    if answer.reasons:
        yield from ("## Why nodes fall back to the CPU", "", *_table(WHY, why(coverage)), "")
        yield from ("## Left to the CPU", "", *_table(LEFT, by_operator(coverage)), "")
    for line in (*_totals(coverage), *notes(coverage)):
        yield f"- {escaped(line)}"
    yield from ("", COUNTED, "")
    yield from ("## Nodes", "")
    yield from _table(
        ("node", "target", "verdict", "ops or reasons", "FLOPs", "bytes", "module", "line"),
        (
            (r.node, r.target, r.verdict, "; ".join(told(r)), amount(r.flops), amount(r.bytes), r.module, r.line)
            for r in coverage.rows
        ),
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for cells in rows:
        yield "| " + " | ".join(escaped(c) for c in cells) + " |"


#: The columns of ``why`` and of ``by_operator``.
WHY = ("nodes", "reason", "cure", "operators")
LEFT = ("target", "verdict", "nodes", "FLOPs", "bytes")


def why(coverage: Coverage) -> Iterator[tuple[str, ...]]:
    """A row of WHY for each reason that nodes fall back to the CPU."""
    for r in coverage.answer.reasons:
        yield str(len(r.rows)), r.words, r.more, ", ".join(r.operators)


def by_operator(coverage: Coverage) -> Iterator[tuple[str, ...]]:
    """A row of LEFT for each operator that falls back to the CPU."""
    left = [r for r in coverage.rows if r.verdict != "supported"]
    for (target, verdict), n in Counter((r.target, r.verdict) for r in left).most_common():
        rows = [r for r in left if (r.target, r.verdict) == (target, verdict)]
        sums = (amount(sum(r.flops or 0 for r in rows)), amount(sum(r.bytes or 0 for r in rows)))
        yield target, verdict, str(n), *sums


def told(row: Row) -> list[str]:
    """The ops, notes and warnings of a supported node, else its reasons and the nearest accepted ops."""
    if row.verdict == "supported":
        return [" -> ".join(row.ops), *row.said, *warned(row)]
    return _refused(row)


def _refused(row: Row, verbose: bool = False) -> list[str]:
    """The reasons of an unsupported node, and the nearest accepted ops; each once."""
    reasons = [_reason(q, verbose) for q in row.reasons]
    return list(dict.fromkeys(reasons + nearest(row)))


def nearest(row: Row) -> list[str]:
    """The nearest ops that the target accepts, each once."""
    return list(dict.fromkeys(f"nearest accepted {n['op']}: {n['text']}" for n in row.nearest))


def _reason(reason: Mapping[str, str], verbose: bool = False) -> str:
    text = reason["message" if verbose else "brief"]
    return f"{reason['rule']}: {text}" if reason["rule"] else text


def escaped(text: str) -> str:
    """A text as Markdown shows it, on one line."""
    for mark in "\\|*_<>[]`":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
