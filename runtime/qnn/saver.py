"""Calls into QNN as C source: libQnnSaver receives them instead of a backend and records them.

opdb runs the same code as on the real backend, so that the text shows the order and the arguments of its
calls.  The Saver computes nothing: it accepts any op, and an execution does not fill its outputs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.op_config import ConfigError
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import ContextOptions
from opdb.runtime.qnn.device import Device, soc_model_of
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import FILES, Libraries, installed
from opdb.runtime.qnn.native import CODE, Arena, ffi, lib, text
from opdb.runtime.qnn.session import Session, log_level

SOURCE, DATA = "saver_output.c", "params.bin"
RECORDED = ("CPU", "HTP")
ALREADY = 4951  # QNN_SAVER_ERROR_ALREADY_INSTANTIATED


@dataclass(frozen=True)
class Call:
    """One recorded call of a QNN function: its name in the interface, its arguments as C expressions."""

    function: str  # e.g. graphAddNode
    arguments: tuple[str, ...]
    line: int  # in the source, from 1


@dataclass(frozen=True)
class Recording:
    """A recording: ``source`` is the C file, ``data`` the file with the tensors' data, in the order of use."""

    source: Path
    data: Path

    def calls(self) -> tuple[Call, ...]:
        """The calls in order, without those of the log."""
        return calls(self.source.read_text(encoding="utf-8"))


def calls(source: str) -> tuple[Call, ...]:
    """The calls in the text of a recording; the Saver writes one per line."""
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        call = re.fullmatch(r"\s*VALIDATE\(error, interface\.(\w+)\((.*)\)\);\s*", line)
        if call and not call[1].startswith("log"):
            found.append(Call(call[1], tuple(re.findall(r'"[^"]*"|[^\s,]+', call[2])), number))
    return tuple(found)


@contextmanager
def recording(
    folder: Path | str,
    backend: str = "HTP",
    soc: str | None = None,
    *,
    libraries: Libraries | None = None,
) -> Iterator[Backend]:
    """A backend whose calls are written to ``folder`` as C when the block ends: SOURCE and DATA.

    Use it like the ``backend`` ("CPU", or "HTP" with its ``soc``) that it replaces.  A process can record only once,
    because QnnSaver_initialize has no counterpart; a second recording raises OpdbError.  If the block ends with an
    exception, nothing is written.  HTP's custom configurations (the SoC, precision, optimization, VTCM, HVX
    threads) are not in the text: the Saver of 2.47 drops them, and refuses them (6000, 1000) if it is configured
    for HTP.
    """
    if backend not in RECORDED:
        raise OpdbError(
            f"{backend!r} is not a backend whose calls are recorded; one of {', '.join(RECORDED)}"
        )
    soc_model = soc_model_of(backend, soc, None)
    libraries = libraries or installed()
    path = libraries.path("SAVER")
    target = Path(folder).resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise OpdbError(f"{folder}: cannot write: {error.strerror}") from None
    with unfinished as place:
        _initialize(path, place)
        session = Session(path, f"the Saver in the place of {backend}", log_level("warning"))
        try:
            made = Backend(backend, libraries, session)
            if soc_model is not None:
                made.device = Device(session, soc, soc_model)
            yield made
        finally:
            session.handle.close()  # ends the text
        try:
            target.mkdir(exist_ok=True)
            for name in (DATA, SOURCE):
                os.replace(Path(place, name), target / name)
        except OSError as error:
            raise OpdbError(f"{folder}: cannot write: {error.strerror}") from None


def record(
    graphs: Sequence[QnnGraph],
    folder: Path | str,
    backend: str = "HTP",
    soc: str | None = None,
    *,
    options: GraphOptions | None = None,
    context: ContextOptions | None = None,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    libraries: Libraries | None = None,
) -> Recording:
    """Records adding ``graphs`` to one context, finalizing, and releasing them; see ``recording``.

    ``inputs`` by graph and tensor: each graph in it is executed once with these arrays.  Raises OpdbError for a
    second recording in one process, ConfigError for names that are impossible in C, QnnError if the Saver fails.
    """
    options = options or GraphOptions()
    options.check(backend)
    _check_names(graphs)
    with recording(folder, backend, soc, libraries=libraries) as saver:
        made = saver.create_context(context)
        for graph in graphs:
            built = made.add_graph(graph, options)
            if inputs and graph.name in inputs:
                built.execute(inputs[graph.name])
    target = Path(folder).resolve()
    return Recording(target / SOURCE, target / DATA)


def _check_names(graphs: Sequence[QnnGraph]) -> None:
    """Refuses names from which the Saver of 2.47 would produce invalid C."""
    variables: dict[str, str] = {}
    for graph in graphs:
        for name in (graph.name, *graph.tensors, *(op.name for op in graph.ops)):
            if re.search(r'["\\\n]', name):
                raise ConfigError(
                    f"{name!r}: the Saver writes quotes and backslashes into C as they are; rename it"
                )
        other = variables.setdefault(re.sub(r"\W", "_", graph.name), graph.name)
        if other != graph.name:
            raise ConfigError(
                f"the Saver gives the graphs {other!r} and {graph.name!r} one name in C; rename one"
            )


def _initialize(path: Path, folder: str) -> None:
    """Sets the Saver's output folder.  Passes no backend id, because 2.47 would then refuse HTP's configurations."""
    arena = Arena()
    config = arena.new("QnnSaver_Config_t *")
    config.option = lib.QNN_SAVER_CONFIG_OPTION_OUTPUT_DIRECTORY
    config.u.outputDirectory = arena.text(folder)
    why = ffi.new("char[1024]")
    configs = arena.configs("QnnSaver_Config_t", config)
    code = lib.opdb_qnn_saver_initialize(str(path).encode(), configs, why, ffi.sizeof(why)) & CODE
    if code == ALREADY:
        raise OpdbError(
            f"{FILES['SAVER']} records once per process and has done so; record in another process, as "
            "opdb.execute.libraries.client.record does"
        )
    if code:
        reason = text(why)
        raise QnnError("start recording", code, (f"error: {reason}",) if reason else ())
