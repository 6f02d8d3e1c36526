"""The modules of quantized_sweep.py, and the processes that measure them."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from opdb.execute.libraries.client import VendorWorker

HERE = Path(__file__).resolve().parent
CASES = HERE.parent / "corpus" / "operators"
SEED = 0


@dataclass(frozen=True)
class Job:
    """One module and the chips and schemes to measure (``wished``)."""

    name: str
    wished: tuple[tuple[str, str], ...]


class Work:
    """Work for opdb.core.pool: a process keeps the library of each chip open."""

    def open(self) -> Server:
        return Server()

    def facts(self) -> Mapping[str, str]:
        return {}


class Server:
    def __init__(self) -> None:
        warnings.simplefilter("ignore")
        self.done = ExitStack()
        self.folder = Path(self.done.enter_context(tempfile.TemporaryDirectory()))
        self.workers: dict[str, Any] = {}

    def worker(self, soc: str) -> Any:
        if soc not in self.workers:
            self.workers[soc] = self.done.enter_context(
                VendorWorker("HTP", soc, timeout=120, log_level="error")
            )
        return self.workers[soc]

    def answer(self, job: Job) -> list[dict[str, Any]]:
        import torch
        from _quantized_case import rows

        torch.set_num_threads(1)
        module, inputs = corpus()[job.name]()
        found, begun = [], time.perf_counter()
        for row in rows(job.name, module, inputs, job.wished, self.worker, self.folder):
            found.append(asdict(row) | {"seconds": round(time.perf_counter() - begun, 2)})
            begun = time.perf_counter()
        return found

    def close(self) -> None:
        self.done.close()


@cache
def corpus(random: int = 1000) -> Mapping[str, Any]:
    """Maps each module's name to the function that makes it and its inputs."""
    sys.path[:0] = [str(p) for p in (HERE, CASES) if str(p) not in sys.path]
    from every_module import CASES as LISTED

    made: dict[str, Any] = {c.id: lambda c=c: (c.build(), c.inputs()) for c in LISTED}
    made |= {f"random {n}": lambda n=n: _random(n) for n in range(random)}
    return made | {f"chain {n}": lambda n=n: _chain(n) for n in range(random)}


def _chain(number: int) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from float_chains import chosen

    chain = chosen(SEED, number)
    torch.manual_seed(number)
    return chain.eval(), tuple(torch.randn(shape) for shape in chain.shapes)


def _random(number: int) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from _random_modules import KINDS, between, chosen, inputs_of

    _, module, _ = chosen(SEED, number, list(KINDS))
    made = between(module).eval()
    torch.manual_seed(number)
    return made, inputs_of(module) or tuple(torch.zeros(s) for s in module.shapes)


def kinds() -> Mapping[str, str]:
    """Maps the name of each random module and chain to its parts."""
    corpus()
    import float_chains
    from _random_modules import KINDS, chosen

    made = {}
    for number in range(1000):
        kind, _, choices = chosen(SEED, number, list(KINDS))
        words = [getattr(c, "__name__", str(c)) for c in choices]
        made[f"random {number}"] = f"{kind} {' '.join(words)}"
        made[f"chain {number}"] = ", ".join(float_chains.chosen(SEED, number).names)
    return made
