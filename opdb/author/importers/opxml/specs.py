"""Turns specs into a ``Collection``, as far as an OpDef collection can express them.

Rules become constraints of the first tensor or parameter that they name, in the notation of specs, ``WHEN => RULE``;
a rule that is only expected starts with EXPECTED.  The numbers of a backend's rules start at BACKEND_RULES, so that
none collides with a rule of the op.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from opdb.author.importers.opxml.collection import LAYOUTS, Collection, Constraint, OpXml, Supplement, Tensor
from opdb.catalog import facts
from opdb.core.errors import OpdbError
from opdb.spec.model import BackendDef, OpDef, ParamDef, Rule, TensorDef

BACKEND_RULES = 1000
EXPECTED = "expected: "
NATIVE = "qti.aisw"


def collection(
    ops: Sequence[OpDef], package: str | None = None, domain: str = "aisw", version: str = "1.0"
) -> Collection:
    """The collection of ``ops`` (with their bases merged in).

    Raises OpdbError for ops of several packages or of QNN's own without ``package``; a package that is not a C name;
    an op without inputs.
    """
    name = package or _package_of(ops)
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise OpdbError(f"--package {name}: not a name in C; the package's functions are named after it")
    for op in ops:
        if not op.inputs:
            raise OpdbError(f"{op.op}: has no inputs; the XML asks for at least one")
    backends = dict.fromkeys(b for op in ops for b in op.backends)
    return Collection(
        name, domain, version, tuple(map(_op, ops)), tuple(_supplement(b, ops) for b in backends)
    )


def _package_of(ops: Sequence[OpDef]) -> str:
    names = sorted({op.package for op in ops})
    if len(names) > 1 or names == [NATIVE]:
        raise OpdbError(
            f"ops of {', '.join(names)}: name the package of your own that they go into with --package"
        )
    return names[0]


def _op(op: OpDef) -> OpXml:
    tensors = [_tensor("Input", n, t) for n, t in op.inputs.items()]
    tensors += [_tensor("Output", n, t) for n, t in op.outputs.items()]
    tensors += [_param(n, p) for n, p in op.params.items()]
    return OpXml(
        op.op,
        tuple(_constrained(tensors, _numbered(op.constraints, 0))),
        op.summary,
        tuple(f"{name} = {text}" for name, text in op.let.items()),
        ((op.source, ""),) if op.source else (),
        op.op in facts.documented_ops(),
        tuple(op.backends),
    )


def _tensor(role: str, name: str, t: TensorDef) -> Tensor:
    shape = t.shape
    text = f"[{', '.join(shape)}]" if isinstance(shape, list) else shape
    if t.index is not None:
        text = f"{name}[{t.index}]: {text}"
    dims = split(text[1:-1]) if isinstance(shape, list) and text else ["..."]
    rank = f"{len(dims)}D" if len(dims) < 5 and not any("..." in d for d in dims) else "ND"
    count = []
    if t.variadic and t.min != 1:
        count.append(Constraint(0, "Number", f"len({name}) >= {t.min}"))
    if t.count is not None:
        count.append(Constraint(0, "Number", f"len({name}) == {t.count}"))
    return Tensor(
        role, name, not t.optional, tuple(t.dtype), "SCALAR" if rank == "0D" else rank,
        t.layout if t.layout in LAYOUTS else None, text, t.doc,
        repeated=t.variadic, static=t.static, constraints=tuple(count),
    )  # fmt: skip


def _param(name: str, p: ParamDef) -> Tensor:
    rank = f"{len(p.dims)}D" if p.dims else "SCALAR"
    text = f"[{', '.join('_' if d is None else str(d) for d in p.dims)}]" if p.dims else None
    mandatory = p.default is None and not p.optional
    return Tensor(
        "Parameter", name, mandatory, (p.base,), rank, None, text, p.doc, default=_default(p),
        enum=tuple(sorted(p.enum, key=p.enum.__getitem__)),
    )  # fmt: skip


def _default(p: ParamDef) -> str | None:
    if p.default in ("true", "false"):
        return str(int(p.default == "true"))
    if p.default in p.enum:
        return str(sorted(p.enum.values()).index(p.enum[p.default]))
    return p.default


def _numbered(rules: dict[str, Rule], offset: int) -> list[Constraint]:
    """Constraints in numerical order: C3 -> 3, H2 -> 1002 with the backend's offset."""
    out = []
    for ident, rule in rules.items():
        text = f"{rule.when} => {rule.expression}" if rule.when is not None else rule.expression
        expected = rule.require is None
        number = int(re.sub(r"\D", "", ident) or 0)
        kind = "Description" if expected else _kind(rule.expression)
        out.append(Constraint(offset + number, kind, (EXPECTED if expected else "") + text))
    return sorted(out, key=lambda c: c.number)


def _kind(text: str) -> str:
    if ".dtype" in text:
        return "Datatype"
    return "Shape" if re.search(r"\.(rank|shape)\b|\bbroadcastable\b", text) else "Value"


def _constrained(tensors: Sequence[Tensor], rules: Sequence[Constraint]) -> list[Tensor]:
    """Adds each rule to the first tensor that it names, or to the very first if it names none."""
    names = [t.name for t in tensors]
    at: dict[str, list[Constraint]] = {name: [] for name in names}
    for rule in rules:
        read = re.findall(r"[A-Za-z_]\w*", rule.text)
        at[next((word for word in read if word in at), names[0])].append(rule)
    return [replace(t, constraints=t.constraints + tuple(at[t.name])) for t in tensors]


def _supplement(backend: str, ops: Sequence[OpDef]) -> Supplement:
    having = [op for op in ops if backend in op.backends]
    tensors = {op.op: _differing(op, op.backends[backend]) for op in having}
    return Supplement(backend, tuple(op.op for op in having), {n: t for n, t in tensors.items() if t})


def _differing(op: OpDef, part: BackendDef) -> tuple[Tensor, ...]:
    """The tensors and parameters of an op for which the backend has types, rules, or only the default."""
    tensors = []
    for role, slots in (("Input", op.inputs), ("Output", op.outputs)):
        for name in slots:
            cells = [d for rows in part.dtypes.values() for row in rows for d in row.get(name, ())]
            tensors.append(Tensor(role, name, dtypes=tuple(dict.fromkeys(cells))))
    for name, p in op.params.items():
        only = any(
            rule.when is None and rule.require in (f"not present({name})", f"{name} == {p.default}")
            for rule in part.constraints.values()
        )
        tensors.append(
            Tensor("Parameter", name, only_default=only and not (p.default is None and not p.optional))
        )
    found = _constrained(tensors, _numbered(part.constraints, BACKEND_RULES))
    return tuple(t for t in found if t.dtypes or t.constraints or t.only_default)


def split(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts] if text.strip() else []
