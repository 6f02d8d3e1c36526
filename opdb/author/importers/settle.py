"""Makes a draft's data compile: parts that the rule language refuses are removed and kept as words."""

from __future__ import annotations

from typing import Any

from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import BACKENDS
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp, CompileError, Fault
from opdb.spec.model import STRENGTHS, OpDef

#: Context that a backend's rules can read in addition to the op.
CONTEXT = {b.name: b.context for b in BACKENDS.values()}


def settle(data: dict[str, Any], words: list[str]) -> CompiledOp:
    """Compiles ``data`` (of a spec file) after removing the parts that the rule language refuses.

    Each removed part is added to ``words``.  Raises OpdbError if the rest is not a spec.
    """
    for _ in range(40):
        try:
            return compile_op(OpDef.model_validate(data), CONTEXT)
        except CompileError as error:
            take_out(data, error.faults[0], words)
    raise OpdbError(f"{data['op']}: the facts do not fit the spec format; write the spec by hand")


def take_out(data: dict[str, Any], fault: Fault, words: list[str]) -> None:
    """Removes the part that a fault names, and adds its text to ``words``."""
    at = fault.at
    if at[0] == "backends" and at[2] == "constraints":
        words.append(f"{at[1]}: {_said(data['backends'][at[1]]['constraints'].pop(at[3]))}")
    elif at[0] == "backends":
        data["backends"][at[1]]["dtypes"].pop(at[3])
        words.append(f"{at[1]}: rows of {at[3]}: {fault.message}")
    elif at[0] == "constraints":
        words.append(_said(data["constraints"].pop(at[1])))
    elif at[0] == "let":
        words.append(f"{at[1]} = {data['let'].pop(at[1])}")
    elif at[0] == "outputs":
        old = data["outputs"][at[1]]
        entry = dict(old) if isinstance(old, dict) else {"shape": old}
        words.append(f"shape of {at[1]}: {entry['shape']}")
        data["outputs"][at[1]] = {k: v for k, v in entry.items() if k not in ("count", "index")} | {
            "shape": "any"
        }
    elif at[0] == "inputs":
        old = data["inputs"][at[1]]
        entry = dict(old) if isinstance(old, dict) else {"shape": old}
        words.append(f"shape of {at[1]}: {entry.get('shape')}")
        symbol = "".join(c for c in str(at[1]).title() if c.isalnum())
        entry.pop("shape", None)
        data["inputs"][at[1]] = entry if entry.get("optional") else entry | {"shape": [f"{symbol}..."]}
    elif at[0] == "params":
        old = data["params"][at[1]]
        type_ = old["type"] if isinstance(old, dict) else old
        words.append(f"default of {at[1]}: {type_.partition(' = ')[2]}")
        data["params"][at[1]] = type_.partition(" = ")[0] + "?"
    else:
        raise OpdbError(f"{data['op']}: {'.'.join(map(str, at))}: {fault.message}")


def _said(rule: Any) -> str:
    if not isinstance(rule, dict):
        return str(rule)
    text = next(rule[s] for s in STRENGTHS if s in rule)
    return f"{text} when {rule['when']}" if rule.get("when") else str(text)
