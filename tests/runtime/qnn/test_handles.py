"""Ownership and release order: close, drop, the garbage collector, other threads, the end of the process."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.runtime.qnn import handles
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.handles import Handle, Resource
from opdb.runtime.qnn.native import NULL

pytestmark = [pytest.mark.native, pytest.mark.slow]
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def relu(name: str = "relu") -> QnnGraph:
    x, y = GraphTensor("x", "f32", (2, 3), "APP_WRITE"), GraphTensor("y", "f32", (2, 3), "APP_READ")
    return QnnGraph(name, {"x": x, "y": y}, [GraphOp("relu0", "Relu", ("x",), (), ("y",))])


class Tree:
    """Handles that record the order in which they are released."""

    def __init__(self) -> None:
        self.released: list[str] = []
        self.root = self.handle("root", None)

    def handle(self, name: str, parent: Handle | None) -> Handle:
        return Handle(NULL, lambda _: self.released.append(name), parent)


def test_handles_are_released_newest_first_and_once() -> None:
    tree = Tree()
    backend = tree.handle("backend", tree.root)
    tree.handle("device", tree.root)
    context = tree.handle("context", backend)
    tree.handle("other", backend)
    context.close()
    context.close()
    assert tree.released == ["context"]
    tree.root.close()
    assert tree.released == ["context", "device", "other", "backend", "root"]
    tree.root.close()
    assert len(tree.released) == 5


def test_a_closed_parent_cannot_make_handles() -> None:
    tree = Tree()
    tree.root.close()
    with pytest.raises(OpdbError, match="is closed"):
        tree.handle("late", tree.root)


def test_garbage_collection_during_a_close_is_safe() -> None:
    """A child's release lets the collector drop the parent and the child again."""
    tree = Tree()
    parent = tree.handle("parent", tree.root)

    def release(_: Any) -> None:
        tree.released.append("child")
        child.drop()
        parent.drop()

    child = Handle(NULL, release, parent)
    parent.close()
    assert tree.released == ["child", "parent"]
    assert not parent.alive and not child.alive and tree.root.alive


def test_memory_is_kept_until_the_release() -> None:
    class Memory:
        pass

    freed: list[str] = []
    memory = Memory()
    handle = Handle(NULL, lambda _: freed.append("handle"), None, keep=memory)
    weakref.finalize(memory, freed.append, "memory")
    del memory
    gc.collect()
    assert freed == []
    handle.close()
    assert freed == ["handle", "memory"]


def test_drop_does_not_wait_for_a_busy_library() -> None:
    tree = Tree()
    resource: list[Resource] = [Resource("a thing", tree.handle("thing", tree.root), None)]
    entered, leave = threading.Event(), threading.Event()

    def busy() -> None:
        with tree.root.lock:
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=busy)
    thread.start()
    assert entered.wait(10)
    resource.clear()  # returns although the library is busy
    handles.sweep()
    assert tree.released == []
    assert len(handles.dropped) == 1
    leave.set()
    thread.join()
    handles.sweep()
    assert tree.released == ["thing"]
    assert not handles.dropped


@pytest.fixture
def backend(libraries: object) -> Any:
    with Backend.open("CPU", log_level="warning") as backend:
        yield backend


USES: dict[str, Callable[[Backend, Context, Any, Any], object]] = {
    "validate": lambda b, c, g, e: b.validate(relu().op_config(relu().ops[0])),
    "supported_operations": lambda b, c, g, e: b.supported_operations(),
    "has_capability": lambda b, c, g, e: b.has_capability("QNN_PROPERTY_GRAPH_SUPPORT_SUBGRAPH"),
    "create_context": lambda b, c, g, e: b.create_context(),
    "prepare": lambda b, c, g, e: b.prepare(relu()),
    "add_graph": lambda b, c, g, e: c.add_graph(relu(f"g{len(c.graph_names)}")),
    "create_graph": lambda b, c, g, e: c.create_graph(f"g{len(c.graph_names)}"),
    "graph": lambda b, c, g, e: c.graph("relu"),
    "binary": lambda b, c, g, e: c.binary(),
    "bind": lambda b, c, g, e: g.bind({"x": X}),
    "execute": lambda b, c, g, e: g.execute({"x": X}),
    "run": lambda b, c, g, e: e.run(),
    "pointer": lambda b, c, g, e: g.pointer,
}


@pytest.mark.vendor
@pytest.mark.parametrize("use", USES)
def test_use_after_close_is_an_error(use: str, backend: Backend) -> None:
    context = backend.create_context()
    graph = context.add_graph(relu())
    execution = graph.bind({"x": X})
    USES[use](backend, context, graph, execution)
    backend.close()
    with pytest.raises(OpdbError, match="is closed"):
        USES[use](backend, context, graph, execution)


@pytest.mark.vendor
def test_a_half_built_graph_is_unusable_after_close(backend: Backend) -> None:
    graph = backend.create_context().create_graph("g")
    tensor = GraphTensor("x", "f32", (2, 3), "APP_WRITE")
    graph.add_tensor(tensor)
    backend.close()
    for use in (
        lambda: graph.add_tensor(GraphTensor("y", "f32", (2, 3))),
        lambda: graph.add_node(GraphOp("n", "Relu", ("x",), (), ("x",))),
        graph.finalize,
    ):
        with pytest.raises(OpdbError, match="is closed"):
            use()


@pytest.mark.vendor
def test_a_closed_graph_can_be_retrieved_again(backend: Backend) -> None:
    with backend.create_context() as context:
        first = context.add_graph(relu())
        execution = first.bind({"x": X})
        first.close()
        with pytest.raises(OpdbError, match="is closed"):
            execution.run()
        np.testing.assert_array_equal(context.graph("relu").execute({"x": X})["y"], np.maximum(X, 0))


@pytest.mark.vendor
def test_unsuitable_output_arrays_are_rejected(backend: Backend) -> None:
    with backend.prepare(relu()) as graph:
        read_only = np.zeros((2, 3), np.float32)
        read_only.flags.writeable = False
        for wrong, message in (
            ([[0.0] * 3] * 2, "got list"),
            (np.zeros((2, 3)), r"got float64 \[2, 3\]"),
            (np.zeros((3, 2), np.float32).T, r"got float32 \[2, 3\]"),
            (read_only, "read-only"),
        ):
            with pytest.raises(OpdbError, match=f"^output y: .*{message}"):
                graph.execute({"x": X}, {"y": wrong})  # type: ignore[dict-item]
        out = np.full((2, 3), 7, np.float32)
        assert graph.execute({"x": X}, {"y": out})["y"] is out
        np.testing.assert_array_equal(out, np.maximum(X, 0))


@pytest.mark.vendor
def test_execute_returns_new_arrays_and_keeps_the_last(backend: Backend) -> None:
    with backend.prepare(relu()) as graph:
        x = X.copy()
        references = sys.getrefcount(x)
        first = graph.execute({"x": x})["y"]
        second = graph.execute({"x": -x})["y"]
        assert sys.getrefcount(x) == references
    np.testing.assert_array_equal(first, np.maximum(X, 0))
    np.testing.assert_array_equal(second, np.maximum(-X, 0))


@pytest.mark.vendor
@pytest.mark.parametrize("bound", [True, False])
def test_a_graphs_binary_can_be_saved_after_its_arrays_are_freed(bound: bool, backend: Backend) -> None:
    """CPU reads the arrays of the last execution again, whose memory was returned to the system."""
    shape = (1024, 1024)
    x, y = GraphTensor("x", "f32", shape, "APP_WRITE"), GraphTensor("y", "f32", shape, "APP_READ")
    graph = QnnGraph("g", {"x": x, "y": y}, [GraphOp("n", "Relu", ("x",), (), ("y",))])
    with backend.create_context() as context:
        made = context.add_graph(graph)
        if bound:
            made.bind({"x": np.ones(shape, np.float32)}).run()
        else:
            made.execute({"x": np.ones(shape, np.float32)})
        gc.collect()
        assert len(context.binary()) > 1000


@dataclass
class Node:
    """The state machine's knowledge of an object: whether it was closed, and its parent."""

    thing: Any
    parent: Node | None = None
    shut: bool = False
    names: list[str] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        return self.shut or (self.parent is not None and self.parent.closed)


class AnyOrder(RuleBasedStateMachine):
    """Objects over the real CPU library, used, closed and dropped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.backends: list[Node] = []
        self.contexts: list[Node] = []
        self.graphs: list[Node] = []
        self.executions: list[Node] = []

    def attempt(self, node: Node, use: Callable[[], Any]) -> Any:
        """The result of ``use``; if ``node`` is closed, checks that it is refused and returns None."""
        if not node.closed:
            return use()
        with pytest.raises(OpdbError, match="is closed"):
            use()
        return None

    def pick(self, data: st.DataObject, nodes: list[Node]) -> Node:
        return nodes[data.draw(st.integers(0, len(nodes) - 1))]

    @precondition(lambda self: len(self.backends) < 4)
    @rule()
    def open(self) -> None:
        self.backends.append(Node(Backend.open("CPU", log_level="error")))

    @precondition(lambda self: self.backends)
    @rule(data=st.data())
    def context(self, data: st.DataObject) -> None:
        parent = self.pick(data, self.backends)
        if made := self.attempt(parent, parent.thing.create_context):
            self.contexts.append(Node(made, parent))

    @precondition(lambda self: self.backends)
    @rule(data=st.data())
    def prepare(self, data: st.DataObject) -> None:
        parent = self.pick(data, self.backends)
        if made := self.attempt(parent, lambda: parent.thing.prepare(relu())):
            self.graphs.append(Node(made, parent))

    @precondition(lambda self: self.contexts)
    @rule(data=st.data())
    def graph(self, data: st.DataObject) -> None:
        parent = self.pick(data, self.contexts)
        name = f"g{len(parent.names)}"
        if made := self.attempt(parent, lambda: parent.thing.add_graph(relu(name))):
            parent.names.append(name)
            self.graphs.append(Node(made, parent))

    @precondition(lambda self: any(c.names for c in self.contexts))
    @rule(data=st.data())
    def retrieve(self, data: st.DataObject) -> None:
        parent = self.pick(data, [c for c in self.contexts if c.names])
        name = data.draw(st.sampled_from(parent.names))
        if made := self.attempt(parent, lambda: parent.thing.graph(name)):
            self.graphs.append(Node(made, parent))

    @precondition(lambda self: self.graphs)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        parent = self.pick(data, self.graphs)
        if made := self.attempt(parent, lambda: parent.thing.bind({"x": X})):
            self.executions.append(Node(made, parent))

    @precondition(lambda self: self.graphs)
    @rule(data=st.data())
    def execute(self, data: st.DataObject) -> None:
        node = self.pick(data, self.graphs)
        if out := self.attempt(node, lambda: node.thing.execute({"x": X})):
            np.testing.assert_array_equal(out["y"], np.maximum(X, 0))

    @precondition(lambda self: self.executions)
    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        node = self.pick(data, self.executions)
        node.thing.outputs["y"][...] = 7
        if out := self.attempt(node, node.thing.run):
            np.testing.assert_array_equal(out["y"], np.maximum(X, 0))

    @precondition(lambda self: self.backends or self.contexts or self.graphs)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        node = self.pick(data, [*self.backends, *self.contexts, *self.graphs])
        node.thing.close()
        node.shut = True

    @rule(data=st.data(), collect=st.booleans())
    def drop(self, data: st.DataObject, collect: bool) -> None:
        """Drops one of our references; objects made from it keep it alive."""
        kind = data.draw(st.sampled_from((self.backends, self.contexts, self.graphs, self.executions)))
        if kind:
            kind.pop(data.draw(st.integers(0, len(kind) - 1)))
        if collect:
            gc.collect()

    @invariant()
    def closed_is_known(self) -> None:
        for node in (*self.backends, *self.contexts, *self.graphs):
            assert node.thing.closed == node.closed

    def teardown(self) -> None:
        for nodes in (self.backends, self.executions, self.contexts, self.graphs):
            nodes.clear()
        gc.collect()
        assert not handles.dropped


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("examples", "steps"), [(8, 25), pytest.param(80, 50, marks=pytest.mark.sweep)], ids=["few", "many"]
)
def test_objects_can_be_used_and_closed_in_any_order(examples: int, steps: int) -> None:
    limits = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    gc.freeze()  # the collector then scans only objects of this test instead of all of pytest: 20 times faster
    try:
        run_state_machine_as_test(AnyOrder, settings=limits)
    finally:
        gc.unfreeze()


LEFT_OPEN = """
import sys, threading
sys.path.insert(0, {folder!r})
import numpy as np
from opdb.core.errors import OpdbError
from test_handles import X, relu
from opdb.runtime.qnn.backend import Backend

backend = Backend.open({name!r}, {soc!r}, log_level="error")
context = backend.create_context()
graphs = [context.add_graph(relu(name)) for name in ("a", "b")]
execution = graphs[0].bind({{"x": X}})
prepared = backend.prepare(relu())
prepared.execute({{"x": X}})
half = backend.create_context().create_graph("half")
cycle = [context, graphs]
cycle.append(cycle)
{more}
print("end", flush=True)
"""
BUSY = """
def work():
    mine = graphs[1].bind({"x": X})
    try:
        while True:
            mine.run()
    except OpdbError:  # closed at exit
        return
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
import time
time.sleep(0.2)
"""


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("name", "soc"), [("CPU", None), ("HTP", "SM8650")])
@pytest.mark.parametrize("more", ["", BUSY, "backend.close()"], ids=["idle", "busy", "closed"])
def test_the_process_ends_with_everything_open(name: str, soc: str | None, more: str) -> None:
    program = LEFT_OPEN.format(folder=str(__file__).rpartition("/")[0], name=name, soc=soc, more=more)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "end" in done.stdout.splitlines()
    assert "Traceback" not in done.stderr and "Error" not in done.stderr
