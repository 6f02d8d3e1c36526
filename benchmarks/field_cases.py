"""Writes docs/results/field-cases.md: small inputs that people reported, and more of each kind, by check, compile and run.

    python benchmarks/field_cases.py [KIND...] > docs/results/field-cases.md

The cases come from tests/checks/field.  If kinds are given, only their tables are written.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS.parent / "corpus" / "field"))

HEAD = """# Cases from the field

Reports of people who deploy to Qualcomm's NPUs, each rebuilt as a small model of our own, and at least five more inputs of the same
kind. Each goes through `opdb check`, `opdb compile` and `opdb run` (HTP, SM8650 unless another chip is named, QNN 2.47, emulated on
x86-64); results are compared with PyTorch's or ONNX Runtime's on the CPU. "Before" is what opdb 0.1 did with the report.
`python benchmarks/field_cases.py` writes this page; `tests/checks/field` asserts it."""
KINDS = {
    "P1": ("An input that is read for its shape alone", "`run` returned zeros, without a word"),
    "P2": ("Squares beyond 65504 in fp16, in PyTorch", "wrong results (`norm` 362 where 5935 is right), without a warning"),
    "P3": ("Results of a graph that is cut by nodes on the CPU", "`compile`: exit code 2, \"cannot be written in this order\""),
    "P4": ("A quantized program with nodes on the CPU", "`run`: error 0x14, ExecuTorch's quantized kernels were missing"),
    "P5": ("Programs that are exported already", "`compile -o x.pte`: \"Calling eval() is not supported yet\""),
    "P6": ("Buffers that change, and control flow", "`check`: exit code 2, \"export the module in eval mode\", or a traceback"),
    "P7": ("int64 inputs and results", "the results were int32"),
    "P8": ("More dimensions than an op takes", "advice of another rank (\"x of shape [2, 3, 4] instead of [1, 16, 8]\")"),
    "P9": ("One encoding for two ranges", "scores came back as 0 or 0.457, without a word"),
    "O1": ("Floats on a chip without them", "`check` accepted the model, `compile` ended with 3110"),
    "O2": ("Quantized files", "18 of 18 files were rejected"),
    "O3": ("Float files for SM8350", "`check` accepted the model, `compile` ended with 1002 and 20 lines of log"),
    "O4": ("Six dimensions and more", "all nodes rejected, with advice of another rank"),
    "O5": ("Operators of other domains, and those that cannot be read", "exit code 2 at the first such node"),
    "O6": ("Inputs that are no tensors of numbers", "a traceback, or \"fix all dimensions\""),
    "O7": ("Weights in blocks of 4 bits beside float activations", "computed in float16 without a word"),
    "O8": ("GroupNorm as exporters write it", "155 s to compile, of [1, 32, 32768]; now 4 s"),
    "O9": ("Numbers that fp16 or int32 do not hold, in ONNX", "up to 97 % off, without a warning"),
    "O10": ("Constants as outputs, constants beyond int32", "`check` accepted the model, `compile` ended with exit code 2"),
    "O11": ("Calibration", "one random sample, without a word: 4.26 where 551 is right"),
    "O12": ("Names, the order of nodes, old forms", "`given_0` and `reshape_1`; files that could not be read"),
}  # fmt: skip


@cache
def forked_command() -> Any:
    """Loads tests/forked_command.py by its file: with its folder on the path, tests/plugins/executorch would become part of executorch."""
    spec = spec_from_file_location("forked_command", TESTS / "forked_command.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(case: Any, run: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        done = run.outcome(case, Path(folder), forked_command().run)
    options = " ".join(o for o in (*case.options, *case.compile_options) if o not in ("--soc", "SM8650"))
    what = f"`{case.form}`" + (f", `{options}`" if options else "")
    rows = done.check.stdout.splitlines()[:1]
    verdict = rows[-1].strip() if rows else done.check.stderr.strip()
    said = ""
    if case.said:
        said = next((r.strip() for r in done.said.splitlines() if case.said in r), "(not said)")
    verdict, said = (t.replace(f"{folder}/", "").replace("|", "\\|") for t in (verdict, said))
    result = "" if not case.results else "wrong" if done.error is None else f"{done.error:.1e} off"
    return f"| {case.name.replace('_', ' ')} | {what} | {verdict} | {said} | {result} |"


def main(kinds: list[str]) -> None:
    run, found = importlib.import_module("field_run"), importlib.import_module("field_case")
    for name in ("field_pytorch", "field_onnx"):
        importlib.import_module(name)
    if not kinds:
        print(HEAD)
    for kind, (title, before) in KINDS.items():
        if kinds and kind not in kinds:
            continue
        print(f"\n## {kind}. {title}\n\nBefore: {before}.\n")
        print("| input | written as | `check` | what it says | results |\n|---|---|---|---|---|")
        for case in found.CASES[kind]:
            print(line(case, run), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
