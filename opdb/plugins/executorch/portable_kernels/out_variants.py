"""Out variants that can be kernels: of ATen operators that a spec maps, and of ``torch.ops.qnn``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from opdb.catalog.facts.signature import read_signature, torch_schema
from opdb.codegen import builders
from opdb.core.errors import MissingExtra, OpdbError
from opdb.plugins.executorch.codegen import glue
from opdb.plugins.executorch.codegen.glue import KernelForm, NoForm, OutVariant
from opdb.spec.catalog import Catalog
from opdb.spec.mapping import CompiledMapping, plain_type

LIBRARY = "qnn"


def out_variant(target: str) -> OutVariant | None:
    """The out variant for a functional ATen target in a .pte; None if ATen has none."""
    torch = _torch()
    library, name, _ = target.split(".")
    packet = getattr(getattr(torch.ops, library), name, None)
    own = [(a.name, plain_type(a.type)) for a in torch_schema(target).arguments]
    for overload in () if packet is None else packet.overloads():
        schema = getattr(packet, overload)._schema
        if not schema.returns or sum(a.is_out for a in schema.arguments) != len(schema.returns):
            continue
        text = str(schema)
        arguments = read_signature(f"{library}.{name}.{overload}", text).arguments
        outs = [a.name for a in arguments if "!" in a.type]
        given = [(a.name, a.type) for a in arguments if "!" not in a.type]
        if [(n, plain_type(t)) for n, t in given] == own:
            return OutVariant(f"{library}::{name}.{overload}", text, target, tuple(given), tuple(outs))
    return None


def custom_variant(op: str) -> OutVariant | None:
    """The out variant of ``torch.ops.qnn.<op>``; None for an op without a torch operator."""
    from opdb.generated.torch_ops import SCHEMAS

    text = SCHEMAS.get(op)
    if text is None or "Tensor[]" in text.rpartition("->")[2]:
        return None
    given = read_signature(f"{LIBRARY}.{op}.default", text).arguments
    count = text.rpartition("->")[2].count("Tensor")
    outs = ("out",) if count == 1 else tuple(f"out{i}" for i in range(count))
    marked = [f"Tensor({chr(ord('a') + i)}!)" for i in range(count)]
    head = text.rpartition(") ->")[0].replace('"', "'").replace(f"{op}(", f"{LIBRARY}::{op}.out(", 1)
    returns = marked[0] if count == 1 else f"({', '.join(marked)})"
    schema = ", ".join([head, *(f"{m} {n}" for m, n in zip(marked, outs, strict=True))]) + f") -> {returns}"
    arguments = tuple((a.name, a.type) for a in given)
    return OutVariant(f"{LIBRARY}::{op}.out", schema, f"{LIBRARY}.{op}.default", arguments, outs)


def define_out_variants() -> Any:
    """Registers the out variants of ``torch.ops.qnn.*`` with PyTorch, which ``to_executorch`` needs.

    Returns the library that defines them: they disappear with it.
    """
    import opdb.programs.torch_ops  # noqa: F401  the functional ones
    from opdb.generated.torch_ops import SCHEMAS

    return _defined(tuple(v.schema for op in SCHEMAS if (v := custom_variant(op)) is not None))


@cache
def _defined(schemas: tuple[str, ...]) -> Any:
    library = _torch().library.Library(LIBRARY, "FRAGMENT")
    for schema in schemas:
        library.define(schema.removeprefix(f"{LIBRARY}::"))
    return library


class Kernels:
    """The possible kernels: forms by out variant, computed on demand."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._mappings: dict[str, list[CompiledMapping]] = {}
        for target, found in builders.candidates(catalog).items():
            direct = [c.form for c in found if isinstance(c.form, CompiledMapping)]
            if direct:
                self._mappings[target] = direct

    def targets(self) -> list[str]:
        """The ATen targets that a spec maps."""
        return sorted(t for t in self._mappings if t.startswith("aten."))

    def mappings(self, target: str, forms: Iterable[KernelForm]) -> list[CompiledMapping]:
        """The mappings of ``target`` behind ``forms``."""
        ops = {f.op for f in forms}
        return [m for m in self._mappings.get(target, ()) if m.op.name in ops]

    def variants(self) -> dict[str, OutVariant]:
        """The out variants of the mapped targets that have one, by name."""
        found = {v.name: v for target in self.targets() if (v := out_variant(target)) is not None}
        return dict(sorted(found.items()))

    def every(self) -> list[OutVariant]:
        """The out variants of ATen operators that a spec maps, and of the ops of QNN."""
        own = (custom_variant(op) for op in sorted(self.catalog.ops))
        return [*self.variants().values(), *(v for v in own if v is not None)]

    def variant(self, word: str) -> OutVariant:
        """``aten::gelu.out``, or an op of QNN: ``Gelu``, ``qnn::Gelu.out``.  Raises OpdbError for an unknown one."""
        if word.startswith("aten::"):
            known = self.variants()
            if word in known:
                return known[word]
            raise OpdbError(
                f"{word}: no spec maps an operator with this out variant; --list shows what there is"
            )
        op = word.removeprefix(f"{LIBRARY}::").removesuffix(".out")
        variant = custom_variant(op) if op in self.catalog.ops else None
        if variant is None:
            raise OpdbError(
                f"{word}: neither an out variant of ATen (aten::gelu.out) nor an op of QNN that has one"
            )
        return variant

    def forms(self, variant: OutVariant) -> tuple[KernelForm, ...]:
        """The forms of an out variant.  Raises NoForm."""
        if not variant.name.startswith("aten::"):
            op = self.catalog.compiled(variant.target.split(".")[1])
            if op.definition.kernel is None:
                raise NoForm(f"{op.name} needs a kernel")
            return glue.forms(variant, (), op)
        return glue.forms(variant, self._mappings.get(variant.target, []))


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("PyTorch", "torch") from None
    return torch
