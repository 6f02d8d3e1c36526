"""A coverage as a table for terminals, and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from opdb.checks.coverage import VERDICTS, Coverage, Row
from opdb.judge.errata.records import RECORDS
from opdb.judge.errata.report import amount
from opdb.core.names import counted

#: The most nodes that a line of ``left`` names.
MANY = 5
#: Prefixes of rules about values that do not fit a type (opdb.checks.range_warnings).
RANGES = ("FP16.", "INT32.")
#: A report's explanation of its FLOPs and bytes.
COUNTED = (
    "FLOPs: PyTorch's formulas for products (matrix products, convolutions, attention); for other operators 1 for each "
    "element of the results, 0 where they only move data. Bytes: what the nodes read and write."
)


def table(coverage: Coverage, verbose: bool = False) -> Iterator[str]:
    """One line for each node, and below a rejected one its reasons, or the earlier node with the same reasons; the summary is last.

    ``verbose``: each broken rule in full.
    """
    if coverage.about:
        yield coverage.about
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
        refused = tuple(_refused(r, verbose))
        above = first.setdefault(refused, r.node)
        for line in refused if above == r.node or not refused else (f"for the same reasons as {above}",):
            yield f"{'':10}   {line}"
        if r.module or r.line:
            yield f"{'':10}   at {' '.join(p for p in (r.module, r.line) if p)}"
    yield from summary(coverage)


def left(coverage: Coverage) -> Iterator[str]:
    """A line for each reason that nodes have no form, or stay in floats, and the summary; nodes supported as they are have none."""
    yield coverage.about
    nodes: dict[tuple[str, str], list[str]] = {}
    for r in coverage.rows:
        reasons = ["; ".join(dict.fromkeys(map(_reason, r.reasons)))] if r.verdict != "supported" else r.said
        for reason in (*reasons, *(f"warning: {w}" for w in warned(r))):
            nodes.setdefault((r.verdict, reason), []).append(r.node)
    for (verdict, reason), names in nodes.items():
        some = ", ".join(names[:MANY]) + (f" and {len(names) - MANY} more" if len(names) > MANY else "")
        yield f"{verdict:10} {some}: {reason}"
    yield from summary(coverage)


def summary(coverage: Coverage) -> Iterator[str]:
    """Nodes by verdict, graphs, work on the CPU, and the errata of the library that were met."""
    counts = ", ".join(f"{coverage.count(v)} {v}" for v in VERDICTS)
    graphs = counted(coverage.partitions, "graph")
    yield f"{counted(len(coverage.rows), 'node')}: {counts}; {graphs} on {coverage.backend} {coverage.soc or ''}".rstrip()
    if not coverage.complete:
        yield f"on the CPU: {on_cpu(coverage)}"
    if told := sum(bool(r.said) for r in coverage.rows):
        yield f"{told} {_nodes(told)} not compute as {'the recipe' if coverage.quantize else 'the model'} says; the lines above tell why"
    if numbers := sum(bool(out_of_range(r)) for r in coverage.rows):
        yield f"{counted(numbers, 'node')} with values that do not fit fp16 or int32; see the warning below each"
    if rules := sum(bool(_of_rules(r)) for r in coverage.rows):
        yield f"{counted(rules, 'node')} that a rule warns of; see the warning below each"
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
    return ", ".join(parts)


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.3g} %)" if whole else ""


def markdown(coverage: Coverage, title: str) -> Iterator[str]:
    """Summary, unsupported nodes by ATen target, and all nodes."""
    place = " ".join(p for p in (coverage.backend, coverage.soc, coverage.sdk and f"SDK {coverage.sdk}") if p)
    yield from (f"# {escaped(title)} on {place}", "")
    if coverage.about:
        yield f"- {escaped(coverage.about)}"
    for line in summary(coverage):
        yield f"- {escaped(line)}"
    yield from ("", COUNTED, "")
    left = [r for r in coverage.rows if r.verdict != "supported"]
    if left:
        yield from ("## Left to the CPU", "", "| target | verdict | nodes | FLOPs | bytes |", "|---|---|---|---|---|")
        for (target, verdict), n in Counter((r.target, r.verdict) for r in left).most_common():
            rows = [r for r in left if (r.target, r.verdict) == (target, verdict)]
            sums = (amount(sum(r.flops or 0 for r in rows)), amount(sum(r.bytes or 0 for r in rows)))
            yield f"| {target} | {verdict} | {n} | {sums[0]} | {sums[1]} |"
        yield ""
    yield from ("## Nodes", "", "| node | target | verdict | ops or reasons | FLOPs | bytes | module | line |")
    yield "|---|---|---|---|---|---|---|---|"
    for r in coverage.rows:
        cells = (r.node, r.target, r.verdict, "; ".join(told(r)), amount(r.flops), amount(r.bytes), r.module, r.line)
        yield "| " + " | ".join(escaped(c) for c in cells) + " |"


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
