"""Runs ONNX files with ops of op packages: in ONNX Runtime on the CPU, and through its QNN execution provider.

The option ``op_packages`` makes the provider hand a node to a QNN backend as an op of a package.  Everything here
is ONNX Runtime's own; a wheel of onnxruntime-qnn in a folder (opdb libraries install) is enough.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opdb.catalog.targets.target import soc_name
from opdb.core.errors import MissingExtra, OpdbError
from opdb.execute.packages import check, elf
from opdb.generated.constants.backends import BACKENDS, DEFAULT
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn import libraries

PROVIDER = "QNNExecutionProvider"
#: The library of the execution provider, in the wheel onnxruntime-qnn.
LIBRARY = "libonnxruntime_providers_qnn.so"
JOB, INPUTS, OUTPUTS, RESULT = "job.json", "inputs.npz", "outputs.npz", "result.json"
SECONDS = 300.0
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Settings:
    """The settings of a session.  Without ``provider_library`` it runs on the CPU.

    ``custom_ops``: libraries of `opdb package ort`, which also give ONNX Runtime the schemas of the ops.
    ``provider_options``: for SessionOptions.add_provider_for_devices.  ``config``: session config entries.
    """

    custom_ops: tuple[str, ...] = ()
    provider_library: str = ""
    provider_options: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    def session_options(self) -> Any:
        """Makes an onnxruntime.SessionOptions with these settings; this process then has loaded one version of QNN for good.

        Raises MissingExtra without onnxruntime, and OpdbError if it does not accept the provider's library.
        """
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("onnxruntime", "qnn") from None
        options = onnxruntime.SessionOptions()
        for library in self.custom_ops:
            options.register_custom_ops_library(library)
        for key, value in self.config.items():
            options.add_session_config_entry(key, value)
        if not self.provider_library:
            return options
        if not (devices := _devices(onnxruntime)):
            onnxruntime.register_execution_provider_library(PROVIDER, self.provider_library)
            devices = _devices(onnxruntime)
        if not devices:
            raise OpdbError(
                f"onnxruntime {onnxruntime.__version__} finds no device of {self.provider_library}; install another "
                f"version: {libraries.INSTALL}"
            )
        options.add_provider_for_devices(devices[:1], dict(self.provider_options))
        return options


@dataclass(frozen=True)
class Output:
    """One output on the CPU and through QNN."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    equal: bool  # bit by bit
    difference: float  # the largest one


def on_qnn(
    ops: Sequence[str],
    op_packages: Sequence[Path],
    *,
    custom_ops: Sequence[Path] = (),
    soc: str = "SM8650",
    qnn: str | None = None,
    backend: str = DEFAULT,
) -> Settings:
    """The settings that give nodes of ``ops`` to ``op_packages`` (libraries of `opdb package qnn`), and all nodes to QNN.

    ``qnn``: the version of QNN, e.g. 2.51; by default the newest on this machine that has the execution provider.
    Raises OpdbError for a package that does not exist or load, if no package has one of the ops, and without a provider.
    """
    chip = SOCS[soc_name(soc)]
    found = _provider(backend, qnn)
    rows: list[str] = []
    known: list[str] = []
    for path in op_packages:
        file = elf.read(path)
        said = check.ask(path, file, chip.chip)
        if not said.ops:
            raise OpdbError(f"{path}: QNN does not take this op package: {said.why}")
        known += said.ops
        own = path.resolve()
        if bad := [c for c in ":," if c in str(own)]:
            raise OpdbError(
                f"{own}: the option op_packages of ONNX Runtime has no way to write a path with {bad[0]!r} in it; move it"
            )
        used = [op for op in said.ops if op in ops]
        if len(used) > 1:
            raise OpdbError(
                f"{path}: has several ops of the model ({', '.join(used)}); ONNX Runtime's provider registers a package "
                "once for each of its ops, and QNN takes it once: build a package for each op, e.g. opdb package qnn "
                f"{used[0]} --backend {backend} --package {used[0]}Package"
            )
        # The last part is the target of QNN's registration: CPU is the one for a host library.
        rows += [f"{op}:{own}:{file.providers[0]}:{HOST}" for op in used]
    if not rows:
        raise OpdbError(
            f"no node is an op of these packages, which have {', '.join(known) or 'none'}; the nodes are {', '.join(ops)}"
        )
    options = {
        "backend_path": str(found.path(backend)),
        "op_packages": ",".join(rows),
        "soc_model": str(chip.soc_model),
        "offload_graph_io_quantization": "0",  # a Quantize at the inputs and outputs belongs to QNN, too
    }
    if chip.htp_arch is not None:
        options["htp_arch"] = str(chip.htp_arch)
    return Settings(
        _texts(custom_ops),
        str(found.folder / LIBRARY),
        options,
        {"session.disable_cpu_ep_fallback": "1", **_config(ops)},
    )


def on_cpu(custom_ops: Sequence[Path], ops: Sequence[str] = ()) -> Settings:
    """The settings for a run on the CPU.  ``ops``: the kinds of nodes; one called Shape needs a setting."""
    return Settings(_texts(custom_ops), config=_config(ops))


def _config(ops: Sequence[str]) -> dict[str, str]:
    """Disables ONNX Runtime's constant folding for nodes called Shape, which it treats as ONNX's own in any domain: int64."""
    return {"optimization.disable_specified_optimizers": "ConstantFolding"} if "Shape" in ops else {}


def run(
    model: Path, settings: Settings, inputs: Mapping[str, Array], timeout: float = SECONDS
) -> dict[str, Array]:
    """Runs a model in a session in a child process; returns its outputs by name.  Raises OpdbError with ONNX Runtime's reasons."""
    with tempfile.TemporaryDirectory(prefix="opdb-") as folder:
        here = Path(folder)
        (here / JOB).write_text(json.dumps({"model": str(model.resolve()), "settings": asdict(settings)}))
        values: dict[str, Any] = dict(inputs)
        np.savez(here / INPUTS, **values)
        code, log = _child(here, timeout)
        if not (here / RESULT).is_file():
            how = "did not finish" if code is None else f"ended with {code}"
            if settings.provider_library and code == -signal.SIGSEGV:
                how += " (the provider does not survive a node that leaves out an input before a given one)"
            raise OpdbError(f"{model}: ONNX Runtime {how} in a child process{_reasons(log)}")
        said = json.loads((here / RESULT).read_text())
        if said["error"]:
            raise OpdbError(f"{model}: {said['error']}{_reasons(log)}")
        with np.load(here / OUTPUTS) as made:
            return {name: made[f"o{i}"] for i, name in enumerate(said["outputs"])}


def compare(
    model: Path, cpu: Settings, qnn: Settings, inputs: Mapping[str, Array], timeout: float = SECONDS
) -> list[Output]:
    """Compares each output of ``model`` on the CPU and through QNN, on the same inputs.  Raises OpdbError like ``run``."""
    wanted, got = run(model, cpu, inputs, timeout), run(model, qnn, inputs, timeout)
    return [_compared(name, value, got[name]) for name, value in wanted.items()]


def ends(model: Path, seed: int = 0) -> tuple[list[str], dict[str, Array]]:
    """The kinds of nodes in a model, and random values for its inputs: floats normal, whole numbers from 0 to 99.

    Raises OpdbError if the file is not ONNX and for inputs with open dimensions; MissingExtra without onnx.
    """
    try:
        import onnx
    except ImportError:
        raise MissingExtra("onnx", "onnx") from None
    if not model.is_file():
        raise OpdbError(f"{model}: there is no such file")
    try:
        read = onnx.load(str(model), load_external_data=False)
    except Exception as error:  # from protobuf
        raise OpdbError(f"{model}: not an ONNX file ({error})") from None
    fixed = {i.name for i in read.graph.initializer}
    random = np.random.default_rng(seed)
    made = {i.name: _values(model, i, random) for i in read.graph.input if i.name not in fixed}
    return sorted({n.op_type for n in read.graph.node}), made


def given(file: Path, wanted: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a .npz in the types of ``wanted``.  Raises OpdbError for another file, names or shapes."""
    try:
        with np.load(file) as held:
            found = {name: held[name] for name in held.files}
    except (OSError, ValueError, AttributeError) as error:
        raise OpdbError(f"{file}: not a .npz of arrays ({error}); numpy.savez writes one") from None
    if found.keys() != wanted.keys():
        raise OpdbError(f"{file}: has {', '.join(found) or 'nothing'}; the model wants {', '.join(wanted)}")
    for name, value in wanted.items():
        if found[name].shape != value.shape or found[name].dtype != value.dtype:
            raise OpdbError(
                f"{file}: {name} is {found[name].dtype} {list(found[name].shape)}; the model wants {value.dtype} {list(value.shape)}"
            )
    return found


def _values(model: Path, value: Any, random: np.random.Generator) -> Array:
    from onnx.helper import tensor_dtype_to_np_dtype

    tensor = value.type.tensor_type
    dims = [d.dim_value for d in tensor.shape.dim]
    if open_ := [d.dim_param or "?" for d in tensor.shape.dim if not d.HasField("dim_value")]:
        raise OpdbError(
            f"{model}: {value.name}: the dimension {open_[0]} is open, and QNN wants numbers; fix it "
            "(onnx.tools.update_model_dims)"
        )
    dtype = np.dtype(tensor_dtype_to_np_dtype(tensor.elem_type))
    if dtype.kind == "b":
        return random.integers(0, 2, dims).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, 100, dims).astype(dtype)
    return random.standard_normal(dims).astype(dtype)


def _compared(name: str, wanted: Array, got: Array) -> Output:
    same = wanted.shape == got.shape and wanted.dtype == got.dtype and wanted.tobytes() == got.tobytes()
    if wanted.shape != got.shape:
        difference = float("inf")
    else:
        apart = np.abs(wanted.astype(np.float64) - got.astype(np.float64))
        difference = float(apart.max()) if apart.size else 0.0
    return Output(name, wanted.shape, str(wanted.dtype), same, difference)


#: Where a library of the host runs, in QNN's terms: the backend whose packages need no other library.
HOST = next(b.name for b in BACKENDS.values() if b.op_packages == "opdb" and not b.op_packages_link)


def _provider(backend: str, qnn: str | None) -> libraries.Libraries:
    """The libraries with the execution provider, of one version or the newest."""
    found = [libraries.find(qnn)] if qnn else list(libraries.discover())
    fit = [one for one in found if (one.folder / LIBRARY).is_file() and backend in one.present]
    if not fit:
        which = f"QNN {qnn} ({found[0]}) has" if qnn else "no QNN libraries here have"
        raise OpdbError(f"{which} no execution provider of ONNX Runtime ({LIBRARY}); {libraries.INSTALL}")
    return max(fit, key=lambda one: [int(n) for n in one.version.split(".") if n.isdigit()])


def _devices(onnxruntime: Any) -> list[Any]:
    return [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]


def _texts(paths: Sequence[Path]) -> tuple[str, ...]:
    for path in paths:
        if not path.is_file():
            raise OpdbError(f"{path}: there is no such file; `opdb package ort OP...` builds one")
    return tuple(str(path.resolve()) for path in paths)


def _child(folder: Path, timeout: float) -> tuple[int | None, str]:
    """Runs the child; returns its exit code (None if it was killed at the time limit) and its output."""
    with (folder / "log.txt").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "opdb.execute.libraries.onnx_child", str(folder)],
            env=os.environ | {"OPDB_PACKAGE_LOG": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code = None
    return code, (folder / "log.txt").read_text(errors="replace")


def _reasons(log: str) -> str:
    """The messages of op packages and the provider, once each; packages' messages start with the op or its rule, e.g. Softmax.C2:"""
    told = [line.strip() for line in log.splitlines() if line and line[0].isalpha() and ": " in line]
    told += [line.partition("] ")[2] for line in log.splitlines() if "with error code" in line]
    kept = list(dict.fromkeys(line.removesuffix("\x1b[m") for line in told))[:5]
    return "".join(f"\n  {line}" for line in kept)
