"""Preparation: numbers against PyTorch, the same bytes from the same program, weights shared by methods."""

from __future__ import annotations

import copy
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate import blob, graph_read
from opdb.plugins.executorch.delegate.backend import OpdbBackend
from opdb.plugins.executorch.delegate.blob import Payload
from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner
from opdb.plugins.executorch.delegate.run import Runner, named_data
from opdb.plugins.executorch.delegate.specs import Options

from .modules import Cached, Net, Sorted, X, export, lower, lowered

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

IMAGE = torch.arange(192.0).reshape(1, 3, 8, 8).sin()
HTP = Options("HTP", soc="SM8650", execution="emulator")
EVERYWHERE = [
    Options(),
    pytest.param(Options("CPU"), marks=pytest.mark.vendor),
    pytest.param(Options("CPU", payload="graph"), marks=pytest.mark.vendor),
    pytest.param(HTP, marks=pytest.mark.vendor),
]
HERE = Path(__file__).parent


def near(options: Options) -> float:
    return 4e-3 if options.precision or options.backend == HTP.backend else 2e-5


@pytest.mark.parametrize("options", EVERYWHERE, ids=lambda o: f"{o.backend}-{o.payload}")
def test_results_match_pytorch(options: Options) -> None:
    module = Net().eval()
    made = lower(module, [IMAGE], OpdbPartitioner(options))
    with Runner(made) as runner:
        (delegate,) = runner.delegates()
        assert (delegate.module.context is not None) == options.prepared
        for image in (IMAGE, -2 * IMAGE):
            (found,) = runner.execute("forward", image)
            torch.testing.assert_close(found, module(image).detach(), rtol=near(options), atol=near(options))


@pytest.mark.vendor
def test_builds_are_reproducible() -> None:
    """Builds every kind of payload in processes with different hash seeds."""
    kinds = [Options(), Options("CPU"), Options("CPU", payload="graph"), HTP]
    text = (
        "import hashlib, importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('modules', {str(HERE / 'modules.py')!r})\n"
        "m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m)\n"
        "from opdb.plugins.executorch.delegate.partitioner import OpdbPartitioner\n"
        "from opdb.plugins.executorch.delegate.specs import Options\n"
        f"for options in {kinds!r}:\n"
        "    made = m.lower(m.Sorted(), [m.X], OpdbPartitioner(options))\n"
        "    print('sha256', hashlib.sha256(made.to_executorch().buffer).hexdigest())\n"
    )
    made = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=500,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        made.append([line for line in done.stdout.splitlines() if line.startswith("sha256")])
    assert made[0] == made[1] and len(set(made[0])) == len(kinds)


def test_debug_handles_match_the_edge_nodes() -> None:
    (module,) = lowered(lower(Net(), [IMAGE], OpdbPartitioner(Options())))
    found = graph_read.read(module.processed_bytes, named_data(module).__getitem__)
    known = {
        n.name: n.meta["debug_handle"] for n in module.original_module.graph.nodes if "debug_handle" in n.meta
    }
    map_ = module.meta["debug_handle_map"]
    assert sorted(map_) == list(range(len(found.graph.ops)))
    assert {h for handles in map_.values() for h in handles} == set(known.values())
    (conv,) = (i for i, op in enumerate(found.graph.ops) if op.op == "Conv2d")
    fused = "aten__native_batch_norm_legit_no_training_default"
    assert set(map_[conv]) == {known["aten_conv2d_default"], known[fused]}
    (last,) = (i for i, op in enumerate(found.graph.ops) if op.op == "FullyConnected")
    assert map_[last] == (known["aten_linear_default"],)


def test_methods_share_constants() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval()
    programs = {f"rows{n}": export(model, [torch.ones(n, 64)]) for n in (1, 4)}

    def size(weights: str) -> int:
        made = to_edge_transform_and_lower(
            copy.deepcopy(programs), partitioner=[OpdbPartitioner(Options(weights=weights))]
        )
        keys = [set(named_data(m)) for name in programs for m in lowered(made, name)]
        assert keys[0] == keys[1] and len(keys[0]) == (weights == "named")
        with Runner(made) as runner:
            for n in (1, 4):
                (found,) = runner.execute(f"rows{n}", torch.ones(n, 64))
                torch.testing.assert_close(found, model(torch.ones(n, 64)).detach())
        return len(made.to_executorch().buffer)

    assert size("blob") - size("named") > 64 * 64 * 4 - 4096


@pytest.mark.vendor
def test_methods_share_one_context_on_a_device() -> None:
    model = torch.nn.Linear(256, 256).eval()
    programs = {f"rows{n}": export(model, [torch.ones(n, 256)]) for n in (1, 4)}
    sizes = {}
    for weights in ("named", "blob"):
        options = Options("HTP", soc="SM8650", weights=weights)
        made = to_edge_transform_and_lower(copy.deepcopy(programs), partitioner=[OpdbPartitioner(options)])
        sizes[weights] = len(made.to_executorch().buffer)
        modules = [m for name in programs for m in lowered(made, name)]
        keys = [set(named_data(m)) for m in modules]
        assert keys[0] == keys[1] and len(keys[0]) == (weights == "named")
        names = [graph_read.read(m.processed_bytes, named_data(m).__getitem__).graph.name for m in modules]
        assert names == ["rows1_0", "rows4_0"]
    assert sizes["blob"] - sizes["named"] > 256 * 256


def test_a_blob_states_its_backend_and_arguments() -> None:
    (module,) = lowered(lower(Cached(), [X[:1], torch.tensor([1])], OpdbPartitioner(Options())))
    reader = blob.Reader(module.processed_bytes)
    assert reader.payload == Payload.GRAPH and reader.string(reader.info().backend) == ""
    found = graph_read.read(module.processed_bytes, named_data(module).__getitem__)
    assert [(s.name, len(s.initial)) for s in found.states] == [("keys", 5 * 8 * 4)]
    assert [(a.kind, a.scalar_type, a.shape) for a in found.args] == [
        ("input", 6, (1, 8)), ("input", 4, (1,)), ("output", 6, (1, 8))
    ]  # fmt: skip
    assert b"/" + os.getcwd().encode().strip(b"/") not in bytes(module.processed_bytes)


@pytest.mark.vendor
def test_a_context_names_its_library() -> None:
    (module,) = lowered(lower(Sorted(), [X], OpdbPartitioner(HTP)))
    found = graph_read.read(module.processed_bytes, named_data(module).__getitem__)
    assert found.identity.build_id and found.identity.soc_model == 57 and found.identity.precision == "fp16"
    assert found.context is not None and set(found.ids) == {
        t.name for t in (*found.graph.inputs, *found.graph.outputs)
    }


def test_a_refused_node_ends_preprocess_with_its_reasons() -> None:
    class Complex(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.double()).sum(-1)

    program = to_edge(export(Complex(), [X])).exported_program()
    with pytest.raises(
        OpdbError, match=r"CPU: \d nodes of a delegate have no form; OpdbPartitioner .* aten_relu_default"
    ):
        OpdbBackend.preprocess(program, Options("CPU").compile_specs())
    with pytest.raises(OpdbError, match="no C kernel: "):
        OpdbBackend.preprocess(program, Options().compile_specs())
    with pytest.raises(OpdbError, match="unknown compile spec"):
        OpdbBackend.preprocess(program, [CompileSpec("soc", b"SM8650")])


def test_the_blob_starts_with_its_checksum() -> None:
    (module,) = lowered(lower(Net(), [IMAGE], OpdbPartitioner(Options(weights="blob"))))
    content = bytes(module.processed_bytes)
    digest = hashlib.sha256(content[: blob.HEADER.size] + content[blob.TABLE :]).digest()
    assert content[blob.DIGEST] == digest and not named_data(module)
