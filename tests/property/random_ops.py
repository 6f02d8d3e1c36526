"""Ops whose rules, named expressions and output shapes are random texts, generated and compiled like real ones."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import c_library as c
from cffi import FFI
from expressions import Seeded, Writer

from opdb.codegen import constants, validators
from opdb.codegen.rules import snake
from opdb.runtime import build_cffi
from opdb.spec.catalog import Catalog
from opdb.spec.model import OpDef

#: The names of the scope in expressions.py, as slots and parameters.
SIGNATURE: dict[str, Any] = {
    "inputs": {"x": ["S..."], "w": {"optional": True}, "xs": {"variadic": True, "min": 1}},
    "params": {
        "n": "i64", "m": "i8", "d": "u32", "k": "u32?", "j": "u8 = 3", "f": "f32", "g": "f32?", "p": "bool8",
        "q": "bool8?", "mode": "enum {ADD: 0, MULTIPLY: 1, POWER: 7}?", "L": "i64[]", "axes": "u32[]?",
        "R": "u32[][2]", "late": "i32 = S[0] // m", "table": "u32[2][2] = [[1, 2], [3, 4]]",
        "ends": "u32[] = [x.rank, S[0]]", "none": "i32[] = []",
        # names that generated code has too
        "indices": "u32[]", "largest": "bool8", "found": "i32?", "report_count": "u8 = 2", "op_name": "i8 = 0",
    },
}  # fmt: skip
BY_HAND = (
    "late >= 0", "table[1][0] == 3 or table[0] == [0, 0]", "all(v > m for v in L)", "sum(ends) < 6", "len(none) < 2",
    "all(e in ends for o in xs for e in o.shape if o.rank > 1)", "all(at >= op_name for at in indices) or largest",
    "max(given for given in indices) < n", "all(ok > found for check in xs for ok in check.shape if ok != 9)",
    "held1 < report_count",
)  # fmt: skip
LET = {"t": "int", "h": "float", "c": "bool", "bounds": "ints"}
SAMPLES: list[dict[str, Any]] = [
    {"x": [2, 3], "xs": [[2], [3, 4]], "n": 5, "m": -2, "d": 7, "f": 0.5, "p": True, "L": [1, 2], "R": [[0, 1], [2, 2]]},
    {"x": [1], "w": [3, 3, 1], "xs": [[1, 1, 1]], "n": -(2**63), "m": 1, "d": 0, "f": -1.0, "p": False, "L": [],
     "R": [], "k": 4, "g": 2.0, "q": True, "mode": "POWER", "axes": [0, 1, 1]},
    {"x": [4, 4, 4], "w": [], "xs": [[0], [1], [2]], "n": 2**63 - 1, "m": 0, "d": 2**31, "f": 1e30, "p": True,
     "L": [-1, 0, 9], "R": [[7, 7]], "k": 0, "j": 200, "q": False, "mode": "ADD", "late": -7, "table": [[0, 0], [9, 9]]},
]  # fmt: skip


for number, sample in enumerate(SAMPLES):
    sample |= {"indices": [number, 0], "largest": number == 0}


def random_op(name: str, seed: int, rules: int, decided: bool) -> OpDef:
    """An op with ``rules`` random constraints, some with a guard or as expectations, some for a backend.

    If not ``decided``, rules can only be undecidable, not broken; if one is broken, undecidable ones are not reported.
    """
    source = Seeded(seed)
    writer = Writer(source)
    let: dict[str, str] = {}
    for known, type_ in LET.items():
        later = [n for n in LET if n not in let]
        let[known] = _without(later, writer, type_)

    def rule() -> Any:
        text = _short(writer, "bool")
        if not decided:
            return f"({text}) or true"
        form = source.integer(0, 4)
        if form == 0:
            return {"when": _short(writer, "bool"), "require": text}
        return {"expect": text} if form == 1 else text

    return OpDef.model_validate({
        "op": name,
        "summary": "Random rules.",
        **SIGNATURE,
        "let": {**let, "held1": "found // m"},
        "outputs": {"y": _short(writer, "ints")},
        "constraints": {f"C{i}": rule() for i in range(1, rules + 1)}
        | {f"C{90 + i}": text if decided else f"({text}) or true" for i, text in enumerate(BY_HAND)},
        "backends": {"HTP": {"constraints": {f"H{i}": rule() for i in range(1, 6)}}},
        "samples": SAMPLES,
    })  # fmt: skip


def _short(writer: Writer, type_: str) -> str:
    while len(text := writer.write(type_, 3)) > 400:
        pass
    return text


def _without(names: list[str], writer: Writer, type_: str) -> str:
    while set(re.findall(r"\w+", text := _short(writer, type_))) & set(names):
        pass
    return text


@dataclass
class Generated:
    """A replacement for opdb.generated.validators and opdb.runtime._native."""

    modules: dict[str, ModuleType]
    BACKENDS: tuple[str, ...]
    ffi: Any
    lib: Any

    def module(self, op: str) -> ModuleType | None:
        return self.modules.get(op)


#: gcc warns about comparisons that are always true or false; a random rule may be one.
QUIET = ["-Wno-tautological-compare", "-Wno-type-limits", "-Wno-bool-compare", "-Wno-logical-op"]


def generate(catalog: Catalog, folder: Path) -> Generated:
    """Renders Python and C of every op of ``catalog``; the C must compile without a warning."""
    modules = {}
    for name in catalog.ops:
        (artifact,) = validators.python(catalog, name)
        modules[name] = ModuleType(snake(name))
        exec(compile(artifact.text, artifact.path, "exec"), modules[name].__dict__)
    artifacts = [a for name in catalog.ops for a in validators.c(catalog, name)]
    artifacts += [*validators.c_registry(catalog), *constants.c(catalog)]
    for artifact in artifacts:
        path = folder / artifact.path.removeprefix("generated/c/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(artifact.text)
    runtime = [c.ROOT / "runtime/src" / f"{n}.c" for n in ("binding", "lists", "report")]
    library = folder / "librandom.so"
    includes = [f"-I{folder / 'include'}", f"-I{c.ROOT / 'runtime/include'}"]
    sources = map(str, [*(folder / "src").glob("*.c"), *runtime])
    flags = [*c.FLAGS, *c.UNDEFINED, "-O0", "-g0", *QUIET, "-shared", "-lm"]
    done = subprocess.run(
        [c.CC, *includes, *flags, *sources, "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    ffi = FFI()
    ffi.cdef(build_cffi.declarations())
    return Generated(modules, tuple(catalog.backends), ffi, ffi.dlopen(str(library)))
