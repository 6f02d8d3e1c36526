"""QNN's libraries as rows: identity, capabilities on this machine, and how to get what is missing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.install import add_extras
from opdb.core.names import counted
from opdb.generated.constants.backends import ASKED, BACKENDS
from opdb.runtime.qnn.identity import Identity
from opdb.runtime.qnn.libraries import FILES, INSTALL, VARIABLE, Libraries, discover

#: Properties worth showing; QNN_PROPERTY_ is left out.
WORDS = {
    "GRAPH_SUPPORT_EXECUTE": "execution",
    "GRAPH_SUPPORT_ASYNC_EXECUTION": "asynchronous execution",
    "CONTEXT_SUPPORT_CACHING": "context binaries",
    "CONTEXT_SUPPORT_VALIDATE_BINARY": "checking binaries",
    "BACKEND_SUPPORT_OP_PACKAGE": "op packages",
    "GRAPH_SUPPORT_SUBGRAPH": "subgraphs",
    "TENSOR_SUPPORT_DYNAMIC_DIMENSIONS": "dynamic dimensions",
    "TENSOR_SUPPORT_SPARSITY": "sparse tensors",
    "TENSOR_SUPPORT_UPDATEABLE_STATIC_TENSORS": "updateable weights",
    "TENSOR_SUPPORT_MEMHANDLE_TYPE": "shared memory",
    "SIGNAL_SUPPORT_ABORT": "abort signals",
    "SIGNAL_SUPPORT_TIMEOUT": "time limits",
    "PROFILE_SUPPORTS_EXTENDED_EVENT": "extended profiling",
    "PROFILE_SUPPORT_OPTRACE_CONFIG": "op traces",
    "DEVICE_SUPPORT_INFRASTRUCTURE": "power settings",
}
#: Where to get QNN's libraries, for users without any.
CURE = f"{add_extras('qnn')}, or: {INSTALL}, or name an SDK: QNN_SDK_ROOT, {VARIABLE}"
ELSEWHERE = "none on this machine: ask it on a phone; reports say not-applicable"
SYSTEM = "reads context binaries"


def library_rows() -> list[dict[str, Any]]:
    """A row for each set of libraries on this machine, and for each of its libraries.

    Keys: part, ok, found, cost, cure, ``about`` (lines); for a library also ``library``, its identity.
    """
    problems: list[str] = []
    sets = discover(problems)
    work = [(each, name) for each in sets for name in _names(each)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        rows = list(pool.map(lambda pair: _library(*pair), work))
    out: list[dict[str, Any]] = []
    for each in sets:
        found = f"{each.qnn_version() or 'of an unknown version'}: {each} ({each.source}) in {each.folder}"
        out.append(_row("QNN libraries", found))
        out += [row for (owner, _), row in zip(work, rows, strict=True) if owner is each]
    if not sets:
        cost = f"no QNN libraries: nothing can be asked of QNN {' and '.join(b.name for b in ASKED)}, no '--against vendor'"
        out.append(_row("QNN libraries", None, cost, CURE))
    for problem in problems:
        text, _, cure = problem.partition("; ")
        out.append(_row("QNN libraries", None, text, cure or "name a folder that holds QNN's libraries"))
    return out


def _names(libraries: Libraries) -> tuple[str, ...]:
    """The libraries expected in a set: all of them in a wheel, those present in another folder."""
    return tuple(FILES) if libraries.package else libraries.present


def _row(
    part: str, found: str | None, cost: str = "", cure: str = "", ok: bool | None = None
) -> dict[str, Any]:
    ok = found is not None if ok is None else ok
    return {"part": part, "ok": ok, "found": found, "cost": cost, "cure": cure, "about": []}


def _library(libraries: Libraries, name: str) -> dict[str, Any]:
    part = f"QNN {name}"
    try:
        identity = libraries.identity(name)
    except OpdbError as error:
        text, _, cure = str(error).partition("; ")
        return _row(part, None, text, cure or CURE)
    row = _row(part, _found(libraries, identity))
    row["about"] = _about(name, identity)
    row["library"] = document(libraries, name, identity)
    if identity.refusal:
        row |= {"ok": False, "cost": f"it does not start here: {identity.refusal}", "cure": CURE}
        if refusal := getattr(BACKENDS.get(name), "refusal", ""):
            row |= {"cost": f"{row['cost']}; {refusal}", "cure": ELSEWHERE}
    return row


def document(libraries: Libraries, name: str, identity: Identity) -> dict[str, Any]:
    """The identity of a library as plain data."""
    return {
        "backend": name,
        "package": libraries.package,
        "version": libraries.version,
        "source": libraries.source,
        "folder": str(libraries.folder),
        "file": FILES[name],
        "qnn_version": identity.qnn_version,
        "build_id": identity.build_id,
        "sha256": identity.sha256,
        "core_api": _dotted(identity.core_api),
        "backend_api": _dotted(identity.backend_api),
        "provider": identity.provider,
        "provider_id": identity.provider_id,
        "refusal": identity.refusal,
        "operations": None if identity.operations is None else len(identity.operations),
        "capabilities": identity.capabilities,
        "devices": [vars(device) for device in identity.devices],
    }


def _found(libraries: Libraries, identity: Identity) -> str:
    ops = "" if identity.operations is None else f"{counted(len(identity.operations), 'op')}"
    core = f"core API {_dotted(identity.core_api)}" if identity.core_api else ""
    api = f"{'backend' if core else 'system'} API {_dotted(identity.backend_api)}"
    digest = f"sha256 {identity.sha256[:12]}"
    said = (identity.build_id, ops, core, api, identity.provider, digest)
    return f"{', '.join(filter(None, said))} ({libraries})"


def _about(name: str, identity: Identity) -> list[str]:
    if name == "SYSTEM":
        return [SYSTEM]
    said = identity.capabilities
    if said is None:
        return ["does not say what it can do: it answers no question"]
    lines = [f"{word}: {', '.join(found)}" for word, found in _said(said).items() if found]
    yes = sum(answer is True for answer in said.values())
    lines.append(f"supports {yes} of {counted(len(said), 'capability', 'capabilities')}")
    for device in identity.devices:
        if device.soc_model is not None:
            lines.append(
                f"default device: SoC number {device.soc_model}, v{device.arch}, {device.vtcm_mb} MB VTCM"
            )
    return lines


def _said(said: Mapping[str, bool | None]) -> dict[str, list[str]]:
    answers = {True: "offers", False: "does not offer", None: "does not know of"}
    out: dict[str, list[str]] = {word: [] for word in answers.values()}
    for key, word in WORDS.items():
        out[answers[said.get(f"QNN_PROPERTY_{key}")]].append(word)
    return out


def _dotted(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version or ()))
