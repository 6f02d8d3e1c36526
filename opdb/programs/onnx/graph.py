"""Makes the PyTorch module of an ONNX graph: a child ``n0``, ``n1``, ... for each node that computes when the model runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opdb.core.errors import OpdbError
from opdb.programs.onnx import chains, integer_nodes
from opdb.programs.onnx.host_shapes import Unread
from opdb.programs.onnx.modules import Graph, Operation, Step, Weights
from opdb.programs.onnx.node import Node, Operator, Unreadable, array
from opdb.programs.onnx.operators import OF_DOMAINS, WITHOUT_SCHEMA
from opdb.programs.onnx.order import ordered
from opdb.programs.onnx.subgraphs import branch, loop, reads, scan

RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
#: The newest opset that is supported; a newer form of an operator may have attributes that the functions here do not know.
NEWEST = 28
#: The oldest one: before it, Add and similar operators had attributes for broadcasting.
OLDEST = 7
#: Names of ONNX's own domain.
OWN = ("", "ai.onnx")


def to_module(
    model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], unread: Unread | None = None
) -> Graph:
    """The module of a model for inputs with the shapes of ``inputs``.

    It is run once on them, and values that depend only on shapes become constants.  ``unread`` takes the nodes that PyTorch cannot
    express; without it, such a node raises OpdbError with its number (from 1), operator and name, and the reason.
    """
    opsets = {o.domain: o.version for o in model.opset_import}
    functions = {(f.domain, f.name): f for f in model.functions}
    values: dict[str, Any] = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    values.update(inputs)
    reader = _Reader(opsets, functions, Weights())
    if reader.version < OLDEST:
        raise OpdbError(
            f"its operators are of opset {reader.version}, and opdb reads them from {OLDEST} on; bring it to a newer one, "
            "e.g. with onnx.version_converter.convert_version"
        )
    with torch.no_grad():
        outputs = [o.name for o in model.graph.output]
        return reader.graph(model.graph.node, values, list(inputs), outputs, unread)


@dataclass(frozen=True)
class _Reader:
    """``opsets``: domain -> version in effect; ``functions``: the functions that the model defines."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    weights: Weights

    @property
    def version(self) -> int:
        return next((self.opsets[d] for d in OWN if d in self.opsets), defs.onnx_opset_version())

    def graph(
        self,
        nodes: Sequence[onnx.NodeProto],
        values: dict[str, Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
        unread: Unread | None = None,
    ) -> Graph:
        """The module of ``nodes``.  ``values`` has the ``inputs`` and all known values; the values of the nodes are added to it."""
        made = Graph(inputs, outputs)
        joined = chains.joined(nodes, outputs, values)
        read = {n for proto in joined if proto is not None for n in reads(proto)} | set(outputs)
        encodings: dict[str, integer_nodes.Encoding] = {}
        scales = {n for proto in nodes if proto.op_type.endswith("uantizeLinear") for n in proto.input[1:2]}
        for place, proto in ordered(joined, values):
            where = f"node {place + 1}, {proto.op_type}{_called(proto)}"
            unmade = [n for n in reads(proto) if n not in values]
            if unmade:
                raise OpdbError(f"{where}: it reads '{unmade[0]}', which no earlier node produces")
            try:
                if unread is not None and (why := unread.blocked(proto)) is not None:
                    raise Unreadable(why)
                self._add(made, f"n{place}", proto, values, read, encodings, scales)
            except OpdbError as error:
                if unread is None:
                    raise OpdbError(f"{where}: {error}") from error
                self._leave(made, f"n{place}", proto, values, str(error), unread)
            except Exception as error:  # whatever PyTorch or numpy raise
                lines = str(error).strip().splitlines() or [type(error).__name__]
                if unread is None:
                    raise OpdbError(f"{where}, cannot be computed: {lines[0]}") from error
                self._leave(made, f"n{place}", proto, values, f"it cannot be computed: {lines[0]}", unread)
        for place, name in enumerate(outputs):
            if name and not isinstance(values[name], torch.Tensor):
                made.known[name] = f"output{place}"
                self.weights.hold(made, f"output{place}", np.asarray(values[name]))
        return made

    def _add(
        self,
        graph: Graph,
        name: str,
        proto: onnx.NodeProto,
        values: dict[str, Any],
        read: set[str],
        encodings: dict[str, integer_nodes.Encoding],
        scales: set[str],
    ) -> None:
        if proto.op_type in RANDOM:
            raise Unreadable("its results are random and differ from run to run")
        results = [r for r in proto.output if r]
        known = not any(isinstance(values[n], torch.Tensor) for n in reads(proto))
        if known and not _encoded(proto, values, scales):
            values.update(zip(results, self._evaluated(proto, values), strict=True))
            return
        module, sources = self._module(proto, values, read, encodings)
        made = module(*(values[s] for s in sources))
        made = made if isinstance(made, (tuple, list)) else (made,)
        found = {n: v for n, v in zip(proto.output, made, strict=False) if n and v is not None}
        values.update(found)
        if (encoding := integer_nodes.said(proto, values, encodings)) is not None:
            encodings.update(dict.fromkeys(results, encoding))
        lacking = [r for r in results if r not in found and r in read]
        if lacking:
            raise Unreadable(f"its output '{lacking[0]}' is not computed")
        if any(isinstance(v, torch.Tensor) for v in found.values()):
            graph.add_module(name, module)
            graph.steps.append(Step(name, sources, tuple(proto.output)))

    def _leave(
        self,
        graph: Graph,
        name: str,
        proto: onnx.NodeProto,
        values: dict[str, Any],
        reason: str,
        unread: Unread,
    ) -> None:
        module, sources = unread.module(proto, values, reason, self.weights)
        graph.add_module(name, module)
        graph.steps.append(Step(name, sources, tuple(o for o in proto.output if o)))

    def _module(
        self,
        proto: onnx.NodeProto,
        values: dict[str, Any],
        read: set[str],
        encodings: Mapping[str, integer_nodes.Encoding],
    ) -> tuple[torch.nn.Module, tuple[str, ...]]:
        """The module of a node and the names of the tensors it is called with."""
        given = [values[n] if n else None for n in proto.input]
        if proto.domain in OWN and proto.op_type == "If":
            return branch(self.graph, proto, values)
        if proto.domain in OWN and proto.op_type in ("Loop", "Scan"):
            return (loop if proto.op_type == "Loop" else scan)(self.graph, proto, values, self.version)
        operator = self._operator(proto)
        node = self._node(proto, read)
        if operator is None or (operator.takes is not None and not operator.takes(node, given)):
            return self._expanded(proto, given), _tensors(proto, given)
        if (source := next(iter(proto.input), "")) in encodings and integer_nodes.reads_stored(proto, given):
            operator = integer_nodes.between(operator, encodings[source])
        return self._operation(node, operator, given), _tensors(proto, given)

    def _operator(self, proto: onnx.NodeProto) -> Operator | None:
        found = OF_DOMAINS.get("" if proto.domain in OWN else proto.domain, {}).get(proto.op_type)
        if found is None or proto.domain not in OWN or proto.op_type in WITHOUT_SCHEMA:
            return found
        since = self._schema(proto).since_version
        if since > NEWEST:
            raise Unreadable(
                f"its form of opset {since} is newer than what opdb knows, which is opset {NEWEST}"
            )
        return found

    def _node(self, proto: onnx.NodeProto, read: set[str]) -> Node:
        count = max((i + 1 for i, n in enumerate(proto.output) if n and n in read), default=1)
        count = len(proto.output) if proto.op_type == "Split" else count
        return Node(proto.op_type, self.version, _attributes(proto), count)

    def _operation(self, node: Node, operator: Operator, given: list[Any]) -> Operation:
        if operator.prepare is not None:
            node, given = operator.prepare(node, given)
        return Operation(node, operator, given, self.weights)

    def _expanded(self, proto: onnx.NodeProto, given: Sequence[Any]) -> Graph:
        """A node expanded to the function of other operators that the model or ONNX defines it by."""
        body = self._body(proto, given)
        attributes = {a.name: a for a in body.attribute_proto} | {a.name: a for a in proto.attribute}
        if (proto.domain, proto.op_type) not in self.functions:
            schema = self._schema(proto)
            defaults = {k: v.default_value for k, v in schema.attributes.items() if v.default_value.type}
            attributes = defaults | attributes
        inner: dict[str, Any] = dict.fromkeys(body.input)
        inner.update(zip(body.input, given, strict=False))
        nodes = [_resolved(n, attributes) for n in body.node]
        _without(nodes, inner)
        reader = _Reader(
            {**self.opsets, **{o.domain: o.version for o in body.opset_import}}, self.functions, self.weights
        )
        inputs = [n for n in body.input if isinstance(inner.get(n), torch.Tensor)]
        outputs = [b if wanted else "" for b, wanted in zip(body.output, proto.output, strict=False)]
        return reader.graph(nodes, inner, inputs, outputs)

    def _body(self, proto: onnx.NodeProto, given: Sequence[Any]) -> onnx.FunctionProto:
        if (proto.domain, proto.op_type) in self.functions:
            return self.functions[proto.domain, proto.op_type]
        schema = self._schema(proto)
        made = onnx.FunctionProto()
        for context, versions in (
            (False, schema.function_opset_versions),
            (True, schema.context_dependent_function_opset_versions),
        ):
            if versions:
                version = max((v for v in versions if v <= self.version), default=min(versions))
                made.ParseFromString(
                    schema.get_context_dependent_function_with_opset_version(
                        version, proto.SerializeToString(), [_type(g).SerializeToString() for g in given]
                    )
                    if context
                    else schema.get_function_with_opset_version(version)
                )
                return made
        raise Unreadable("opdb cannot express it in PyTorch, and ONNX does not define it by other operators")

    def _schema(self, proto: onnx.NodeProto) -> defs.OpSchema:
        own = proto.domain in OWN
        version = self.version if own else self.opsets.get(proto.domain, 1)
        try:
            return defs.get_schema(proto.op_type, version, "" if own else proto.domain)
        except defs.SchemaError:
            if proto.op_type == "EPContext":
                raise Unreadable(
                    "it is a graph that was compiled for one execution provider; check the model that it was made of"
                ) from None
            where = f"opset {version}" if own else f"the domain '{proto.domain}'"
            raise Unreadable(f"{where} has no such operator that is known here") from None

    def _evaluated(self, proto: onnx.NodeProto, values: Mapping[str, Any]) -> list[Any]:
        """The results of a node with known inputs, from ONNX's reference, or from PyTorch if that fails."""
        given = {n: values[n] for n in reads(proto)}
        graph = helper.make_graph(
            [proto],
            "known",
            [helper.make_tensor_value_info(n, 0, None) for n in given],
            [helper.make_tensor_value_info(n, 0, None) for n in proto.output if n],
        )
        opsets = [helper.make_opsetid(d, v) for d, v in self.opsets.items()]
        model = helper.make_model(graph, opset_imports=opsets, functions=list(self.functions.values()))
        try:
            made = ReferenceEvaluator(model).run(None, given)
        except Exception:  # e.g. its GatherElements cannot broadcast
            operator = self._operator(proto)
            if operator is None:
                raise
            inputs = [values[n] if n else None for n in proto.input]
            results = self._operation(self._node(proto, set(proto.output)), operator, inputs)()
            results = results if isinstance(results, (tuple, list)) else (results,)
            made = [array(r) if isinstance(r, torch.Tensor) else r for r in results]
        return [np.asarray(m) if isinstance(m, np.generic) else m for m in made]


def _encoded(proto: onnx.NodeProto, values: Mapping[str, Any], scales: set[str]) -> bool:
    """True if a node gives the encoding of a weight's stored integers; the weight then stays integers.

    ``scales``: names of the scales of other weights, which become numbers.
    """
    if proto.op_type == "MatMulNBits":
        return True
    return (
        proto.op_type == "DequantizeLinear"
        and np.ndim(values[proto.input[0]]) > 0
        and proto.output[0] not in scales
    )


def _called(proto: onnx.NodeProto) -> str:
    return f" '{proto.name}'" if proto.name else ""


def _tensors(proto: onnx.NodeProto, given: Sequence[Any]) -> tuple[str, ...]:
    return tuple(n for n, g in zip(proto.input, given, strict=True) if isinstance(g, torch.Tensor))


def _attributes(proto: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: _plain(helper.get_attribute_value(a)) for a in proto.attribute}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):  # in an EPContext it is a file
            return value.decode()
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


def _resolved(proto: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A function's node with the attributes that it takes from the caller."""
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            taken = made.attribute.add()
            taken.CopyFrom(attributes[attribute.ref_attr_name])
            taken.name = attribute.name
    return made


def _without(nodes: Sequence[onnx.NodeProto], values: dict[str, Any]) -> None:
    """Removes inputs that the caller omits from the nodes inside."""
    for name in [n for n, v in values.items() if v is None]:
        del values[name]
        for proto in nodes:
            for i, n in enumerate(proto.input):
                if n == name:
                    proto.input[i] = ""


def _type(value: Any) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    kind = (array(value) if isinstance(value, torch.Tensor) else value).dtype
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(kind), tuple(value.shape))
