"""Random small modules on HTP: finds modules accepted by opdb's rules that its compiler computes wrongly or does not finalize.

Each module is one of KINDS with random sizes, odd and even, and random arguments.  Results are compared with PyTorch's, as in
corpus/operators.  A line names a failed module by its number: ``--first NUMBER --modules 1`` with the same seed runs it again.

    python benchmarks/htp_modules.py [--modules N] [--first N] [--seed N] [--soc SM8650] [--between] [KIND]...

``--between``: with a product before and a sum after it, as for an op in a model; HTP cuts these graphs into tiles.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter

from _on_htp import kind_of, verdict
from _random_modules import KINDS, between, chosen, inputs_of, kinds_of

from opdb.execute.libraries.client import VendorWorker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--between", action="store_true")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    asked = parser.parse_args()
    kinds = kinds_of(parser, asked.kinds)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with VendorWorker("HTP", asked.soc, log_level="error") as worker:
        for number in range(asked.first, asked.first + asked.modules):
            kind, module, made = chosen(asked.seed, number, kinds)
            if (inputs := inputs_of(module)) is None:
                counts["without a result"] += 1
                continue
            said = verdict(between(module) if asked.between else module, inputs, worker, asked.soc)
            counts[kind_of(said)] += 1
            if kind_of(said) in ("not finalized", "wrong"):
                print(f"{number}: {kind} {made}: {said[:110]}", flush=True)
    print(", ".join(f"{n} {said}" for said, n in counts.most_common()))


if __name__ == "__main__":
    main()
