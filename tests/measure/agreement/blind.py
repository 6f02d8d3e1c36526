"""Random op configs independent of the specs: configs that a library once accepted, with mistakes of a careless user.

Blind on purpose: it reads neither specs nor the generator of opdb.execute.libraries, only the bundled configs and the documented
signatures (opdb.catalog.facts).  Works on the JSON of op configs, as accepted by ``opdb validate``.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opdb.catalog import facts
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError, OpConfig, from_json

DATA = Path(__file__).parents[2] / "data" / "minimal_configs.json"
MINIMAL: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))["configs"]
ELEMENTS = 1 << 14  # of a tensor, at most
FLOATS = ["FLOAT_32", "FLOAT_16"]
FIXED = ["UFIXED_POINT_8", "SFIXED_POINT_8", "UFIXED_POINT_16", "SFIXED_POINT_16", "SFIXED_POINT_32"]
WHOLE = ["INT_32", "UINT_32", "UINT_8", "INT_8", "INT_64", "UINT_16", "INT_16"]
EVERY = [*FLOATS, *FIXED, *WHOLE, "BOOL_8", "BFLOAT_16", "FLOAT_64"]
#: Number of mistakes -> weight.
ERRORS = {0: 20, 1: 45, 2: 22, 3: 9, 5: 4}
Json = dict[str, Any]
Rng = random.Random


def configs(op: str, library: str, seed: int, n: int) -> Iterator[OpConfig]:
    """``n`` configs of one op; ``library`` (e.g. CPU_2.47.0) is the one whose accepted types they start from."""
    made, i = 0, 0
    while made < n and i < 20 * n:
        rng = random.Random(f"blind/{library}/{op}/{seed}/{i}")
        i += 1
        raw = start(op, library, rng)
        for _ in range(rng.choices(list(ERRORS), list(ERRORS.values()))[0]):
            make_one(raw, rng)
        if any(math.prod(t.get("shape", ())) > ELEMENTS for t in (*raw["inputs"], *raw["outputs"])):
            continue
        try:
            yield from_json(raw)
        except ConfigError:  # no op config at all, e.g. a negative number for an unsigned parameter
            continue
        made += 1


def make_one(raw: Json, rng: Rng) -> None:
    """Makes a mistake; another one if the first does not apply."""
    before = copy.deepcopy(raw)
    for _ in range(5):
        rng.choices(list(MISTAKES), list(MISTAKES.values()))[0](raw, rng)
        if raw != before:
            return


def start(op: str, library: str, rng: Rng) -> Json:
    """The minimal config of an op, mostly in a type that the library accepted."""
    minimal = MINIMAL[op]
    taken = minimal["accepted_X"].get(library) or minimal["accepted_X"].get("HTP_2.51.0") or []
    x = rng.choice(taken) if taken and rng.random() < 0.8 else rng.choice(EVERY)

    def tensor(t: Json) -> Json:
        if t.get("type") == "NULL":
            return {"type": "NULL"}
        out: Json = {"dtype": x if t["dtype"] == "$X" else t["dtype"], "shape": list(t["dims"])}
        out |= {"type": t["type"]} if "type" in t else {}
        out |= {"data": t["values"]} if "values" in t else {}
        return encode(out, rng)

    params: Json = {}
    for p in minimal["params"]:
        if "tensor" in p:
            t = p["tensor"]
            params[p["name"]] = {"dtype": t["dtype"], "shape": list(t["dims"]), "data": list(t["values"])}
        else:
            params[p["name"]] = {"dtype": p["scalar"], "value": p["value"]}
    raw = {"op": op, "params": params}
    raw["inputs"] = [tensor(t) for t in minimal["inputs"]]
    raw["outputs"] = [tensor(t) for t in minimal["outputs"]]
    constants = rng.random() < 0.4  # inputs after the first one belong to the model
    for t in raw["inputs"][1:] if constants else ():
        if t.get("type", "NATIVE") == "NATIVE":
            t["type"] = "STATIC"
    return raw


def encode(t: Json, rng: Rng) -> Json:
    """The tensor with some encoding if its type is quantized, else without one."""
    t.pop("quant", None)
    if t["dtype"] in FIXED:
        unsigned = t["dtype"].startswith("U")
        offset = (
            rng.choice([0, -(2 ** (7 if "8" in t["dtype"] else 15)), -3])
            if unsigned
            else rng.choice([0, 0, 4])
        )
        t["quant"] = {"encoding": "SCALE_OFFSET", "scale": rng.choice([0.5, 0.0625, 0.01]), "offset": offset}
    return t


# -- the mistakes; each changes ``raw`` in place, or leaves it where it does not apply


def given(raw: Json, where: str = "both") -> list[Json]:
    tensors = {"in": raw["inputs"], "out": raw["outputs"], "both": raw["inputs"] + raw["outputs"]}[where]
    return [t for t in tensors if t.get("type") != "NULL"]


def pick(raw: Json, rng: Rng, where: str = "both") -> Json | None:
    some = given(raw, where)
    return rng.choice(some) if some else None


def wrong_type(raw: Json, rng: Rng) -> None:
    if t := pick(raw, rng):
        t["dtype"] = rng.choice(EVERY)
        t.pop("data", None)
        encode(t, rng)


def other_precision(raw: Json, rng: Rng) -> None:
    """A model in another precision: changes every tensor of one family of types."""
    family = rng.choice([FLOATS, FIXED, WHOLE])
    to = rng.choice(EVERY)
    for t in given(raw):
        if t["dtype"] in family:
            t["dtype"] = to
            t.pop("data", None)
            encode(t, rng)


def same_type_everywhere(raw: Json, rng: Rng) -> None:
    to = rng.choice(EVERY)
    for t in given(raw):
        t["dtype"] = to
        t.pop("data", None)
        encode(t, rng)


def wrong_size(raw: Json, rng: Rng) -> None:
    t = pick(raw, rng)
    if t and t["shape"]:
        a = rng.randrange(len(t["shape"]))
        t["shape"][a] = rng.choice([1, 2, 3, 4, 6, 8, 16, t["shape"][a] + 1, t["shape"][a] * 3])
        t.pop("data", None)


def other_batch(raw: Json, rng: Rng) -> None:
    """Changes the first dimension of every tensor whose first dimension is the first input's."""
    first = pick(raw, rng, "in")
    if first and first["shape"]:
        old, new = first["shape"][0], rng.choice([1, 2, 3, 5])
        for t in given(raw):
            if len(t["shape"]) == len(first["shape"]) and t["shape"][0] == old:
                t["shape"][0] = new
                t.pop("data", None)


def other_channels(raw: Json, rng: Rng) -> None:
    """Changes the last dimension of every tensor whose last dimension is some input's."""
    one = pick(raw, rng, "in")
    if one and one["shape"]:
        old, new = one["shape"][-1], rng.choice([1, 2, 3, 4, 6, 8, 12])
        for t in given(raw):
            if t["shape"] and t["shape"][-1] == old:
                t["shape"][-1] = new
                t.pop("data", None)


def transposed(raw: Json, rng: Rng) -> None:
    """Puts channels first, as in PyTorch."""
    for t in given(raw) if rng.random() < 0.5 else given(raw)[:1]:
        if len(t["shape"]) > 2:
            t["shape"].insert(1, t["shape"].pop())
            t.pop("data", None)


def wrong_rank(raw: Json, rng: Rng) -> None:
    if t := pick(raw, rng):
        if t["shape"] and rng.random() < 0.5:
            t["shape"].pop(rng.randrange(len(t["shape"])))
        else:
            t["shape"].insert(rng.randint(0, len(t["shape"])), rng.choice([1, 1, 2]))
        t.pop("data", None)


def other_rank(raw: Json, rng: Rng) -> None:
    """Every tensor of the first input's rank gains or loses a leading dimension."""
    first = pick(raw, rng, "in")
    if first:
        rank, more = len(first["shape"]), rng.random() < 0.6
        for t in given(raw):
            if len(t["shape"]) == rank and (more or rank > 1):
                t["shape"] = [1, *t["shape"]] if more else t["shape"][1:]
                t.pop("data", None)


def copied_shape(raw: Json, rng: Rng) -> None:
    """Copies the shape of another tensor."""
    a, b = pick(raw, rng), pick(raw, rng)
    if a and b:
        a["shape"] = list(b["shape"])
        a.pop("data", None)


def number(dtype: str, old: Any, rng: Rng) -> Any:
    if dtype == "BOOL_8":
        return rng.random() < 0.5
    if dtype.startswith("FLOAT"):
        return rng.choice([0.0, 1.0, 0.25, -2.0, 100.0, 1e-12, float(old or 0)])
    return rng.choice([0, 1, 2, 3, 4, 5, 9, (old or 0) + 1, max((old or 0) - 1, 0), -1])


def wrong_value(raw: Json, rng: Rng) -> None:
    """Gives a parameter another value: sometimes of its enum, if it has one."""
    if not raw["params"]:
        return
    name = rng.choice(sorted(raw["params"]))
    p = raw["params"][name]
    known = [d for d in signature(raw["op"]) if d.name == name and d.enum]
    if "value" in p and known and rng.random() < 0.8:
        p["value"] = rng.choice(sorted(known[0].enum.values()))
    elif "value" in p and p["dtype"] != "STRING":
        p["value"] = number(p["dtype"], p["value"], rng)
    elif p.get("data"):
        i = rng.randrange(len(p["data"]))
        if isinstance(p["data"][i], list):
            j = rng.randrange(len(p["data"][i]))
            p["data"][i][j] = number(p["dtype"], p["data"][i][j], rng)
        else:
            p["data"][i] = number(p["dtype"], p["data"][i], rng)


def longer_or_shorter(raw: Json, rng: Rng) -> None:
    some = sorted(n for n, p in raw["params"].items() if p.get("data") and len(p["shape"]) == 1)
    if some:
        p = raw["params"][rng.choice(some)]
        p["data"] = p["data"][1:] if rng.random() < 0.5 else [*p["data"], p["data"][0]]
        p["shape"] = [len(p["data"])]


def param_of_other_type(raw: Json, rng: Rng) -> None:
    some = sorted(
        n for n, p in raw["params"].items() if p["dtype"] in ("INT_32", "UINT_32", "FLOAT_32", "BOOL_8")
    )
    if some:
        p = raw["params"][rng.choice(some)]
        p["dtype"] = rng.choice(["INT_32", "UINT_32", "FLOAT_32"])
        turn = float if p["dtype"] == "FLOAT_32" else int
        if "value" in p:
            p["value"] = turn(p["value"])
        elif p["data"] and not isinstance(p["data"][0], list):
            p["data"] = [turn(v) for v in p["data"]]


def forgotten_param(raw: Json, rng: Rng) -> None:
    if raw["params"]:
        del raw["params"][rng.choice(sorted(raw["params"]))]


def one_more_param(raw: Json, rng: Rng) -> None:
    """Adds a documented parameter with a value of its type, or a parameter of another op."""
    free = [d for d in signature(raw["op"]) if d.name not in raw["params"] and d.shape is None]
    if not free or rng.random() < 0.1:
        raw["params"]["axis" if "axis" not in raw["params"] else "stray"] = {"dtype": "UINT_32", "value": 0}
        return
    d = rng.choice(free)
    if d.dtype in BY_SHORT and d.dtype != "str":
        dtype = BY_SHORT[d.dtype].qnn
        value = rng.choice(sorted(d.enum.values())) if d.enum else number(dtype, None, rng)
        raw["params"][d.name] = {"dtype": dtype, "value": value}


def odd_encoding(raw: Json, rng: Rng) -> None:
    some = [t for t in given(raw) if t["dtype"] in FIXED]
    if not some:
        return
    t = rng.choice(some)
    forms = ["plain", "axis", "axis", "bits", "none"]
    form = rng.choice(forms if t["shape"] else ["plain", "none"])
    if form == "none":
        t.pop("quant", None)
    elif form == "axis":
        axis = rng.choice([0, len(t["shape"]) - 1, rng.randrange(len(t["shape"]))])
        n = t["shape"][axis]
        offset = rng.choice([0, 0, -128, -32768])
        t["quant"] = {
            "encoding": "AXIS_SCALE_OFFSET",
            "axis": axis,
            "scale": [0.25] * n,
            "offset": [offset] * n,
        }
    elif form == "bits":
        t["quant"] = {"encoding": "BW_SCALE_OFFSET", "bits": 4, "scale": 0.25, "offset": 0}
    else:
        offset = rng.choice([0, 1, -1, -127, -128, -32768, -100])
        t["quant"] = {"encoding": "SCALE_OFFSET", "scale": rng.choice([1.0, 0.125, 1e-3]), "offset": offset}


def one_encoding(raw: Json, rng: Rng) -> None:
    """Gives all tensors of one type one encoding, as ops that only move data require."""
    t = pick(raw, rng)
    if t and "quant" in t and t["quant"]["encoding"] == "SCALE_OFFSET":
        for u in given(raw):
            if u["dtype"] == t["dtype"]:
                u["quant"] = dict(t["quant"])


def constant_or_not(raw: Json, rng: Rng) -> None:
    if t := pick(raw, rng, "in"):
        t["type"] = "NATIVE" if t.get("type") == "STATIC" else "STATIC"


def at_the_end_of_a_graph(raw: Json, rng: Rng) -> None:
    """Makes the tensors inputs and outputs of the application."""
    for t in given(raw, "in")[:1]:
        t["type"] = "APP_WRITE"
    for t in given(raw, "out"):
        t["type"] = "APP_READ"


def no_tensor(raw: Json, rng: Rng) -> None:
    group = raw[rng.choice(["inputs", "inputs", "outputs"])]
    if group:
        group.pop(rng.randrange(len(group)))


def null_tensor(raw: Json, rng: Rng) -> None:
    if raw["inputs"]:
        raw["inputs"][rng.randrange(len(raw["inputs"]))] = {"type": "NULL"}


def one_more_tensor(raw: Json, rng: Rng) -> None:
    group = raw[rng.choice(["inputs", "inputs", "outputs"])]
    if t := pick(raw, rng):
        made = copy.deepcopy(t)
        if rng.random() < 0.5 and made["shape"]:  # a bias, a scale...
            made["shape"] = made["shape"][-1:]
            made["type"] = "STATIC"
            made.pop("data", None)
            made = encode(made, rng)
        group.append(made)


def turned_round(raw: Json, rng: Rng) -> None:
    if len(raw["inputs"]) > 1:
        raw["inputs"].append(raw["inputs"].pop(0))


#: mistake -> weight
MISTAKES: dict[Callable[[Json, Rng], None], int] = {
    wrong_type: 6, other_precision: 4, same_type_everywhere: 3, wrong_size: 7, other_batch: 4, other_channels: 4,
    transposed: 2, wrong_rank: 4, other_rank: 4, copied_shape: 2, wrong_value: 14, longer_or_shorter: 3,
    param_of_other_type: 2, forgotten_param: 5, one_more_param: 7, odd_encoding: 6, one_encoding: 3,
    constant_or_not: 5, at_the_end_of_a_graph: 2, no_tensor: 3, null_tensor: 2, one_more_tensor: 4, turned_round: 1,
}  # fmt: skip


def signature(op: str) -> tuple[facts.DocumentedParam, ...]:
    """The documented parameters; () for an op without a document."""
    try:
        return facts.documented_op(op).params
    except OpdbError:
        return ()
