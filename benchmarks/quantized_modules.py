"""Random small modules, quantized, through ExecuTorch's flow and on HTP's emulation: finds results unlike the quantized module's.

The modules are those of htp_modules.py --between, by the same numbers.  Results are compared with PyTorch's run of the
quantized module, in steps of the result's scale: more than STEPS are wrong.  Nodes that fall back to the CPU count as "left".

    python benchmarks/quantized_modules.py [--modules N] [--first N] [--seed N] [--soc SM8650] [--recipe 8a8w]
                                           [--builders opdb|stock] [KIND]...
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STEPS = {"8a8w": 3.01, "16a8w": 40.0}
AT_ONCE = 10  # modules of one child process, which may crash


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--recipe", choices=STEPS, default="8a8w")
    parser.add_argument("--builders", choices=("opdb", "stock"), default="opdb")
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    asked = parser.parse_args()
    from _random_modules import kinds_of

    given = (asked.seed, kinds_of(parser, asked.kinds), asked.soc, asked.recipe, asked.builders)
    counts: Counter[str] = Counter()
    for first in range(asked.first, asked.first + asked.modules, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, asked.first + asked.modules))
        for number, what, said in _asked(numbers, given):
            kind = said.partition(":")[0]
            counts[kind] += 1
            if kind not in ("right", "without a result"):
                print(f"{number}: {what}: {said[:160]}", flush=True)
    print(", ".join(f"{n} {said}" for said, n in counts.most_common()))


def _asked(numbers: Sequence[int], given: tuple[Any, ...]) -> Iterator[tuple[int, str, str]]:
    """The outcome of each module: its number, description, and a word.  A module that ends the process is run again alone."""
    from opdb.plugins.executorch import env, process

    try:
        yield from process.call(
            "quantized_modules:outcomes",
            list(numbers),
            *given,
            environment=env.prepare(),
            path=[HERE],
            timeout=900,
        )
    except process.ChildError as error:
        if len(numbers) == 1:
            yield numbers[0], "a module", f"{error.kind}: {error}"
            return
        for number in numbers:
            yield from _asked([number], given)


def outcomes(
    numbers: Sequence[int], seed: int, kinds: Sequence[str], soc: str, recipe: str, builders: str
) -> list[tuple[int, str, str]]:
    """Measures modules in a process with the environment of ExecuTorch's flow."""
    from _random_modules import between, chosen, inputs_of

    import opdb.plugins.executorch

    if builders == "opdb":
        opdb.plugins.executorch.register(execution="emulator")
    found = []
    for number in numbers:
        kind, module, made = chosen(seed, number, kinds)
        inputs = inputs_of(module)
        said = "without a result" if inputs is None else _outcome(between(module).eval(), inputs, soc, recipe)
        found.append((number, f"{kind} {made}", said))
    return found


def _outcome(module: Any, inputs: tuple[Any, ...], soc: str, recipe: str) -> str:
    """Returns "right", "left" to the CPU with reasons, "wrong" by how many steps, or the "error" that ended the export."""
    from opdb.plugins.executorch import flow, quantize

    try:
        quantized = quantize.quantize(module, inputs, soc, recipe)
        compiled = flow.compile_module(quantized, inputs, soc, "quantized")
        (got,) = flow.run_pte(compiled.pte, inputs)
    except Exception as error:
        return f"error: {type(error).__name__}: {error}".replace("\n", " ")
    wanted = quantized(*inputs)
    result = next(n for n in quantized.graph.nodes if n.op == "output").args[0]
    result = result[0] if isinstance(result, (list, tuple)) else result
    scale = result.args[1] if "dequantize" in str(result.target) else 1.0  # places are whole numbers
    steps = float((got - wanted).abs().max()) / scale
    if not steps <= STEPS[recipe]:
        return f"wrong: {steps:.1f} steps of {float((wanted.max() - wanted.min()) / scale):.0f}"
    return f"left: {', '.join(compiled.not_delegated)}" if compiled.not_delegated else "right"


if __name__ == "__main__":
    main()
