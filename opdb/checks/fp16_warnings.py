"""Values that do not fit fp16, where a backend computes float32 in it (constants, epsilons, squares), or int32, for int64.

fp16 ends at 65504.  Its least number is 2**-24 (6e-8), and below 2**-14 (6.1e-5) it has steps of that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import Node

from opdb.catalog.targets.target import Target, backend_name
from opdb.generated.constants.backends import BACKENDS
from opdb.programs.torch.bounds import bound, operator_of
from opdb.programs.torch.encodings import arguments
from opdb.programs.torch.value_sizes import largest_values

if TYPE_CHECKING:
    from opdb.checks.verdicts import Row
    from opdb.programs.torch.program import Program

LARGEST = 65504.0
#: A constant farther from its fp16 value than this, of itself, is named.
OFF = 0.01
INT32 = 2**31
#: int64 factors from which on a product is likely to pass 2**31.
LARGE_FACTOR = 2**16

ARITHMETIC = (
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "linear",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "conv1d",
    "conv2d",
    "conv3d",
)
#: Operators that sum squares of their first argument, beside those that QNN has whole.
SQUARING = ("var", "var_mean", "std", "std_mean", "norm", "linalg_vector_norm")
#: What users of a mask do with its huge negative numbers, and what may lie between.
MASKED = ("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax")
BETWEEN = (
    "add",
    "where",
    "masked_fill",
    "expand",
    "view",
    "reshape",
    "unsqueeze",
    "_to_copy",
    "mul",
    "clone",
    "slice",
    "maximum",
)
DEPTH = 8
#: What torch.nn.functional.local_response_norm puts around its average.
AROUND_AVERAGE = ("view", "unsqueeze", "squeeze", "pad", "constant_pad_nd", "avg_pool2d", "avg_pool3d")

#: A row's warning: its rule, message, and brief.
Said = Mapping[str, str]


def with_warnings(
    program: Program,
    target: Target,
    rows: Iterable[Row],
    plain: Callable[[str], bool],
    samples: Sequence[Sequence[Any]] = (),
) -> Iterator[Row]:
    """``rows`` with warnings of the supported nodes whose values do not fit fp16, or int32.

    ``plain``: whether a node of that name computes in floats or in integers, not in quantized tensors.
    """
    if target.backend is None or not BACKENDS[backend_name(target.backend)].half:
        yield from rows
        return
    largest = largest_values(program.exported, samples) if samples else {}
    norms = {inside for view in program.nodes for inside in _recomposed(view.node)}
    nodes = {view.name: view.node for view in program.nodes}
    for row in rows:
        more: tuple[Said, ...] = ()
        if row.verdict == "supported" and row.node in nodes and plain(row.node):
            more = tuple(_of(program, nodes[row.node], largest, row.node in norms))
        yield replace(row, warnings=(*row.warnings, *more)) if more else row


def _of(program: Program, node: Node, largest: Mapping[str, float], in_norm: bool) -> Iterator[Said]:
    """``largest``: by node, the largest absolute value on the samples; where it is known it decides in the place of bounds.

    ``in_norm``: whether it becomes part of a norm, which is computed in float32.
    """
    if _integers(node):
        yield from _products(program, node)
        return
    if in_norm:
        return
    measured = largest.get(node.name, 0.0)
    if measured > LARGEST:
        yield _warning(
            "FP16.OVERFLOW",
            f"its result reaches {measured:.3g} in the data; fp16 ends at 65504: scale the values down before it",
        )
    if operator_of(node) in ARITHMETIC:
        yield from _constants(program, node)
    if (squared := _squared(node)) is not None and measured <= LARGEST:
        yield from _squares(node, squared, largest)


def _warning(rule: str, message: str) -> Said:
    return {"form": "", "rule": rule, "message": message, "brief": message}


def _integers(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.int64


def _known(program: Program, node: Node) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Its constants: a name for each, and the values."""
    for arg in node.args:
        if isinstance(arg, (int, float)) and not isinstance(arg, bool):
            yield f"the constant {arg:g}", np.array([arg], np.float64)
        elif isinstance(arg, Node) and isinstance(arg.meta.get("val"), torch.Tensor):
            value = program.values.get(program.origin(arg))
            if (
                value is not None
                and not value.is_meta
                and (value.dtype.is_floating_point or value.numel() == 1)
            ):
                value = value.detach()
                held = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
                told = f"the constant {held.item():g}" if held.size == 1 else f"the constant {arg.name}"
                yield told, held


def _constants(program: Program, node: Node) -> Iterator[Said]:
    for told, values in _known(program, node):
        sizes = np.abs(values[np.isfinite(values)])
        most = float(sizes.max(initial=0))
        if most > LARGEST:
            if values.min() >= -LARGEST or not _masks(node):
                held = "" if values.size == 1 else f" holds {most:g}, which"
                yield _warning(
                    "FP16.OVERFLOW",
                    f"{told}{held} is infinite in fp16, which ends at 65504: multiply in two steps, or scale the input",
                )
        elif values.size == 1 and most > 0 and (rounded := float(np.float16(most))) != most:
            if rounded == 0:
                yield _warning(
                    "FP16.VANISHES", f"{told} is 0 in fp16, whose least number is 6e-8: use 1e-5 or more"
                )
            elif abs(rounded - most) > OFF * most:
                yield _warning(
                    "FP16.VANISHES",
                    f"{told} is {rounded:.3g} in fp16, {abs(rounded / most - 1):.1%} off: use 1e-5 or more",
                )


def _masks(node: Node, depth: int = 0) -> bool:
    """Whether a softmax reads what it makes: minus infinity does there what the huge negative number is for."""
    return depth < DEPTH and any(
        operator_of(u) in MASKED or (operator_of(u) in BETWEEN and _masks(u, depth + 1)) for u in node.users
    )


def _squared(node: Node) -> Node | None:
    """What ``node`` squares."""
    x = node.args[0] if node.args else None
    if not isinstance(x, Node):
        return None
    what = operator_of(node)
    square = (
        what == "square"
        or (what == "mul" and node.args[1] is x)
        or (what == "pow" and node.args[1] == 2)
        or (what in SQUARING and not _other_norm(node))
    )
    return x if square else None


def _other_norm(node: Node) -> bool:
    power = node.args[1] if len(node.args) > 1 and operator_of(node) in ("norm", "linalg_vector_norm") else 2
    return power is not None and power != 2


def _squares(node: Node, x: Node, largest: Mapping[str, float]) -> Iterator[Said]:
    most = largest.get(x.name)
    if most is not None and most**2 <= LARGEST:
        return
    if most is None and bound(x) ** 2 <= LARGEST:
        return
    reached = f"; {x.name} reaches {most:.3g} in the data" if most is not None else ""
    cure = (
        "use layer_norm, rms_norm or normalize whole, or divide before"
        if operator_of(node) not in ("mul", "pow", "square") or _summed(node)
        else "divide before, and multiply after"
    )
    yield _warning(
        "FP16.SQUARES",
        f"the squares of {x.name} overflow fp16 (65504) where |{x.name}| > 255{reached}: {cure}",
    )


def _summed(node: Node) -> bool:
    return any(operator_of(u) in ("mean", "sum") for u in node.users)


def _recomposed(square: Node) -> tuple[str, ...]:
    """The nodes of the norm that begins with ``square`` where compilation makes one op of it (opdb.lower.passes.norms)."""
    x, what = _squared(square), operator_of(square)
    if x is not None and what == "mul" and (inside := _response(square, x)):
        return inside
    if x is None or not _keeps_last(_only(square, ("mean", "sum")) or square):
        return ()
    if what == "var":
        return _rooted(square, [square], x, centered=True) if _biased(square) else ()
    if what in ("norm", "linalg_vector_norm"):
        return _divided(square, [square], x)
    reduced = _only(square, ("mean", "sum"))
    if reduced is None or operator_of(reduced) == "mean":
        return () if reduced is None else _rooted(reduced, [square, reduced], x)
    root = _only(reduced, ("sqrt",))
    return () if root is None else _divided(root, [square, reduced, root], x)


def _response(square: Node, x: Node) -> tuple[str, ...]:
    """The nodes of a local response normalization, which is one op up to four dimensions (opdb.lower.passes.responses)."""
    inside = [square]
    while after := _only(inside[-1], AROUND_AVERAGE):
        inside.append(after)
    if x.meta["val"].dim() > 4 or not _averages_channels(inside):
        return ()
    for what in ("mul", "add", "pow"):
        after = _only(inside[-1], (what,))
        if after is None or not isinstance(after.args[1], (int, float)):
            return ()
        inside.append(after)
    last = _only(inside[-1], ("div",))
    return tuple(n.name for n in inside) if last is not None and last.args[0] is x else ()


def _averages_channels(nodes: list[Node]) -> bool:
    """Whether one node is an average over an odd number of channels, and another puts half as many zeros on both sides of them."""
    sizes = [n.args[1] for n in nodes if operator_of(n).startswith("avg_pool")]
    zeros = [n.args[1] for n in nodes if operator_of(n) in ("pad", "constant_pad_nd")]
    if len(sizes) != 1 or len(zeros) != 1:
        return False
    (size, *others), (*rest, before, after) = sizes[0], zeros[0]
    return set(others) == {1} and not any(rest) and size % 2 == 1 and before == after == size // 2


def _rooted(mean: Node, inside: list[Node], x: Node, centered: bool = False) -> tuple[str, ...]:
    """``inside`` and what follows, where x (less its mean) is divided by the root of ``mean`` and a number."""
    after = _only(mean, ("add",))
    root = after and _only(after, ("rsqrt", "sqrt"))
    last = root and _only(root, ("mul",) if operator_of(root) == "rsqrt" else ("div",))
    if after is None or root is None or last is None:
        return ()
    given = [n for n in last.all_input_nodes if n is not root]
    fits = any(operator_of(n) == "sub" and n.args[0] is x for n in given) if centered else x in given
    return tuple(n.name for n in (*inside, after, root)) if fits else ()


def _divided(length: Node, inside: list[Node], x: Node) -> tuple[str, ...]:
    """``inside`` and what follows, where x is divided by ``length``, which is kept above a number."""
    cut = _only(length, ("clamp_min", "clamp", "maximum"))
    spread = cut and (_only(cut, ("expand", "expand_as")) or cut)
    last = spread and _only(spread, ("div",))
    if cut is None or last is None or last.args[0] is not x:
        return ()
    return tuple(n.name for n in (*inside, cut))


def _biased(var: Node) -> bool:
    """Whether a variance divides by n."""
    given = arguments(var)
    return not given.get("correction", given.get("unbiased", True))


def _only(node: Node, names: tuple[str, ...]) -> Node | None:
    """The only reader of ``node``, where it is one of these operators."""
    users = list(node.users)
    return users[0] if len(users) == 1 and operator_of(users[0]) in names else None


def _keeps_last(node: Node) -> bool:
    """Whether a mean, sum, variance or length is over the last dimension alone, and keeps it."""
    given = arguments(node)
    axes, rank = given.get("dim"), node.args[0].meta["val"].dim()
    return (
        bool(given.get("keepdim"))
        and isinstance(axes, (list, tuple))
        and [a % rank for a in axes] == [rank - 1]
    )


def _products(program: Program, node: Node) -> Iterator[Said]:
    if operator_of(node) != "mul":
        return
    for told, values in _known(program, node):
        factor = float(np.abs(values).max(initial=0))
        if factor >= LARGE_FACTOR:
            yield _warning(
                "INT32.OVERFLOW",
                f"int64 is computed in int32: times {told.removeprefix('the constant ')}, numbers from {INT32 / factor:.6g} on pass "
                "2**31 and come out wrong: multiply in floats, or on the CPU",
            )
