"""Makes opdb/catalog/facts/data from facts gathered from the vendor's documents, and from PyTorch's schemas.

    python -m opdb.catalog.facts.refresh qnn FOLDER     ops.json, backends.json, newer_ops.json, observed.json
    python -m opdb.catalog.facts.refresh aten           from the installed torch (the torch extra)

The first form takes the facts as they were read from the documents (names, types, ranks, symbolic
constraints; no sentences), drops empty entries, and shortens type names.  Both forms are deterministic and
write one op or target per line, so that a newer version shows as a readable diff.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opdb.core.dtypes import BY_QNN
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.sdk import sdk_number
from opdb.generated.constants.backends import BACKENDS

DATA = Path(__file__).with_name("data")
#: The document of each backend's supplement, in the SDK's documentation.
SUPPLEMENTS = {b.name: b.supplement for b in BACKENDS.values() if b.supplement is not None}
#: Keys of gathered facts that libraries were observed to have, e.g. cpu_uniform_dtypes_2.47.0, htp_dtype_tables.
UNIFORM, TABLES = re.compile(r"([a-z]+)_uniform_dtypes_(.+)"), re.compile(r"([a-z]+)_dtype_tables")
#: Facts that are the same for every op, that follow from others, or that only say "not stated".
DROPPED = {"macro", "index", "in_2.13_header", "since_opset", "class", "source"}
#: Types of ATen arguments that a mapping can read; targets with other types are left out.
ATEN_TYPES = {"Tensor", "int", "float", "Scalar", "bool", "str", "ScalarType", "Layout", "Device",
              "MemoryFormat"}  # fmt: skip


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["qnn"] and len(arguments) == 2:
        write_qnn(Path(arguments[1]))
    elif arguments == ["aten"]:
        write_aten()
    else:
        raise OpdbError("expected: python -m opdb.catalog.facts.refresh qnn FOLDER, or ... aten")


def write_qnn(folder: Path) -> None:
    """Writes qnn-<sdk>.json, backends-<sdk>.json, qnn-newer.json, and observed.json from the gathered facts."""
    ops, backends = _read(folder / "ops.json"), _read(folder / "backends.json")
    newer, observed = _read(folder / "newer_ops.json"), _read(folder / "observed.json")
    sdk = ops["sdk_version"]
    master = {
        "sdk": sdk,
        "document": "MasterOpDef.html",
        "opset": ops["opset_version_doc"],
        "package": ops["op_package"],
    }
    _write(f"qnn-{sdk}.json", {"provenance": master, "ops": {op["name"]: _op(op) for op in ops["ops"]}})
    documents = {b: SUPPLEMENTS[b] for b in backends["backends"]}
    table = {b: {n: _backend(e) for n, e in entries.items()} for b, entries in backends["backends"].items()}
    _write(f"backends-{sdk}.json", {"provenance": {"sdk": sdk, "documents": documents}, **table})
    known = {op["name"]: _newer(op) for op in newer["ops"] if op.get("inputs") and op.get("outputs")}
    _write("qnn-newer.json", {"provenance": {"sdk": "2.48.40", "document": "QnnOpDef.h"}, "ops": known})
    _write("observed.json", _observed(observed))


def _observed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Maps each backend to the types its library takes in all slots at once, or to its rows by configuration."""
    provenance: dict[str, str] = {}
    out: dict[str, Any] = {"provenance": provenance}
    for key, found in facts.items():
        if match := UNIFORM.fullmatch(key):
            backend, version = match[1].upper(), match[2]
            out[backend] = {n: [BY_QNN[t].short for t in types] for n, types in found.items()}
        elif match := TABLES.fullmatch(key):
            backend, version = (
                match[1].upper(),
                min(found, key=sdk_number),
            )  # later versions have their own files
            out[backend] = {n: {c: [{s: BY_QNN[t].short for s, t in row.items()} for row in rows]
                                for c, rows in configs.items()} for n, configs in found[version].items()}  # fmt: skip
        else:
            continue
        provenance[backend] = f"probe {backend} {version}"
    return out


def _op(op: Mapping[str, Any]) -> dict[str, Any]:
    out = {"macro": op["macro"], **_lean({k: v for k, v in op.items() if k not in ("name", "params")})}
    out["params"] = [_param(p, op["macro"]) for p in op.get("params", ())]
    return {k: v for k, v in out.items() if v != []}


def _param(param: Mapping[str, Any], macro: str) -> dict[str, Any]:
    """Strips the prefix that all enum values of a parameter share."""
    out: dict[str, Any] = _lean(param)
    for key in ("enum", "enum_since"):
        if out.get(key):
            prefix = f"{macro}_{param['name'].upper()}_"
            out[key] = {
                name.removeprefix(prefix).removeprefix(f"{macro}_"): value for name, value in out[key].items()
            }
    if "default" in param and param["default"] is not None:
        out["default"] = param["default"]  # 0 and false are values here
    return out


def _backend(entry: Mapping[str, Any]) -> dict[str, Any]:
    rows = [[c["config"], _lean(c["dtypes"])] for c in entry["configurations"]]
    slots = {s: _lean({k: v for k, v in e.items() if k != "dtypes"}) for s, e in entry["slots"].items()}
    more = {k: v for k, v in entry.items() if k not in ("configurations", "slots")}
    return {"rows": rows, "slots": {s: e for s, e in slots.items() if e}, **_lean(more)}


def _newer(op: Mapping[str, Any]) -> dict[str, Any]:
    """An op known from a header, with the type table that the newest library printed."""
    about = ("reported_by", "first_header", "first_opset")
    measured = [k for k in op if k in about or UNIFORM.fullmatch(k) or TABLES.fullmatch(k)]
    out = _op({k: v for k, v in op.items() if k not in measured})
    out["since"] = op.get("first_header") or "2.48.40"
    for key in measured:
        match, tables = TABLES.fullmatch(key), op[key]
        if match and tables:
            backend, version = match[1].upper(), max(tables, key=sdk_number)
            rows = [[config, _lean(row)] for config, group in tables[version].items() for row in group]
            out.setdefault("backends", {})[backend] = {"source": f"probe {backend} {version}", "rows": rows}
    return out


def _lean(value: Any) -> Any:
    """Removes entries that are null, false, empty, or in DROPPED, and shortens type names."""
    if isinstance(value, Mapping):
        return {k: _lean(v) for k, v in value.items() if k not in DROPPED and not _empty(k, v)}
    if isinstance(value, list):
        return [_lean(v) for v in value]
    if isinstance(value, str):
        return _short(value)
    return value


def _empty(key: str, value: Any) -> bool:
    """True if an entry says nothing; false says something only under the key "value", in comparisons."""
    return value is None or (value is False and key != "value") or value in ([], {})


def _short(text: str) -> str:
    """Rewrites type names in opdb's spelling, even inside symbolic expressions."""
    if text in BY_QNN:
        return BY_QNN[text].short
    for name in sorted(BY_QNN, key=len, reverse=True):
        text = text.replace(f"QNN_DATATYPE_{name}", BY_QNN[name].short)
        if "dtype" in text:
            text = text.replace(name, BY_QNN[name].short)
    return text.replace("QNN_QUANTIZATION_ENCODING_", "")


def write_aten() -> None:
    """Writes aten-<version>.json: every ATen overload that takes and returns tensors and changes none in place."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("torch", "torch") from error
    version = torch.__version__.partition("+")[0]
    registered = torch._C._jit_get_all_schemas()
    targets = {}
    for name in sorted({s.name.removeprefix("aten::") for s in registered if s.name.startswith("aten::")}):
        packet = getattr(torch.ops.aten, name)
        for overload in sorted(packet.overloads()):
            entry = _schema(getattr(packet, overload)._schema)
            if entry is not None:
                targets[f"aten.{name}.{overload}"] = entry
    document = {"torch": version, "document": "torch.ops.aten"}
    _write(f"aten-{version}.json", {"provenance": document, "targets": targets})


def _schema(schema: Any) -> dict[str, Any] | None:
    """The schema as data; None if a mapping cannot use it."""
    arguments = [_argument(a) for a in schema.arguments]
    returns = [_type(r.real_type) for r in schema.returns]
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    tensors = any(t.startswith("Tensor") for t in returns) and any(
        a["type"].startswith("Tensor") for a in arguments
    )
    plain = all(re.split(r"[\[?]", a["type"])[0] in ATEN_TYPES for a in arguments)
    return {"arguments": arguments, "returns": returns} if tensors and plain and not writes else None


def _argument(argument: Any) -> dict[str, Any]:
    kind = _type(argument.real_type)
    if argument.N is not None:
        kind = kind.replace("[]", f"[{argument.N}]", 1)
    out: dict[str, Any] = {"name": argument.name, "type": kind}
    if argument.has_default_value():
        value = argument.default_value
        finite = not isinstance(value, float) or math.isfinite(value)
        plain = value is None or (isinstance(value, (bool, int, float, str, list)) and finite)
        out["default"] = value if plain else str(value)
    if argument.kwarg_only:
        out["kwarg_only"] = True
    return out


def _type(real: Any) -> str:
    """A type in PyTorch's spelling, with SymInt as int, SymBool as bool, and number as Scalar."""
    text = str(real)
    for wrapper, mark in (("Optional[", "?"), ("List[", "[]")):
        if text.startswith(wrapper):
            return _type(text[len(wrapper) : -1]) + mark
    return {"SymInt": "int", "SymBool": "bool", "number": "Scalar"}.get(text, text)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OpdbError(f"{path}: cannot read the facts: {error}") from None


def _write(name: str, document: Mapping[str, Any]) -> None:
    """Writes a data file with one table entry per line."""
    parts = []
    for key, table in document.items():
        lines = ",\n".join(
            f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'), ensure_ascii=False)}"
            for k, v in table.items()
        )
        parts.append(f"{json.dumps(key)}: {{\n{lines}\n}}")
    DATA.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=DATA, delete=False, encoding="utf-8", newline="\n") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 0o644)
    os.replace(file.name, DATA / name)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OpdbError as error:
        raise SystemExit(str(error)) from None
