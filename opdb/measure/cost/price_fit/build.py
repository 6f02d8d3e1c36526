"""Measures all pairs of some models once and keeps them in a file, so that an interrupted build resumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.measure.cost.price_fit.network_pairs import Network
from opdb.measure.cost.price_fit.pairs import PRECISIONS, Pair, line, parsed
from opdb.measure.cost.simulator import Simulator
from opdb.runtime.qnn import SIMULATING

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: (model, precision) -> its pairs.
Measured = dict[tuple[str, str], list[Pair]]


def measured(
    simulator: Simulator,
    models: Sequence[tuple[str, Callable[[], ExportedProgram]]],
    file: Path | None,
    say: Callable[[str], None],
) -> list[Pair]:
    """Returns the pairs of models (name, function that exports it) in the order of names, precisions and measuring.

    ``file``: stores the pairs, and supplies those measured before; one of another library or chip is refused with OpdbError.
    ``say`` gets a line for each network.
    """
    of = {"build_id": simulator.build_id, "soc": simulator.soc}
    found = _read(file, of) if file is not None and file.exists() else {}
    for name, program in models:
        wanted = [p for p in PRECISIONS if (name, p) not in found]
        if not wanted:
            continue
        network = Network(simulator, Target(SIMULATING, simulator.soc, simulator.sdk), name, program())
        for precision in wanted:
            found[name, precision] = pairs = list(network.pairs(precision, say))
            if file is not None:
                head = {"network": name, "precision": precision, "pairs": len(pairs), **of}
                with file.open("a", encoding="utf-8") as out:
                    out.write("\n".join([json.dumps(head), *map(line, pairs)]) + "\n")
    return [pair for name, _ in models for precision in PRECISIONS for pair in found[name, precision]]


def _read(file: Path, of: dict[str, Any]) -> Measured:
    found: Measured = {}
    lines = iter(file.read_text(encoding="utf-8").splitlines())
    try:
        for text in lines:
            head = json.loads(text)
            if {k: head[k] for k in of} != of:
                raise OpdbError(f"{file}: pairs of {head['soc']} by {head['build_id']}; take another file")
            found[head["network"], head["precision"]] = [*_taken(lines, head["pairs"])]
    except (ValueError, KeyError, TypeError) as error:
        raise OpdbError(f"{file}: no file of pairs: {type(error).__name__} {error}") from None
    return found


def _taken(lines: Iterator[str], count: int) -> Iterator[Pair]:
    for _ in range(count):
        yield parsed(next(lines, ""))
