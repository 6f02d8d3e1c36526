"""QnnSystem's description of a context binary: ``QnnSystemContext_BinaryInfo_t`` as Python data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.core.op_config import quant_json
from opdb.generated.constants.qnn_layouts import LAYOUTS
from opdb.runtime.qnn.native import NULL, CData, ffi, lib, text, version
from opdb.runtime.qnn.tensor_read import read_dynamic, read_tensor

GRAPH_INFO = "QnnSystemContext_GraphInfo_t"
#: A larger count of graphs or tensors shows that the binary is damaged.
MAX_COUNT = 1 << 20

_BACKENDS = {
    getattr(lib, name): name.removeprefix("QNN_BACKEND_ID_")
    for name in dir(lib)
    if name.startswith("QNN_BACKEND_ID_")
}


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a context binary.  ``dynamic``: True for each dimension that may change; () if none can."""

    tensor: GraphTensor
    id: int
    dynamic: tuple[bool, ...]

    def json(self) -> dict[str, Any]:
        t = self.tensor
        out = {"name": t.name, "id": self.id, "type": t.type, "dtype": BY_SHORT[t.dtype].qnn}
        out |= {"shape": list(t.shape), "quant": quant_json(t.quant) if t.quant else None}
        return out | {"dynamic": list(self.dynamic)}


@dataclass(frozen=True)
class GraphInfo:
    """A graph of a context binary, with inputs and outputs in the library's order.  ``blob_bytes``: None before version 3."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    updateable: tuple[TensorInfo, ...]
    blob_bytes: int | None
    version: int  # of GraphInfo

    def json(self) -> dict[str, Any]:
        ends = {n: [t.json() for t in getattr(self, n)] for n in ("inputs", "outputs", "updateable")}
        return {"name": self.name} | ends | {"blob_bytes": self.blob_bytes, "version": self.version}


@dataclass(frozen=True)
class BinaryInfo:
    """The contents of a context binary.

    ``build_id`` is "" if the library writes none (QNN CPU 2.47); ``soc_model`` is QNN's number for the chip,
    None before version 3 and for backends without chips; ``context_bytes`` counts the library's own part.
    """

    backend: str  # QNN's name; e.g. HTP
    build_id: str
    core_api: tuple[int, int, int]
    backend_api: tuple[int, int, int]
    soc_version: str
    soc_model: int | None
    context_version: tuple[int, int, int]
    context_bytes: int
    tensors: tuple[TensorInfo, ...]
    graphs: tuple[GraphInfo, ...]
    version: int  # of BinaryInfo

    def json(self) -> dict[str, Any]:
        out = dict(vars(self))
        for key in ("core_api", "backend_api", "context_version"):
            out[key] = ".".join(map(str, out[key]))
        return out | {key: [x.json() for x in out[key]] for key in ("tensors", "graphs")}


def decode(info: CData, api: tuple[int, ...]) -> BinaryInfo:
    """Decodes a QnnSystemContext_BinaryInfo_t of version 1, 2, or 3; ``api`` is QnnSystem's version.

    The result does not point into the struct.  Raises OpdbError for an unknown version, layout, tensor data type, or
    encoding.
    """
    number = int(info.version)
    if number not in (1, 2, 3):
        raise OpdbError(f"QnnSystem describes it in version {number}; opdb reads 1 to 3")
    v = getattr(info.u, f"contextBinaryInfoV{number}")
    return BinaryInfo(
        backend=_BACKENDS.get(v.backendId, f"number {v.backendId}"),
        build_id=text(v.buildId),
        core_api=version(v.coreApiVersion),
        backend_api=version(v.backendApiVersion),
        soc_version=text(v.socVersion),
        soc_model=(v.socModel or None) if number == 3 else None,
        context_version=version(v.contextBlobVersion),
        context_bytes=v.contextBlobSize,
        tensors=_tensors(v.contextTensors, v.numContextTensors, "context tensors"),
        graphs=tuple(map(_graph, graph_elements(v.graphs, v.numGraphs, api))),
        version=number,
    )


def graph_elements(array: CData, n: int, api: tuple[int, ...]) -> list[CData]:
    """The ``n`` elements of an array of graph infos.

    Their size depends on QnnSystem's API, see LAYOUTS.  For an API version between known ones it is derived from the
    version fields: version 3 exists only in the larger layout; otherwise every element of one of the layouts must
    begin with a version and a name.  Raises OpdbError if no layout fits.
    """
    if _count(n, array, "graphs") == 0:
        return []
    rows = LAYOUTS[GRAPH_INFO]
    known = [r for r in rows if (not r.since or api[:2] >= r.since) and (not r.until or api[:2] <= r.until)]
    layouts = [r.struct for r in known or rows]
    if n == 1 or ffi.cast("int32_t *", array)[0] == 3:  # one alone is read only as far as its version goes
        layouts = [GRAPH_INFO]
    start = int(ffi.cast("uintptr_t", array))
    for layout in layouts:
        elements = [ffi.cast(f"{layout} *", start + i * ffi.sizeof(layout)) for i in range(n)]
        highest = 3 if layout == GRAPH_INFO else 2
        if all(1 <= int(e.version) <= highest and e.u.graphInfoV1.graphName != NULL for e in elements):
            return elements
    raise OpdbError(
        f"QnnSystem {'.'.join(map(str, api))} lays out the infos of its {counted(n, 'graph')} in a way that opdb does not know"
    )


def _graph(info: CData) -> GraphInfo:
    number = int(info.version)
    v = getattr(info.u, f"graphInfoV{number}")
    name = text(v.graphName)
    what = f"tensors of the graph {name!r}"
    return GraphInfo(
        name=name,
        inputs=_tensors(v.graphInputs, v.numGraphInputs, what),
        outputs=_tensors(v.graphOutputs, v.numGraphOutputs, what),
        updateable=_tensors(v.updateableTensors, v.numUpdateableTensors, what) if number > 1 else (),
        blob_bytes=v.graphBlobInfoSize if number == 3 else None,
        version=number,
    )


def _tensors(array: CData, n: int, what: str) -> tuple[TensorInfo, ...]:
    structs = [array[i] for i in range(_count(n, array, what))]
    return tuple(TensorInfo(*read_tensor(s), read_dynamic(s)) for s in structs)


def _count(n: int, array: CData, what: str) -> int:
    if n > MAX_COUNT or (n and array == NULL):
        raise OpdbError(f"QnnSystem reports {n} {what}, which is impossible; the binary is damaged")
    return n
