"""Op packages of a backend: registers libraries of custom ops, and explains QNN's refusals.

QNN cannot unregister a package: it stays registered until its backend is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp
from opdb.runtime.qnn.errors import QnnError, reasons
from opdb.runtime.qnn.libraries import FILES
from opdb.runtime.qnn.native import NULL, Arena, ffi, lib, text

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

QNN = "qti.aisw"  # QNN's own package, which every backend has
NOT_FOUND = 4005  # QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND
#: The lines of the CPU backend's log that show which nodes of a context binary it accepted (QNN 2.47).
NODE = re.compile(r"getnode OpPackage-Name : (?P<package>\S+) Node-Type : (?P<op>\S+)")
START, END, DROPPED = "QnnGraph addnode start", "QnnGraph addnode end", "warning: opdb dropped "


@dataclass(frozen=True)
class OpPackage:
    """A registered op package: its library's name and ops, and the registration arguments."""

    name: str  # e.g. OpdbCustom
    ops: tuple[str, ...]
    library: Path
    provider: str  # e.g. OpdbCustomInterfaceProvider
    target: str | None  # e.g. CPU; None leaves it to the backend


class OpPackageError(QnnError):
    """QNN refused an op package, or a node or binary because of one; ``cure`` has the reason and the cure."""

    def __init__(
        self, stage: str, code: int, log: Sequence[str] = (), message: str = "", cure: str = ""
    ) -> None:
        super().__init__(stage, code, log, message)
        self.cure = cure
        self.args = (f"{self.args[0]}; {cure}",)

    def __reduce__(self) -> tuple[type[OpPackageError], tuple[str, int, tuple[str, ...], str, str]]:  # type: ignore[override]
        return type(self), (self.stage, self.code, self.log, self.message, self.cure)


def default_provider(library: Path) -> str:
    """The provider by QNN's naming convention, e.g. libQnnOpdbCustom.so -> OpdbCustomInterfaceProvider."""
    return f"{library.name.partition('.')[0].removeprefix('lib').removeprefix('Qnn')}InterfaceProvider"


def register(backend: Backend, library: Path | str, provider: str | None, target: str | None) -> OpPackage:
    """See ``Backend.register_op_package``."""
    path = Path(library).resolve()
    provider = provider or default_provider(path)
    stage = f"register the op package {path.name} with {backend.what}"
    session, arena = backend.session, Arena()
    with session.lock:
        code, log = session.ask(
            "backendRegisterOpPackage",
            backend,
            arena.text(str(path)),
            arena.text(provider),
            NULL if target is None else arena.text(target),
        )
        if code:
            cure = _registration(code, path, provider, log, backend)
            raise OpPackageError(stage, code, log, session.message(code), cure)
        if session.path.name == FILES["SAVER"]:  # it records the call and loads nothing
            return OpPackage(provider.removesuffix("InterfaceProvider"), (), path, provider, target)
        name, ops = _opened(path, provider)
    return OpPackage(name, ops, path, provider, target)


def _opened(path: Path, provider: str) -> tuple[str, tuple[str, ...]]:
    """Name and ops of a registered package; from now on its reasons appear in opdb's log."""
    name, ops, count = ffi.new("const char **"), ffi.new("const char ***"), ffi.new("uint32_t *")
    why = ffi.new("char[512]")
    if not lib.opdb_qnn_package_open(str(path).encode(), provider.encode(), name, ops, count, why, 512):
        raise OpdbError(f"{path}: QNN has registered this op package, opdb cannot open it: {text(why)}")
    return text(name[0]), tuple(text(ops[0][i]) for i in range(count[0]))


def _registration(code: int, path: Path, provider: str, log: Sequence[str], backend: Backend) -> str:
    """The meaning of a refusal by backendRegisterOpPackage, and the cure.  Measured with CPU, HTP, and IR of 2.47."""
    said = "\n".join(log)
    match code:
        case 1000:
            return f"{backend.what} takes no op packages; CPU and HTP do"
        case 4002:
            return "a package's terminate function failed; close the backend and open it again"
        case 4003:
            return f"{backend.what} has no such target; leave it out, or name CPU"
        case 4004:
            return "QNN wants the path of a library, the name of its provider, and a target or none"
        case 4005 if not path.is_file():
            return "there is no such file; `opdb package qnn OP...` builds one"
        case 4005 if "op_pkg_init" in said:
            return "it is a package for the CPU backend; `opdb package qnn --backend HTP OP...` builds one for HTP"
        case 4005:
            return "it is no library for this machine, or needs one that is missing; build it here"
        case 4006:
            return f"it exports no function {provider}; name its interface provider (`nm -D` lists what it exports)"
        case 4007 if "get info" in said:
            return "its getInfo function failed, which gives the name of the package and its ops"
        case 4007 | 4009:
            named = ", ".join(backend.op_packages) or "none"
            return f"a package of its name is registered with this backend already (by opdb: {named}); once is enough"
        case 4008:
            return (
                "QNN takes interface version 1.x with all of its nine functions; build the package for that"
            )
    return "this is what the package's own provider or init function answers; ask who made it"


def node_error(error: QnnError, op: GraphOp) -> QnnError:
    """The error for a refused node, with the cure if its op package is not registered."""
    if error.code != NOT_FOUND:
        return error
    return OpPackageError(error.stage, error.code, error.log, error.message, _missing(op.package))


def _missing(package: str) -> str:
    return (
        f"the op package {package} is not registered with this backend; register it first: "
        f"backend.register_op_package('libQnn{package}.so')"
    )


def check_loaded(what: str, log: Sequence[str], registered: Mapping[str, OpPackage]) -> None:
    """Raises OpdbError if the CPU backend loaded a context binary without some of its nodes.

    It answers 0 anyway, and fails only when the graph is executed (6023 or 6004), without mentioning the
    package.  ``log`` is from contextCreateFromBinary, at level debug.
    """
    for package, op, why in _dropped(log):
        if package != QNN and package not in registered:
            raise OpdbError(f"QNN cannot {what}: its op {op}: {_missing(package)}")
        if not any(line.startswith(DROPPED) for line in log):
            raise OpdbError(
                f"QNN cannot {what}: its op {op} of {package} is refused: {'; '.join(why) or 'no reason'}"
            )


def _dropped(log: Iterable[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The nodes that the log begins but does not end: package, op, and error lines."""
    found: list[tuple[str, str, tuple[str, ...]]] = []
    lines: list[str] = []
    open_ = False
    for line in (*log, START):
        if START in line:
            node = next((m for m in map(NODE.search, lines) if m), None)
            if open_ and node is not None:
                found.append((node["package"], node["op"], reasons(lines)))
            lines, open_ = [], True
        elif END in line:
            open_ = False
        lines.append(line)
    return found
