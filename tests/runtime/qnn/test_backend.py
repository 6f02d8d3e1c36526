"""The vendor's own libraries: opening, versions, verdicts, closing."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.generated.constants.socs import SOCS as ALL_SOCS
from opdb.runtime.qnn import libraries as qnn_libraries
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries, in_folder
from opdb.runtime.qnn.native import lib

SOCS = {"SM8550": 43, "SM8650": 57, "SM8750": 69, "SM8850": 87}
TARGETS = [("CPU", None), *(("HTP", soc) for soc in SOCS)]
pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]


def layer_norm(axes: tuple[int, ...] = (1,), dtype: str = "f32", op: str = "LayerNorm") -> OpConfig:
    x, y = TensorConfig("x", dtype, (2, 4)), TensorConfig("y", dtype, (2, 4))
    gamma, beta = (TensorConfig(n, dtype, (4,), "STATIC") for n in ("gamma", "beta"))
    params = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", axes, (len(axes),)))
    return OpConfig(op, (x, gamma, beta), params, (y,))


def relu(dtype: str = "f32", shape: tuple[int, ...] = (2, 3), quant: Quant | None = None) -> OpConfig:
    x, y = TensorConfig("x", dtype, shape, quant=quant), TensorConfig("y", dtype, shape, quant=quant)
    return OpConfig("Relu", (x,), (), (y,))


@pytest.mark.parametrize(("name", "soc"), TARGETS)
def test_versions_and_operations_are_reported(name: str, soc: str | None) -> None:
    with Backend.open(name, soc) as backend:
        assert backend.build_id.startswith("v2.47.")
        assert backend.api_version == (2, 36, 0)
        assert backend.soc_model == SOCS.get(soc or "")
        operations = backend.supported_operations()
        assert {"Relu", "LayerNorm", "Conv2d", "Softmax", "FullyConnected"} <= set(operations)
        assert len(operations) == {"CPU": 186, "HTP": 129}[name]
        assert backend.has_capability("QNN_PROPERTY_CONTEXT_SUPPORT_CACHING")


@pytest.mark.parametrize(("name", "soc"), TARGETS)
def test_configs_are_accepted_or_rejected_with_reasons(name: str, soc: str | None) -> None:
    with Backend.open(name, soc) as backend:
        accept = backend.validate(layer_norm())
        assert (accept.verdict, accept.code, accept.code_name, accept.reasons) == (
            "accept",
            0,
            "QNN_SUCCESS",
            (),
        )
        reject = backend.validate(layer_norm(axes=(0,)))
        assert (reject.verdict, reject.code) == ("reject", 3110)
        assert reject.code_name == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
        assert (
            reject.reasons[0] == "Gamma parameter shape 4 at index 0 does not match input shape 2 at axis 0"
        )
        assert backend.validate(layer_norm(axes=(5,))).reasons[0] == "Param[0] has incorrect Value 5."
        unknown = backend.validate(layer_norm(op="LayerNrm"))
        assert (unknown.code, unknown.code_name) == (4005, "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND")
        assert backend.validate(layer_norm()).verdict == "accept"


@pytest.mark.parametrize("soc", SOCS)
def test_htp_validates_for_the_given_chip(soc: str) -> None:
    with Backend.open("HTP", soc) as backend:
        log = backend.validate(layer_norm(axes=(0,))).log
        assert f"verbose: Set opvalidator socModel {SOCS[soc]}" in log


def test_an_unsupported_type_row_is_rejected_with_the_supported_ones() -> None:
    with Backend.open("HTP", "SM8650") as backend:
        verdict = backend.validate(layer_norm(dtype="f64"))
        assert verdict.code == 3110
        assert "Unsupported input/output datatypes" in verdict.reasons[0]
        assert any("configuration: FP16" in line for line in verdict.reasons)


@pytest.mark.parametrize(("name", "soc"), TARGETS[:2])
def test_optional_quantized_and_static_tensors_are_validated(name: str, soc: str | None) -> None:
    quant = Quant("SCALE_OFFSET", (0.1,), (-3,))
    weight = Quant("AXIS_SCALE_OFFSET", (0.1,) * 5, (0,) * 5, axis=3)
    conv = OpConfig(
        "Conv2d",
        (
            TensorConfig("x", "uq8", (1, 8, 8, 4), quant=quant),
            TensorConfig("filter", "sq8", (1, 1, 4, 5), "STATIC", quant=weight),
        ),
        (ParamConfig("stride", "u32", (1, 1), (2,)), ParamConfig("pad_amount", "u32", (0, 0, 0, 0), (2, 2))),
        (TensorConfig("y", "uq8", (1, 8, 8, 5), quant=quant),),
    )
    norm = layer_norm()
    absent = TensorConfig("", "f32", (), "NULL")
    no_gamma = OpConfig(norm.op, (norm.inputs[0], absent, norm.inputs[2]), norm.params, norm.outputs)
    with Backend.open(name, soc) as backend:
        for config in (conv, no_gamma, relu("uq8", quant=quant)):
            verdict = backend.validate(config)
            assert verdict.verdict == "accept", verdict.log
        scalar = backend.validate(relu(shape=()))
        assert scalar.reasons[0] == "Input[0] has incorrect Rank 0."


def test_log_lines_belong_to_their_call_even_with_threads() -> None:
    wrong = []

    def ask(backend: Backend, turn: int) -> None:
        for i in range(100):
            good = (i + turn) % 2 == 0
            verdict = backend.validate(layer_norm() if good else layer_norm(axes=(0,)))
            if good != (verdict.verdict == "accept") or good == any("Gamma" in line for line in verdict.log):
                wrong.append(verdict)

    with Backend.open("CPU") as cpu, Backend.open("HTP", "SM8650") as a, Backend.open("HTP", "SM8650") as b:
        threads = [threading.Thread(target=ask, args=(x, i)) for i, x in enumerate((cpu, a, b, cpu, a))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_htp_without_a_chip_is_refused() -> None:
    with pytest.raises(OpdbError, match=r"the HTP backend needs a SoC.*soc='SM8650'"):
        Backend.open("HTP")
    with pytest.raises(OpdbError, match=r"'SM8651' is not a SoC that opdb knows; did you mean 'SM8650'\?"):
        Backend.open("HTP", "SM8651")
    with pytest.raises(OpdbError, match="SM8650 has the number 57, not 69"):
        Backend.open("HTP", "SM8650", soc_model=69)
    with pytest.raises(OpdbError, match="leave the SoC out"):
        Backend.open("CPU", "SM8650")
    with pytest.raises(OpdbError, match="'NPU' is not a QNN backend that opdb drives; one of CPU, GPU, HTP"):
        Backend.open("NPU")


def test_an_unknown_chip_is_rejected() -> None:
    with pytest.raises(
        QnnError, match="14001 QNN_DEVICE_ERROR_INVALID_CONFIG: Unknown config socModel"
    ) as caught:
        Backend.open("HTP", soc_model=999)
    assert (caught.value.stage, caught.value.code) == ("create its device", 14001)
    assert caught.value.log
    with Backend.open("HTP", soc_model=57) as backend:  # nothing remains open
        assert backend.validate(relu()).verdict == "accept"


def test_every_listed_chip_opens() -> None:
    refused = []
    for chip, soc in ALL_SOCS.items():
        try:
            with Backend.open("HTP", chip) as backend:
                log = backend.validate(layer_norm(axes=(0,))).log
                assert f"verbose: Set opvalidator socModel {soc.soc_model}" in log
        except QnnError as error:
            refused.append((chip, error.code))
    # SC7280X is in documents of 2.25 only; the others came with later libraries.
    later = ("CPN3050", "IPQ9650", "IQX5121", "SC7280X", "SC8340XP", "SM4875", "SM7950")
    assert refused == [(chip, 14001) for chip in later]


def test_one_process_has_one_chip_at_a_time() -> None:
    with Backend.open("HTP", "SM8650"), pytest.raises(OpdbError, match="HTP is open for SoC number 57"):
        Backend.open("HTP", "SM8550")
    with Backend.open("HTP", "SM8550") as backend:
        assert backend.soc_model == 43


def test_after_close_every_use_is_an_error() -> None:
    backend = Backend.open("CPU")
    backend.close()
    backend.close()
    assert backend.closed
    for use in (lambda: backend.validate(relu()), backend.supported_operations):
        with pytest.raises(OpdbError, match="the CPU backend is closed; open it again"):
            use()


def test_log_buffers_are_released() -> None:
    for _ in range(3 * lib.OPDB_QNN_MAX_LOGS):
        Backend.open("CPU").close()
    kept = [Backend.open("CPU") for _ in range(lib.OPDB_QNN_MAX_LOGS)]
    with pytest.raises(OpdbError, match="16 QNN backends are open in this process"):
        Backend.open("CPU")
    del kept
    gc.collect()
    Backend.open("CPU").close()


def test_the_wheel_is_found_without_onnxruntime(libraries: Libraries) -> None:
    assert (libraries.package, libraries.version) == ("onnxruntime-qnn", "2.3.0")
    assert len(libraries.sha256("CPU")) == 64
    assert libraries.sha256("CPU") != libraries.sha256("HTP")


def test_a_missing_wheel_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qnn_libraries, "PACKAGE", "onnxruntime-qnn-elsewhere")
    with pytest.raises(MissingExtra, match=r"pip install 'qnn-opdb\[qnn\]'") as caught:
        Backend.open("CPU")
    assert caught.value.extra == "qnn"


def test_unusable_libraries_are_rejected(libraries: Libraries, tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match="no such folder"):
        in_folder(tmp_path / "nowhere")
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so: no such library; name the folder"):
        Backend.open("CPU", libraries=in_folder(tmp_path))
    folder = tmp_path / "onnxruntime_qnn"
    folder.mkdir()
    (tmp_path / "onnxruntime_qnn.libs").symlink_to(libraries.folder.parent / "onnxruntime_qnn.libs")
    path = folder / "libQnnCpu.so"
    path.write_text("this is not a library")
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so: cannot open this QNN library: .*(header|too short)"):
        Backend.open("CPU", libraries=in_folder(folder))
    path.unlink()
    path.symlink_to(libraries.folder / "libQnnSystem.so")
    with pytest.raises(OpdbError, match=r"libQnnCpu\.so: cannot open this QNN library: it has no function"):
        Backend.open("CPU", libraries=in_folder(folder))


def test_static_data_is_passed_to_the_library() -> None:
    good, bad = np.array([[2, 3]], np.int32), np.array([[2, 9]], np.int32)
    with Backend.open("CPU") as backend:
        for data, verdict in ((good, "accept"), (bad, "reject")):
            config = OpConfig(
                "Split",
                (TensorConfig("x", "f32", (2, 8)),),
                (
                    ParamConfig("axis", "u32", 1),
                    ParamConfig("split_index", "u32", tuple(map(int, data[0])), (2,)),
                ),
                tuple(TensorConfig(f"y{i}", "f32", (2, n)) for i, n in enumerate((2, 1, 5))),
            )
            assert backend.validate(config).verdict == verdict
