"""One expression, many arguments, two languages: the output of both emitters, run and compared.

The Python code is evaluated with the functions of opdb.runtime.checks; the C code of a batch is compiled
into one library under UBSan (undefined behavior ends the process) and called through ctypes.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import c_library as c
from expressions import DTYPES, ENCODINGS, ENUMS, SCOPE

from opdb.codegen import emit_c, emit_python
from opdb.codegen.emit_c import Block
from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import Quant, TensorConfig
from opdb.runtime import checks
from opdb.runtime.binding import Tensor
from opdb.runtime.native import ENCODINGS as ENCODING_NUMBERS
from opdb.runtime.native import TENSOR_TYPES as TYPE_NUMBERS
from opdb.spec.lang.functions import TENSOR_TYPES
from opdb.spec.lang.nodes import BOOL, DTYPE, ENCODING, FLOAT, INT, INTS, TENSOR_TYPE, Node, is_enum
from opdb.spec.lang.parse import parse

UNDECIDABLE = "undecidable"
LETS = {"t": INT, "h": FLOAT, "c": BOOL, "bounds": INTS}
ABSENT = ("k", "g", "q", "mode", "axes")  # without a sure default


@dataclass(frozen=True)
class Case:
    """One expression and its node."""

    type: str
    text: str
    node: Node

    @classmethod
    def of(cls, type_: str, text: str) -> Case:
        return cls(type_, text, parse(text, SCOPE, type_))


# -- arguments


def arguments(rng: random.Random) -> dict[str, Any]:
    """Values for every name of the scope, randomly at the ends of their ranges; None for absent ones."""

    def number(low: int, high: int) -> int:
        edges = [v for v in (0, 1, 2, 3, -1, -2, low, high, high - 1) if low <= v <= high]
        return rng.choice(edges) if rng.random() < 0.4 else rng.randint(max(low, -9), min(high, 9))

    def ints(low: int, high: int) -> list[int]:
        length = rng.choice((63, 64, 65, 100)) if rng.random() < 0.1 else rng.randint(0, 4)
        return [number(low, high) for _ in range(length)]

    def real() -> float:
        return rng.choice((0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 1e-300, math.inf, rng.uniform(-4, 4)))

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.3 else value

    int64, u32 = (-(2**63), 2**63 - 1), (0, 2**32 - 1)
    return {
        "n": number(*int64),
        "m": number(-9, 9),
        "d": number(0, 2**31 - 1),
        "k": maybe(number(*u32)),
        "j": number(0, 255),
        "j_given": rng.random() < 0.5,
        "t": maybe(number(-100, 2**40)),
        "f": real(),
        "g": maybe(real()),
        "h": maybe(real()),
        "p": rng.random() < 0.5,
        "q": maybe(rng.random() < 0.5),
        "c": maybe(rng.random() < 0.5),
        "mode": maybe(rng.choice(list(ENUMS.values()))),
        "S": ints(0, 2**31 - 1),
        "L": ints(*int64),
        "axes": maybe(ints(*u32)),
        "bounds": maybe(ints(*int64)),
        "R": [[number(*u32) for _ in range(2)] for _ in range(rng.randint(0, 3))],
        "x": _tensor(rng),
        "w": maybe(_tensor(rng)),
        "xs": [_tensor(rng) for _ in range(rng.randint(0, 3))],
    }


def _tensor(rng: random.Random) -> TensorConfig:
    shape = tuple(rng.choice((0, 1, 2, 3, 7, 2**31 - 1)) for _ in range(rng.choice((0, 1, 2, 3, 4, 16))))
    quant = None
    if rng.random() < 0.5:
        quant = Quant(rng.choice(ENCODINGS[1:]), (1.0,), (rng.choice((0, 3)),), rng.choice((None, 0, 2)))
    dtype, kind, data = rng.choice(DTYPES), rng.choice(("STATIC", *TENSOR_TYPES)), None
    if math.prod(shape) < 100 and rng.random() < 0.8:
        data = [rng.choice((-(2**63), -1, 0, 1, 2, 5, 2**63 - 1)) for _ in range(math.prod(shape))]
    return TensorConfig("", dtype, shape, kind, data, quant)


# -- Python


def python_evaluator(node: Node) -> Callable[[dict[str, Any]], Any]:
    code = compile(emit_python.expression(node, SCOPE.names), "<expression>", "eval")
    functions = {name: getattr(checks, name) for name in dir(checks) if not name.startswith("_")}

    def evaluate(args: dict[str, Any]) -> Any:
        env = functions | ENUMS | args
        for name in ("x", "w"):
            env[name] = None if args[name] is None else Tensor(args[name])
        env["xs"] = [Tensor(t) for t in args["xs"]]
        for name in LETS:
            env[name] = checks.Let(lambda value=args[name]: checks.given(value))
        for name in ABSENT:
            env[f"{name}_given"] = args[name] is not None
        try:
            return eval(code, env)
        except checks.Undecidable:
            return UNDECIDABLE

    return evaluate


# -- C


class Args(ctypes.Structure):
    _fields_ = tuple(
        (name, {"int": ctypes.c_int64, "bool": ctypes.c_bool, "float": ctypes.c_double, "ints": c.Ints,
                "rows": c.Rows, "tensor": ctypes.POINTER(c.Tensor), "tensors": c.Tensors,
                }.get(known.type, ctypes.c_int64))
        for name, known in SCOPE.names.items()
    ) + tuple((f"{name}_known", ctypes.c_bool) for name in (*LETS, *ABSENT)) + (("j_given", ctypes.c_bool),)  # fmt: skip


LONGEST = 200  # a list that is passed through may be longer than one that is computed


class Result(ctypes.Structure):
    _fields_ = (
        ("ok", ctypes.c_bool),
        ("i", ctypes.c_int64),
        ("f", ctypes.c_double),
        ("l", ctypes.c_int64 * LONGEST),
    )


def c_type(type_: str) -> str:
    return emit_c.c_type(type_)


def c_source(cases: Sequence[Case], block: type[Block] = Block) -> str:
    """A function ``eval_<number>`` for each case."""
    fields = [f"    {c_type(known.type)}{name};" for name, known in SCOPE.names.items()]
    fields += [f"    bool {name};" for name in (*(f"{n}_known" for n in (*LETS, *ABSENT)), "j_given")]
    parts = ['#include "opdb/binding.h"', "typedef struct {", *fields, "} arguments;"]
    parts += ["typedef struct { bool ok; int64_t i; double f; int64_t l[200]; } result;"]
    for number, case in enumerate(cases):
        parts.append(_function(number, case, block))
    return "\n".join(parts) + "\n"


def _function(number: int, case: Case, block_type: type[Block]) -> str:
    block = block_type(SCOPE.names, ENUMS)
    value = block.expression(case.node)
    used = [*SCOPE.names, *(f"{n}_known" for n in (*LETS, *ABSENT)), "j_given"]
    unpack = [f"    const __typeof__(a->{name}) {name} = a->{name}; (void){name};" for name in used]
    unpack += [f"    const bool {name}_given = a->{name}_known; (void){name}_given;" for name in ABSENT]
    text = c_comment(case.text)
    lists = [f"    opdb_list {name};" for name in block.lists]
    if case.type == INTS:
        store = [f"    const opdb_ints value = {value};", "    r->i = value.n;",
                 "    for (int64_t e = 0; e < value.n; ++e) r->l[e] = value.v[e];"]  # fmt: skip
    else:
        store = [f"    r->{'f' if case.type == FLOAT else 'i'} = {value};"]
    head = f"/* {text} */\nvoid eval_{number}(const arguments *a, result *r) {{"
    return "\n".join(
        [head, *unpack, "    bool ok = true;", *lists, *block.lines, *store, "    r->ok = ok;", "}"]
    )


def c_comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def build(cases: Sequence[Case], folder: Path, block: type[Block] = Block) -> ctypes.CDLL:
    """The library of a batch, with the runtime's C, under UBSan."""
    source = folder / "expressions.c"
    source.write_text(c_source(cases, block), encoding="utf-8")
    binding = c.ROOT / "runtime/src/binding.c"
    runtime = [c.ROOT / "runtime/src" / name for name in ("lists.c", "report.c")]
    path = folder / "libexpressions.so"
    # gcc warns about comparisons that are always true; random expressions hold many.
    quiet = [
        "-std=gnu99",
        "-Wno-tautological-compare",
        "-Wno-type-limits",
        "-Wno-bool-compare",
        "-Wno-pedantic",
    ]
    c.compile_c([source, binding, *runtime], path, [*c.UNDEFINED, "-O0", "-g0", *quiet, "-shared", "-lm"])
    return ctypes.CDLL(str(path))


def c_arguments(args: dict[str, Any]) -> Args:
    out = Args()
    keep: list[Any] = []
    for name, known in SCOPE.names.items():
        value = args[name]
        if known.type == "tensor":
            if value is not None:
                keep.append(_c_tensor(value))
                setattr(out, name, ctypes.pointer(keep[-1]))
        elif known.type == "tensors":
            out.xs = c.tensors([_c_tensor(t) for t in value])
        elif known.type == "rows":
            out.R = c.rows(value)
        elif known.type == "ints":
            setattr(out, name, c.ints(value or []))
        else:
            setattr(out, name, value or 0)
    for name in (*LETS, *ABSENT):
        setattr(out, f"{name}_known", args[name] is not None)
    out.j_given = args["j_given"]
    return out


def _c_tensor(t: TensorConfig) -> c.Tensor:
    view = Tensor(t)
    number = ENCODING_NUMBERS[t.quant.encoding if t.quant else None]
    dims = c.int64s(view.shape)
    tensor = c.Tensor(
        view.rank,
        dims,
        BY_SHORT[t.dtype].code,
        number,
        view.symmetric,
        TYPE_NUMBERS[view.type],
        view.sparse,
        view.axis,
        None,
    )
    if t.quant is not None:
        n = len(t.quant.scale)
        offsets = t.quant.offset or (0,) * n
        numbers = c.Quant(
            n, (ctypes.c_float * n)(*t.quant.scale), (ctypes.c_int32 * n)(*offsets), t.quant.bits or 0
        )
        tensor.quant = ctypes.pointer(numbers)
    if view.known_values is not None:
        tensor.values = ctypes.pointer(c.ints(view.known_values))
    return tensor


def c_evaluate(library: ctypes.CDLL, number: int, case: Case, args: Args) -> Any:
    out = Result()
    getattr(library, f"eval_{number}")(ctypes.byref(args), ctypes.byref(out))
    if not out.ok:
        return UNDECIDABLE
    if case.type == INTS:
        return out.l[: out.i]
    return out.f if case.type == FLOAT else out.i


# -- comparison


def plain(case: Case, value: Any) -> Any:
    """A Python value in the form C returns it."""
    if isinstance(value, str) and value == UNDECIDABLE:
        return value
    if case.type == DTYPE:
        return BY_SHORT[value].code
    if case.type == TENSOR_TYPE:
        return TYPE_NUMBERS[value]
    if case.type == ENCODING:
        return ENCODING_NUMBERS[None if value == "NONE" else value]
    if case.type == INTS:
        return list(value)
    return int(value) if case.type in (BOOL, INT) or is_enum(case.type) else value


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and bool(a == b)


def disagreements(
    cases: Sequence[Case], library: ctypes.CDLL, sets: int, seed: int
) -> tuple[list[str], dict[str, int]]:
    """Disagreements between Python and C, and how often there was a value or none."""
    rng = random.Random(seed)
    batch = [arguments(rng) for _ in range(sets)]
    packed = [c_arguments(a) for a in batch]
    counts = {"decided": 0, "undecidable": 0}
    found: list[str] = []
    for number, case in enumerate(cases):
        evaluate = python_evaluator(case.node)
        for args, view in zip(batch, packed, strict=True):
            want = plain(case, evaluate(args))
            got = c_evaluate(library, number, case, view)
            counts["undecidable" if want == UNDECIDABLE else "decided"] += 1
            if not equal(want, got):
                read = {n: v for n, v in args.items() if n in case.text}
                found.append(f"{case.text}: Python {want}, C {got}; {read}")
    return found, counts
