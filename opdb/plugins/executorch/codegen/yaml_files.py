"""functions.yaml and custom_ops.yaml of ExecuTorch's kernel generator.

The format follows ExecuTorch 1.4.1's generator (tests/plugins/executorch/codegen/test_et_yaml.py runs it):

- a dim order alias is one list; the list of lists in ExecuTorch's guide is a TypeError;
- an op with two kernels breaks its headers, and its sources if custom_ops.yaml is given: NativeFunctions.h is opdb's,
  and the Makefile passes the two files as one functions.yaml;
- entries of functions.yaml are sorted by argument name, and a key depends on the order: if that would change the key,
  names carry their position;
- the runtime's key also includes the returned tensors: ``__ret_0``;
- its types are the eight in ``TYPES``; no kernel can be specialized for Half.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opdb.plugins.executorch.codegen.glue import OutVariant
from opdb.spec.mapping import plain_type

#: ExecuTorch's numbers of the types that a key can contain.
TYPES = {0: "Byte", 1: "Char", 2: "Short", 3: "Int", 4: "Long", 6: "Float", 7: "Double", 11: "Bool"}
#: ExecuTorch's namespace of kernels is this plus "::native".
NAMESPACE = "opdb"


@dataclass(frozen=True, order=True)
class KernelKey:
    """The ScalarType number and dim order of each tensor of a call; returned tensors come last."""

    tensors: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def text(self) -> str:
        """The key in the spelling of ExecuTorch's runtime; e.g. v1/6;0,1|6;0,1|6;0,1."""
        return "v1/" + "|".join(f"{t};{','.join(map(str, order))}" for t, order in self.tensors)

    @property
    def has_plain_types(self) -> bool:
        return all(t in TYPES for t, _ in self.tensors)


def plain_key(variant: OutVariant, dtype: int, rank: int) -> KernelKey | None:
    """The key with all tensors of one type and rank; None for an operator with lists of tensors or optional tensors."""
    kinds = [t for _, t in variant.arguments if plain_type(t)[0].startswith("Tensor")]
    if any(kind != "Tensor" for kind in kinds):
        return None
    return KernelKey(((dtype, tuple(range(rank))),) * (len(kinds) + 2 * len(variant.outs)))


@dataclass(frozen=True)
class Entry:
    """One operator: its default kernel, and the kernels for ``keys``."""

    variant: OutVariant
    keys: tuple[KernelKey, ...] = ()


def functions(entries: Iterable[Entry]) -> str:
    """The text of functions.yaml: operators of ATen, which the generator looks up by name."""
    return "".join(_entry("op", e.variant.name.removeprefix("aten::"), e) for e in entries)


def custom_ops(entries: Iterable[Entry]) -> str:
    """The text of custom_ops.yaml: operators of other libraries, with their schemas."""
    return "".join(_entry("func", e.variant.schema, e) for e in entries)


def _entry(word: str, what: str, entry: Entry) -> str:
    kernel = f"      kernel_name: {NAMESPACE}::{entry.variant.function}"
    lines = [f"- {word}: {what}", "  kernels:", "    - arg_meta: null", kernel]
    orders = list(dict.fromkeys(order for key in entry.keys for _, order in key.tensors))
    types = list(dict.fromkeys(t for key in entry.keys for t, _ in key.tensors))
    for key in entry.keys:
        lines.append("    - arg_meta:")
        for name, (dtype, order) in zip(_names(entry.variant, key), key.tensors, strict=True):
            lines.append(f"        {name}: [T{types.index(dtype)}, D{orders.index(order)}]")
        lines.append(kernel)
    if entry.keys:
        lines += ["  type_alias:", *(f"    T{i}: [{TYPES[t]}]" for i, t in enumerate(types))]
        lines += ["  dim_order_alias:", *(f"    D{i}: {json.dumps(o)}" for i, o in enumerate(orders))]
    return "\n".join(lines) + "\n\n"


def _names(variant: OutVariant, key: KernelKey) -> Sequence[str]:
    """The names for a key's tensors: the schema's if the numbers match and sorting them keeps the key, else numbered ones."""
    given = [n for n, t in variant.arguments if plain_type(t)[0].startswith("Tensor")]
    names = [*given, *variant.outs, *(f"__ret_{i}" for i in range(len(variant.outs)))]
    if len(names) != len(key.tensors):
        names = [f"tensor_{i:02}" for i in range(len(key.tensors))]
    found = dict(zip(names, key.tensors, strict=True))
    if [found[n] for n in sorted(names)] == list(key.tensors):
        return names
    return [f"_{i:02}_{name}" for i, name in enumerate(names)]
