"""Records the program of an ONNX file's module in one run, instead of tracing it with FakeTensors as torch.export does.

ONNX's 1,500 node tests take 12 s this way and 120 s with torch.export.  The modules here call operators in a fixed order and change
nothing, so one run is the whole program.  Nodes get the names, targets and arguments that torch.export gives them
(tests/programs/onnx/test_recorder.py compares the two).  Their values are meta tensors: opdb only reads shapes and data types, and
FakeTensors would import TorchDynamo, which takes 2 s.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import _set_mode_pre_dispatch, unset_mode_pre_dispatch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.fx.node import map_aggregate
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from opdb.programs.onnx import host_node

#: Tags of operators whose results depend on the data.
OF_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
aten = torch.ops.aten
Whole = Callable[[torch._ops.OpOverload], bool]


class Unrecordable(Exception):
    """One run of the module does not show its whole program; torch.export has to trace it."""


class RecordedProgram(ExportedProgram):  # type: ignore[misc]  # PyTorch has no types here
    """An ExportedProgram without PyTorch's verifier, which imports SymPy (0.5 s)."""

    def validate(self) -> None:
        pass


def recorded(module: torch.nn.Module, inputs: Sequence[torch.Tensor], whole: Whole) -> ExportedProgram:
    """The program of ``module`` for inputs with the shapes of ``inputs``.

    ``whole``: True if a composite operator stays one node; otherwise PyTorch's decomposition of it is recorded.
    Raises Unrecordable if a call changes its argument or its result depends on data, and whatever the module raises.
    """
    recorder = _Recorder(whole)
    if not inputs:
        raise Unrecordable("no inputs")
    specs, state = recorder.ends(module, inputs)
    no_cuda = torch.backends.cudnn.flags(enabled=False)  # as torch.export has it in the arguments of norms
    with torch.no_grad(), no_cuda, _paths(module, recorder.path), enable_python_dispatcher(), recorder:
        result = module(*inputs)
    results = [recorder.argument(r) for r in (result if isinstance(result, tuple) else (result,))]
    specs[-len(inputs) : -len(inputs)] = [
        InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(_name("c", path)), path)
        for path in recorder.constants
    ]
    graph = recorder.graph
    graph.output(tuple(results))
    for node in reversed(graph.nodes):
        if node.target is operator.getitem and not node.users:
            graph.erase_node(node)
    made = [TensorArgument(r.name) if isinstance(r, Node) else ConstantArgument("", r) for r in results]
    return RecordedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=ExportGraphSignature(
            specs, [OutputSpec(OutputKind.USER_OUTPUT, m, None) for m in made]
        ),
        state_dict=state,
        range_constraints={},
        module_call_graph=[],
        example_inputs=(tuple(inputs), {}),
        constants=recorder.constants,
    )


class _Recorder(ProxyTorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types here
    """Sees operator calls where torch.export sees them: before autograd, with composites still whole.

    PyTorch accepts only its own modes there, so this subclasses one of them but uses nothing of it.
    ``path``: the paths of the modules that are running, outermost first.
    """

    def __init__(self, whole: Whole) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self.whole = whole
        self.graph = Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self.path: list[str] = []
        self._input: Node  # the first one
        self._nodes: Any = WeakTensorKeyDictionary()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # skipping TorchDynamo would import it

    def __enter__(self) -> _Recorder:
        _set_mode_pre_dispatch(self)
        return self

    def __exit__(self, *error: object) -> None:
        unset_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self.whole(func):
            with self:
                made = func.decompose(*args, **kwargs)
            if made is NotImplemented:
                raise Unrecordable(str(func))
            return made
        if func._schema.is_mutable or _of_data(func, args):
            raise Unrecordable(str(func))
        with torch._C._DisablePythonDispatcher():
            made = host_node.zeros(*args) if func is host_node.NODE else func(*args, **kwargs)
            if not isinstance(made, (torch.Tensor, list, tuple)):
                raise Unrecordable(str(func))
            self._write(func, args, kwargs, made)
        return made

    def _write(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> None:
        if func is aten.lift_fresh.default:
            func = aten.lift_fresh_copy.default
        given, named = map_aggregate((tuple(args), dict(kwargs)), self.argument)
        name = func.overloadpacket.__name__.removeprefix("__").removesuffix("__")
        self._keep(self._call(func, given, named, name), made)

    def argument(self, value: Any) -> Any:
        """The node of a tensor; a tensor that no call returned becomes a constant.  Other values are returned as they are."""
        if not isinstance(value, torch.Tensor):
            return value
        if value not in self._nodes:
            path = ".".join([*self.path[-1:], f"lifted_tensor_{len(self.constants)}"]).lstrip(".")
            self.constants[path] = value
            with self.graph.inserting_before(self._input):  # where torch.export has constants
                self._placeholder(_name("c", path), value)
        return self._nodes[value]

    def ends(
        self, module: torch.nn.Module, inputs: Sequence[torch.Tensor]
    ) -> tuple[list[InputSpec], dict[str, torch.Tensor]]:
        """Adds the placeholders.  Returns their specs, and the parameters and buffers by path."""
        specs, state = [], {}
        held = (
            (InputKind.PARAMETER, "p", None, module.named_parameters(remove_duplicate=False)),
            (InputKind.BUFFER, "b", True, module.named_buffers(remove_duplicate=False)),
        )
        for kind, prefix, persistent, named in held:
            for path, value in named:
                state[path] = value
                specs.append(InputSpec(kind, self._placeholder(_name(prefix, path), value), path, persistent))
        for place, value in enumerate(inputs):
            specs.append(InputSpec(InputKind.USER_INPUT, self._placeholder(f"given_{place}", value), None))
        self._input = self._nodes[inputs[0]]
        return specs, state

    def _placeholder(self, name: str, value: torch.Tensor) -> TensorArgument:
        node = self.graph.create_node("placeholder", name, name=name)
        node.meta["val"] = _shape_of(value)
        self._nodes[value] = node
        return TensorArgument(node.name)

    def _call(self, target: Any, args: Any, kwargs: Any, name: str | None = None) -> Node:
        node = self.graph.create_node("call_function", target, args, kwargs, name=name)
        node.meta["nn_module_stack"] = {path: (path, "") for path in self.path}
        return node

    def _keep(self, node: Node, made: Any) -> None:
        """Remembers which node, or which item of it, returned each tensor."""
        node.meta["val"] = map_aggregate(made, _shape_of)
        if isinstance(made, torch.Tensor):
            self._nodes[made] = node
            return
        for place, one in enumerate(made):
            self._keep(self._call(operator.getitem, (node, place), {}), one)


def _name(prefix: str, path: str) -> str:
    return re.sub(r"\W", "_", f"{prefix}_{path}").lower()


def _of_data(func: Any, args: Sequence[Any]) -> bool:
    """True if the results, or their shapes, depend on the data."""
    if func is aten.index.Tensor:
        return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
    return not OF_DATA.isdisjoint(func.tags)


def _shape_of(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


@contextmanager
def _paths(module: torch.nn.Module, running: list[str]) -> Iterator[None]:
    """``running`` holds the paths of the modules that are running, outermost first."""
    paths = {id(child): path for path, child in module.named_modules()}

    def enters(child: torch.nn.Module, given: Any) -> None:
        running.append(paths[id(child)])

    def leaves(child: torch.nn.Module, given: Any, made: Any) -> None:
        running.pop()

    with register_module_forward_pre_hook(enters), register_module_forward_hook(leaves):
        yield
