"""Dispatchers in use: threads, memory, errors, and releasing resources."""

from __future__ import annotations

import dataclasses
import gc
import threading
from typing import Any

import numpy as np
import pytest
import torch
from dispatch_models import HTP, Call, Model, agree, plan_of, seeded, truth

from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError
from opdb.execute.dispatch import Dispatcher
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError

pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.native]


def test_threads_share_a_dispatcher(cpu: Backend) -> None:
    module = Call(lambda x: torch.relu(torch.cumprod(torch.tanh(x), 1)))
    inputs = [torch.randn(64, 64) for _ in range(4)]
    wrong: list[str] = []
    with Dispatcher(plan_of(module, inputs[0], unsupported="host", host="torch"), cpu) as dispatcher:

        def work(x: Any) -> None:
            wanted = truth(module, x)[0]
            for _ in range(25):
                (got,) = dispatcher.run([x]).values()
                if not np.allclose(got, wanted, atol=1e-4):
                    wrong.append("another thread's numbers")

        threads = [threading.Thread(target=work, args=(x,)) for x in inputs]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert dispatcher.report().runs == 100
    assert wrong == []


def test_an_output_may_be_the_next_input(cpu: Backend) -> None:
    """A state circulating in the dispatcher's own memory is read before it is overwritten."""

    def call(x: Any, state: Any) -> Any:
        new = torch.relu(x) + state
        return new, torch.cumprod(state, 0)

    x, state = torch.ones(2, 3), torch.zeros(2, 3)
    plan = plan_of(Call(call), x, state, unsupported="host", host="torch")
    with Dispatcher(plan, cpu) as dispatcher:
        given: Any = state
        for _ in range(4):
            wanted = truth(Call(call), x, state)
            out = dispatcher.run([x, given], copy=False)
            agree(out, wanted)
            given, state = out[plan.outputs[0]], torch.from_numpy(wanted[0])


def test_inputs_may_have_any_memory_layout(cpu: Backend) -> None:
    module = Call(lambda x, y: (torch.relu(x), torch.cumprod(y, 0)))
    x = torch.randn(3, 4)
    with Dispatcher(plan_of(module, x, x.clone(), unsupported="host", host="torch"), cpu) as dispatcher:
        turned = np.asfortranarray(x.numpy())
        frozen = x.numpy()[::-1]
        frozen.flags.writeable = False
        agree(dispatcher.run([turned, frozen]), truth(module, x, x.flip(0)))
        own = [c.why for c in dispatcher.report().copies if c.to == "caller" and c.kind == "in"]
        assert own == ["PyTorch takes contiguous, writable memory"]
        agree(dispatcher.run([x.double(), x.half()]), truth(module, x, x.half().float()))


def test_bad_inputs_are_rejected(cpu: Backend) -> None:
    module, x = Call(lambda x: torch.relu(torch.erfc(torch.tanh(x)))), torch.randn(2, 3)
    plan = plan_of(module, x, unsupported="host", host="torch")
    with Dispatcher(plan, cpu) as dispatcher:
        for inputs, words in (
            ([], "the inputs are args_0; got 0 values"),
            ({"x": x}, "the inputs are args_0; got x"),
            ([torch.randn(3, 2)], r"input args_0: wants the shape \[2, 3\], got \[3, 2\]"),
            ([torch.ones(6)], r"input args_0: wants the shape"),
            ([np.array([["a"] * 3] * 2)], r"input args_0: values of type <U1 do not go into float32"),
        ):
            with pytest.raises(ConfigError, match=words):
                dispatcher.run(inputs)  # type: ignore[arg-type]
        agree(dispatcher.run([x]), truth(module, x))
    with pytest.raises(OpdbError, match="closed"):
        dispatcher.run([x])
    dispatcher.close()
    with pytest.raises(OpdbError, match="give an open backend"):
        Dispatcher(plan)
    with pytest.raises(OpdbError, match="the plan is for HTP SM8650, the backend is CPU"):
        Dispatcher(plan_of(module, x, target=HTP, unsupported="host", host="torch"), cpu)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unsupported": "skip"}, "unsupported='skip': one of error, host"),
        ({"host": "gpu"}, "host='gpu': one of kernels, torch"),
        ({"host_ops": ["Sotfmax"]}, "'Sotfmax' is neither a QNN op nor an ATen operator"),
        ({"host_ops": "Softmax"}, "a list of names"),
        ({"host_modules": ["layer"]}, "no node comes from a module 'layer'; modules: layers.0"),
        ({"host_modules": ["layers"], "qnn_modules": ["layers"]}, "choose one"),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OpdbError, match=words):
        plan_of(seeded(lambda: Model(4, 1)), torch.randn(1, 2, 4), **options)


def test_listed_host_ops_may_be_absent_from_the_model() -> None:
    plan = plan_of(
        Call(torch.relu), torch.randn(3), host_ops=["Softmax", "aten.embedding", "aten.erfc.default"]
    )
    assert [p.runs_on for p in plan.placements] == ["qnn"]


def test_closing_a_dispatcher_releases_its_context(cpu: Backend) -> None:
    module, x = Call(torch.relu), torch.randn(3)
    dispatcher = Dispatcher(plan_of(module, x), cpu)
    handles = len(cpu._backend._children)
    dispatcher.close()
    assert len(cpu._backend._children) == handles - 1
    dispatcher = Dispatcher(plan_of(module, x), cpu)
    del dispatcher
    gc.collect()
    assert len(cpu._backend._children) == handles - 1


def test_a_refused_graph_leaves_no_handles(cpu: Backend, monkeypatch: Any) -> None:
    """The second of two graphs is refused: the first one's context is released."""
    x = torch.randn(2, 3)
    plan = plan_of(Call(lambda x: torch.relu(torch.erfc(torch.tanh(x)))), x, unsupported="host", host="torch")
    graph = plan.graphs[1]
    (op,) = graph.ops
    graph.ops[0] = dataclasses.replace(op, op="NoSuchOp")
    handles = len(cpu._backend._children)
    with pytest.raises(QnnError, match="NoSuchOp"):
        Dispatcher(plan, cpu)
    gc.collect()
    assert len(cpu._backend._children) == handles


def test_the_report_is_a_table(cpu: Backend) -> None:
    module, x = Call(lambda x: torch.relu(torch.erfc(torch.tanh(x)))), torch.randn(2, 3)
    with Dispatcher(plan_of(module, x, unsupported="host", host="torch"), cpu) as dispatcher:
        empty = dispatcher.report().table()
        dispatcher.run([x])
        lines = dispatcher.report().table().splitlines()
    assert empty.startswith("0 runs") and "copy" not in empty
    assert lines[0].startswith("1 run; prepared in ")
    assert [line.split()[0] for line in lines[1:5]] == ["segment", "qnn_0", "torch_1", "qnn_2"]
    assert lines[-1] == (
        "per run: 1 in (24 bytes), 1 out (24 bytes), 1 between (24 bytes), 0 layout (0 bytes); "
        "between segments 1 in place (24 bytes)"
    )
