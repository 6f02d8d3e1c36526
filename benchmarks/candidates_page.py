"""The page of benchmarks/candidates_table.py: totals, then the programs that became longer with reasons, then the ops of each operator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opdb.judge.errata.records import RECORDS

Nodes = list[dict[str, Any]]
Table = Mapping[str, Mapping[str, Mapping[str, Nodes]]]
NOW = {"device": "device", "emulator": "emulator", "ignore": "`--errata ignore`"}
#: (operator, target) of longer lowerings that no erratum explains -> why they are right.
REASONS: dict[tuple[str, str], str] = {}

INTRO = """# Candidates before and after errata

ExecuTorch's shared operator suite (`backends/test/suite/operators`), lowered in floats for QNN 2.47: a program is a subtest
(a run of the suite counts 920: one that is skipped ends its test there). *Before* is commit ce0b892, where faults of HTP's
emulation stood in guards and decompositions and the first form in alphabetical order was taken. *Now* the cheapest correct and
legal candidate is taken, for a device (the default), for the emulator, and with `--errata ignore`. Nothing is run here;
[executorch-differences.md](executorch-differences.md) has numbers. Changes of layout, which most neighbors share, are not
counted. Written by

    python benchmarks/candidates_table.py -o now.json
    python benchmarks/candidates_table.py --page docs/results/candidates.md before.json now.json

and before.json, in a checkout of ce0b892, by a copy of the script that knows the older names of modules:

    sed 's/opdb.lowering.select/opdb.lower/; s/opdb.targets.target/opdb.validate/' candidates_table.py > table.py
    touch candidates_page.py  # beside table.py; it writes this page and is not needed there
    python table.py --policy before -o before.json
"""


def page(before: Table, now: Table) -> str:
    both = sorted(before.keys() & now.keys())
    parts = [
        INTRO,
        *_totals(both, before, now),
        "",
        *_longer(both, before, now),
        "",
        *_operators(both, before, now),
    ]
    return "\n".join(parts) + "\n"


def _totals(both: Sequence[str], before: Table, now: Table) -> Iterator[str]:
    yield f"## {len(both)} programs"
    yield ""
    yield "Shorter and longer: programs with fewer or more ops of which no node is rejected, before or now."
    yield ""
    yield "| target | | ops | nodes accepted | rejected | programs shorter | longer |"
    yield "|---|---|---|---|---|---|---|"
    for label in now[both[0]]:
        old = {p: before[p][label]["before"] for p in both}
        yield f"| {label} | before | {_sums(old.values())} | | |"
        for policy, shown in NOW.items():
            new = {p: now[p][label][policy] for p in both}
            whole = [p for p in both if _whole(old[p]) and _whole(new[p])]
            fewer = sum(_ops(new[p]) < _ops(old[p]) for p in whole)
            more = sum(_ops(new[p]) > _ops(old[p]) for p in whole)
            yield f"| | {shown} | {_sums(new.values())} | {fewer} | {more} |"


def _longer(both: Sequence[str], before: Table, now: Table) -> Iterator[str]:
    yield "## Longer than before"
    yield ""
    yield "Operators whose ops of one program are more than before, with the errata that are avoided now."
    yield ""
    yield "| operator | target | | programs | before → now | why |"
    yield "|---|---|---|---|---|---|"
    found: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    kinds: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for p in both:
        for label, policies in now[p].items():
            old = _by_operator(before[p][label]["before"])
            for policy in policies:
                for operator, nodes in _by_operator(policies[policy]).items():
                    was = old.get(operator, [])
                    if len(was) == len(nodes) and _whole(was) and _whole(nodes) and _ops(nodes) > _ops(was):
                        key = (operator, label, f"{_spelled(was)} → {_spelled(nodes)}", policy)
                        found[key].update(e for n in nodes for e in n["avoided"])
                        kinds[key].append(p)
    merged: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for operator, label, change, policy in found:
        merged[operator, label, change].append(policy)
    for (operator, label, change), policies_ in sorted(merged.items()):
        ids = set().union(*(found[operator, label, change, p] for p in policies_))
        why = ", ".join(f"{e} ({RECORDS[e].title})" for e in sorted(ids)) or REASONS.get(
            (operator, label), ""
        )
        count = len(kinds[operator, label, change, policies_[0]])
        shown = ", ".join(NOW[p] for p in policies_)
        yield f"| {_short(operator)} | {label} | {shown} | {count} | {change} | {why} |"
    if not merged:
        yield "| none | | | | | |"


def _operators(both: Sequence[str], before: Table, now: Table) -> Iterator[str]:
    """Ops before → for a device / the emulator / without errata; one number if these are equal."""
    yield "## By operator"
    yield ""
    yield "Ops of all programs where they differ: before → device / emulator / `--errata ignore`, or one number where these"
    yield "agree. `r`: nodes that are rejected."
    yield ""
    labels = list(now[both[0]])
    yield f"| operator | {' | '.join(labels)} |"
    yield f"|---|{'---|' * len(labels)}"
    sums: dict[str, dict[tuple[str, str], Nodes]] = defaultdict(lambda: defaultdict(list))
    for p in both:
        for label in labels:
            for policy, nodes in (("before", before[p][label]["before"]), *now[p][label].items()):
                for n in nodes:
                    sums[n["target"]][label, policy].append(n)
    for operator, cells in sorted(sums.items()):
        shown = [_cell(*(cells[label, p] for p in ("before", *NOW))) for label in labels]
        if any(shown):
            yield f"| {_short(operator)} | {' | '.join(shown)} |"


def _cell(*nodes: Nodes) -> str:
    old, *new = map(_count, nodes)
    if all(n == old for n in new):
        return ""
    return f"{old} → {' / '.join(new if len(set(new)) > 1 else new[:1])}"


def _count(nodes: Nodes) -> str:
    rejected = sum(n["ops"] is None for n in nodes)
    return " ".join(filter(None, (str(_ops(nodes)), f"{rejected}r" if rejected else "")))


def _by_operator(nodes: Nodes) -> dict[str, Nodes]:
    found: dict[str, Nodes] = defaultdict(list)
    for n in nodes:
        found[n["target"]].append(n)
    return found


def _whole(nodes: Nodes) -> bool:
    return all(n["ops"] is not None for n in nodes)


def _ops(nodes: Nodes) -> int:
    return sum(len(n["ops"] or ()) for n in nodes)


def _sums(programs: Any) -> str:
    nodes = [n for p in programs for n in p]
    rejected = sum(n["ops"] is None for n in nodes)
    return f"{_ops(nodes)} | {len(nodes) - rejected} | {rejected}"


def _spelled(nodes: Nodes) -> str:
    """The ops with their counts; e.g. 2 Gather, 1 ReduceMax -> Gather ×2, ReduceMax."""
    counted = Counter(op for n in nodes for op in n["ops"])
    return ", ".join(op if count == 1 else f"{op} ×{count}" for op, count in counted.items()) or "nothing"


def _short(operator: str) -> str:
    return operator.removesuffix(".default")
