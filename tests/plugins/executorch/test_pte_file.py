"""opdb's own reader of .pte files against ExecuTorch's, and the runtime without the exporter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.executorch import pte_file

pytestmark = pytest.mark.executorch
torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[misc]  # untyped base
    """Two inputs of other types and shapes, two outputs, and constants in a segment."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[2, 6], [4] -> [2, 3], [4]"""
        return self.linear(x).relu(), at + 1


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from executorch.exir import to_edge

    made = to_edge(torch.export.export(Net().eval(), (torch.zeros(2, 6), torch.zeros(4, dtype=torch.int64))))
    path = tmp_path_factory.mktemp("pte") / "net.pte"
    path.write_bytes(bytes(made.to_executorch().buffer))
    return path


def test_ends_are_those_that_executorch_reads(file: Path) -> None:
    from executorch.extension.pybindings import portable_lib

    inputs, outputs = pte_file.read(file).ends()
    data = file.read_bytes()
    meta = portable_lib._load_for_executorch_from_buffer(data).method_meta("forward")
    for tensors, count, info in (
        (inputs, meta.num_inputs(), meta.input_tensor_meta),
        (outputs, meta.num_outputs(), meta.output_tensor_meta),
    ):
        assert [(t.dtype, t.shape) for t in tensors] == [
            (pte_file.SCALAR_TYPES[int(info(i).dtype())], tuple(info(i).sizes())) for i in range(count)
        ]
    assert [t.name for t in (*inputs, *outputs)] == ["input0", "input1", "output0", "output1"]


def test_delegates_are_those_that_executorch_reads(tmp_path: Path) -> None:
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir._serialize._program import deserialize_pte_binary

    from opdb.plugins.executorch import OpdbPartitioner, Options
    from opdb.plugins.executorch.delegate.specs import KERNELS

    made = to_edge_transform_and_lower(
        torch.export.export(Net().eval(), (torch.zeros(2, 6), torch.zeros(4, dtype=torch.int64))),
        partitioner=[OpdbPartitioner(Options(KERNELS, weights="blob"))],
    ).to_executorch()
    path = tmp_path / "delegated.pte"
    path.write_bytes(bytes(made.buffer))
    program, theirs = pte_file.read(path), deserialize_pte_binary(path.read_bytes())
    (plan,) = theirs.program.execution_plan
    expected = []
    for chain in plan.chains:
        for number, instruction in enumerate(chain.instructions):
            index = getattr(instruction.instr_args, "delegate_index", None)
            if index is not None:
                blob = theirs.program.backend_delegate_data[plan.delegates[index].processed.index].data
                expected.append((number, bytes(blob)))
    assert expected and list(program.delegates("forward")) == expected
    with pytest.raises(OpdbError, match="has no method 'decode'; it has: forward"):
        list(program.delegates("decode"))
    store = theirs.named_data
    for key, entry in (store.pte_data if store is not None else {}).items():
        index = getattr(entry, "buffer_index", entry)
        assert program.named_data(key) == bytes(store.buffers[index])


@pytest.mark.parametrize("text", [b"", b"PK\x03\x04 a zip", b"this is no flatbuffer"])
def test_other_files_are_refused_by_their_first_bytes(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(text)
    with pytest.raises(OpdbError, match=r"other\.pte: not an ExecuTorch program"):
        pte_file.read(path)


def test_a_program_that_ends_in_the_middle_is_refused(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pte"
    cut.write_bytes(file.read_bytes()[:64])
    with pytest.raises(OpdbError, match="ends in the middle"):
        pte_file.read(cut).ends()


def test_a_program_runs_without_the_exporter(file: Path) -> None:
    """The exporter takes four of the five seconds of the imports; it can still be imported afterwards."""
    code = f"""
import sys, torch
from opdb.plugins.executorch.runtime import portable_lib
data = open({str(file)!r}, "rb").read()
program = portable_lib()._load_for_executorch_from_buffer(data)
outputs = program.run_method("forward", (torch.ones(2, 6), torch.ones(4, dtype=torch.int64)))
print(outputs[1].tolist(), "executorch.exir" in sys.modules)
from executorch.exir import to_edge
print(to_edge.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["[2, 2, 2, 2] False", "executorch.exir.program._program"]
