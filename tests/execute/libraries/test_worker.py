"""The child process around a vendor library: answers, crashes, hangs, noise."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.execute.libraries import client
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.wire import Wire
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.usefixtures("libraries")]


@pytest.fixture(scope="module", params=[("CPU", None), ("HTP", "SM8650")], ids=["CPU", "HTP"])
def worker(request: pytest.FixtureRequest) -> Iterator[VendorWorker]:
    name, soc = request.param
    with VendorWorker(name, soc) as worker:
        yield worker


def relu_config() -> OpConfig:
    return OpConfig("Relu", (TensorConfig("x", "f32", (2, 3)),), (), (TensorConfig("y", "f32", (2, 3)),))


def channel_shuffle(groups: int) -> OpConfig:
    """num_groups = 0 divides by zero in the libraries of 2.47."""
    x, y = (TensorConfig(n, "f32", (1, 4, 4, 8)) for n in "xy")
    return OpConfig("ChannelShuffle", (x,), (ParamConfig("num_groups", "u32", groups),), (y,))


def relu_graph(shape: tuple[int, ...] = (2, 3), op: str = "Relu") -> QnnGraph:
    tensors = {n: GraphTensor(n, "f32", shape, t) for n, t in (("x", "APP_WRITE"), ("y", "APP_READ"))}
    return QnnGraph("g", tensors, [GraphOp("r", op, ("x",), (), ("y",))])


def heavy_graph(layers: int = 24) -> QnnGraph:
    """Many matrix products: seconds of work."""
    n, tensors, ops = 1024, {"h0": GraphTensor("h0", "f32", (1024, 1024), "APP_WRITE")}, []
    for i in range(1, layers + 1):
        kind = "APP_READ" if i == layers else "NATIVE"
        tensors[f"h{i}"] = GraphTensor(f"h{i}", "f32", (n, n), kind)
        ops.append(GraphOp(f"m{i}", "MatMul", (f"h{i - 1}", f"h{i - 1}"), (), (f"h{i}",)))
    return QnnGraph("heavy", tensors, ops)


def test_info_identifies_the_library(worker: VendorWorker, libraries: Libraries) -> None:
    info = worker.info()
    assert info.build_id.startswith("v2.47.")
    assert (info.package, info.version, info.api_version) == ("onnxruntime-qnn", "2.3.0", (2, 36, 0))
    assert info.sha256 == libraries.sha256(info.backend)
    assert info.soc_model == (57 if info.backend == "HTP" else None)
    assert "Relu" in worker.supported_operations()


def test_configs_are_accepted_or_rejected(worker: VendorWorker) -> None:
    assert worker.validate(relu_config()).verdict == "accept"
    unknown = worker.validate(OpConfig("Relo"))
    assert (unknown.verdict, unknown.code, bool(unknown.reasons)) == ("reject", 4005, True)


def test_a_crash_is_a_verdict(worker: VendorWorker) -> None:
    assert worker.validate(channel_shuffle(2)).verdict == "accept"
    before = worker.pid
    crash = worker.validate(channel_shuffle(0))
    assert (crash.verdict, crash.code, crash.code_name) == ("crashed", signal.SIGFPE, "SIGFPE")
    assert worker.pid is None
    assert worker.validate(relu_config()).verdict == "accept"
    assert worker.pid not in (None, before)


def test_a_batch_gives_the_same_verdicts_as_single_calls(worker: VendorWorker) -> None:
    """A crash costs no other config its verdict; a config too large for C is invalid, not a crash."""
    huge = OpConfig("Relu", (TensorConfig("x", "f32", (2**31 - 1, 2**31 - 1), "STATIC"),))
    configs = [relu_config(), channel_shuffle(0), OpConfig("Relo"), huge, channel_shuffle(2)]
    verdicts = worker.validate_many(configs)
    assert [v.verdict for v in verdicts] == ["accept", "crashed", "reject", "invalid", "accept"]
    assert verdicts[1].code_name == "SIGFPE" and "4 GiB" in verdicts[3].log[0]
    alone = worker.validate(configs[2])
    assert (verdicts[2].code, verdicts[2].reasons) == (alone.code, alone.reasons)
    assert worker.validate_many([]) == []


def test_the_time_limit_of_a_batch_is_per_config(
    worker: VendorWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit applies to each config, not to the whole batch."""
    worker.info()
    monkeypatch.setattr(worker, "timeout", 1.0)
    many = [relu_config()] * 2000
    assert {v.verdict for v in worker.validate_many(many)} == {"accept"}
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    assert [v.verdict for v in worker.validate_many(many[:3])] == ["accept"] * 3  # in a fresh child


def test_memory_is_limited() -> None:
    """Exceeding the memory limit is a crash, or the library's own error; another child continues."""
    tensors = {
        "a": GraphTensor("a", "f32", (8192, 1), "APP_WRITE"),
        "b": GraphTensor("b", "f32", (1, 4096), "APP_WRITE"),
        "y": GraphTensor("y", "f32", (8192, 4096), "APP_READ"),  # 128 MiB
    }
    graph = QnnGraph("g", tensors, [GraphOp("n", "ElementWiseAdd", ("a", "b"), (), ("y",))])
    inputs = {"a": np.ones((8192, 1), np.float32), "b": np.ones((1, 4096), np.float32)}
    with VendorWorker("CPU", memory=192 << 20) as small, VendorWorker("CPU", memory=4 << 30) as large:
        assert small.run(graph, inputs).verdict in ("crashed", "no")
        assert small.validate(relu_config()).verdict == "accept"
        assert large.run(graph, inputs).verdict == "yes"


def test_output_of_a_crashed_child_has_no_null_bytes(worker: VendorWorker) -> None:
    """The output file is emptied before each request; the child keeps appending at its end."""
    big = relu_graph()
    for _ in range(2):
        worker.run(
            big, {"x": np.zeros((2, 3), np.float32)}, "fp16" if worker.info().backend == "HTP" else None
        )
    crash = worker.validate(channel_shuffle(0))
    assert crash.verdict == "crashed" and not any("\0" in line for line in crash.log)


def test_a_hang_is_a_verdict(worker: VendorWorker) -> None:
    worker.info()
    pid = worker.pid
    assert pid is not None
    worker.timeout = 0.5
    try:
        os.kill(pid, signal.SIGSTOP)
        hung = worker.validate(relu_config())
    finally:
        worker.timeout = 60
    assert (hung.verdict, hung.code) == ("hung", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert worker.validate(relu_config()).verdict == "accept"


def test_run_returns_outputs_and_prints_nothing(
    worker: VendorWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.array([[-1, 0, 1], [2, -3, 4]], np.float32)
    result = worker.run(relu_graph(), {"x": x}, "fp16" if worker.info().backend == "HTP" else None)
    assert (result.stage, result.verdict, result.code) == ("done", "yes", 0)
    np.testing.assert_allclose(result.outputs["y"], np.maximum(x, 0), rtol=2e-3)
    assert capfd.readouterr() == ("", "")  # HTP prints its stages when it finalizes


def test_run_stops_at_a_refused_node(worker: VendorWorker) -> None:
    result = worker.run(relu_graph(op="Relo"), {"x": np.zeros((2, 3), np.float32)})
    assert (result.stage, result.verdict, result.code, result.node) == ("validate", "no", 4005, "r")


def test_run_distinguishes_validation_from_finalization() -> None:
    """HTP 2.47 accepts LayerNorm without gamma, then cannot finalize it."""
    tensors = [
        GraphTensor("x", "f32", (4, 64), "APP_WRITE"),
        GraphTensor("beta", "f32", (64,), "STATIC"),
        GraphTensor("y", "f32", (4, 64), "APP_READ"),
    ]
    params = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (1,), (1,)))
    node = GraphOp("norm", "LayerNorm", ("x", None, "beta"), params, ("y",))
    graph = QnnGraph("g", {t.name: t for t in tensors}, [node])
    with VendorWorker("HTP", "SM8650") as worker:
        result = worker.run(graph, {"x": np.ones((4, 64), np.float32)})
    assert (result.stage, result.verdict, result.code) == ("finalize", "no", 1002)
    assert result.code_name == "QNN_COMMON_ERROR_MEM_ALLOC"
    assert any("could not create op" in line for line in result.log)


def test_run_names_the_stage_that_hangs() -> None:
    with VendorWorker("CPU") as worker:
        graph, x = heavy_graph(), {"h0": np.ones((1024, 1024), np.float32)}
        worker.info()
        worker.timeout = 0.3
        result = worker.run(graph, x)
        assert (result.stage, result.verdict) == ("execute", "hung")
        worker.timeout = 60
        assert worker.validate(relu_config()).verdict == "accept"


def test_mistakes_are_raised_and_the_child_survives(worker: VendorWorker) -> None:
    worker.info()
    pid = worker.pid
    with pytest.raises(OpdbError, match="this graph has the inputs x; got none"):
        worker.run(relu_graph(), {})
    huge = TensorConfig("x", "f32", (2**31 - 1, 2**31 - 1), "STATIC")
    with pytest.raises(OpdbError, match=r"inputs\[0\]: .* more than the 4 GiB"):
        worker.validate(OpConfig("Relu", (huge,)))
    assert worker.pid == pid


def test_libraries_that_cannot_be_opened_are_errors(tmp_path: Path, libraries: Libraries) -> None:
    with pytest.raises(OpdbError, match="the HTP backend needs a SoC"):
        VendorWorker("HTP").info()
    with pytest.raises(QnnError, match="14001"):
        VendorWorker("HTP", soc_model=999).info()
    whole = libraries.path("CPU").read_bytes()
    (tmp_path / "libQnnCpu.so").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so"):
        VendorWorker("CPU", libraries=tmp_path).info()


def test_a_closed_worker_cannot_be_used() -> None:
    worker = VendorWorker("CPU")
    worker.close()
    with pytest.raises(OpdbError, match="this worker is closed"):
        worker.validate(relu_config())


def test_the_client_loads_neither_numpy_nor_the_binding() -> None:
    code = "import sys, opdb.execute.libraries.client; print(sorted({'numpy', 'cffi', '_cffi_backend'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_child_exits_when_its_parent_is_killed() -> None:
    code = (
        "import time; from opdb.execute.libraries.client import VendorWorker\n"
        "w = VendorWorker('CPU'); w.info(); print(w.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 60
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    """True if a process runs; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_damaged_memory_is_a_crash() -> None:
    """CPython raises SystemError if its own data is damaged, i.e. the library wrote outside its buffers."""
    code = (
        "import sys\n"
        "from opdb.execute.libraries import worker\n"
        "def damaged(*_): raise SystemError('Negative size passed to PyBytes_FromStringAndSize')\n"
        "worker.Server.answer = damaged\n"
        "worker.main()\n"
    )
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", code, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    Wire(ours.detach()).send(("validate",))
    _, printed = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGABRT and b"memory was overwritten: Negative size" in printed


def test_a_fault_after_other_requests_is_retried_in_a_fresh_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier request may have damaged memory, so the fault may not be this one's; a fault in a fresh child is ours."""
    asked = client._Child.ask
    faults = [client._Fault("array() takes -1 positional arguments")]

    def ask(self: client._Child, request: tuple[Any, ...], *more: Any) -> Any:
        if request[0] == "validate" and faults:
            raise faults.pop()
        return asked(self, request, *more)

    with VendorWorker("CPU") as worker:
        first = worker.supported_operations(), worker.pid
        monkeypatch.setattr(client._Child, "ask", ask)
        assert worker.validate(relu_config()).verdict == "accept"
        assert worker.pid != first[1]
    with VendorWorker("CPU") as worker:
        faults.append(client._Fault("array() takes -1 positional arguments"))
        with pytest.raises(RuntimeError, match="takes -1"):
            worker.validate(relu_config())


@pytest.mark.vendor
def test_the_library_can_be_opened_ahead() -> None:
    with VendorWorker("HTP", "SM8650") as worker:
        worker.open_ahead()
        begun = time.monotonic()
        while worker.pid is None and time.monotonic() - begun < 60:
            time.sleep(0.05)
        child = worker.pid
        assert child is not None and worker.info().backend == "HTP"
        assert worker.pid == child
    with VendorWorker(
        "HTP", "SM8650", soc_model=10**6
    ) as worker:  # the failure is reported with the next request
        worker.open_ahead()
        with pytest.raises(OpdbError):
            worker.info()
