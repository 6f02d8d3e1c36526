"""Compiles a definition to its typed form: binds names, parses expressions, derives rules; every fault has its place."""

from __future__ import annotations

import re
from collections.abc import Mapping

from opdb.core import quant_rules
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean
from opdb.core.quant_rules import QuantRules
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Need
from opdb.spec.definitions import BOUND, UNKNOWN, CompiledOp, CompiledRule, CompileError, Param, Slot, TypeRow
from opdb.spec.each import each_of
from opdb.spec.fields import RESERVED
from opdb.spec.lang.nodes import BOOL, FLOAT, INT, INTS, ROWS, STR, TENSOR, TENSORS, Name, Node, Scope
from opdb.spec.model import Configuration, KernelDef, OpDef, ParamDef, Rule, Unchecked
from opdb.spec.shape_rules import KNOWN, ShapeRules, is_shape
from opdb.spec.spelling import no_type

RANGES = {"u8": (0, 255), "u16": (0, 65535), "u32": (0, 2**32 - 1), "i8": (-128, 127), "i16": (-32768, 32767),
          "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1), "u64": (0, 2**63 - 1)}  # fmt: skip


def compile_op(
    op: OpDef,
    context: Mapping[str, Mapping[str, str]] | None = None,
    needs: Mapping[str, Mapping[str, Need]] | None = None,
) -> CompiledOp:
    """Compiles ``op``.  ``context``: the other names each backend's rules may read (arch: u32).  ``needs``: the
    needs of each backend's type rows, by the first word of their configuration (FP16).

    Raises CompileError with every fault found.
    """
    return _Compiler(op, context or {}, needs or {}).run()


def backend_scope(scope: Scope, context: Mapping[str, str]) -> Scope:
    """The scope of an op extended by the target's names that a backend's rules may read."""
    read = {k: Name(BOOL) if t == "bool8" else Name(INT, RANGES[t]) for k, t in context.items()}
    return scope.with_names(read | {"sdk": Name(INT, (0, 2**31 - 1))})


def param_type(name: str, definition: ParamDef) -> str:
    """The rule-language type of a parameter."""
    if definition.enum:
        return f"enum:{name}"
    base, dims = definition.base, definition.dims
    if dims:
        return INTS if len(dims) == 1 else ROWS
    if base.startswith(("f", "bf")):
        return FLOAT
    return {"bool8": BOOL, "str": STR}.get(base, INT)


def _literal(definition: ParamDef) -> bool:
    """True if the default is a number, boolean, enum value, or list of these."""
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\d\.?\d*e[-+]?\d+", "", definition.default or "?")))
    return definition.default is not None and words <= {*definition.enum, "true", "false"}


class _Compiler(ShapeRules):
    def run(self) -> CompiledOp:
        slots = self._slots()
        raw_params = self._params()
        self._bind_symbols()
        params = self._defaults(raw_params)
        lets = self._lets()
        derived = self._derived_rules(slots)
        inferences = self._inferences()
        rules = (*derived, *self._written_rules(self.op.constraints, ("constraints",), None, self.scope))
        backend_rules, type_rows = {}, {}
        for name, backend in self.op.backends.items():
            scope = backend_scope(self.scope, self.context.get(name, {}))
            at: tuple[str | int, ...] = ("backends", name, "constraints")
            backend_rules[name] = self._written_rules(backend.constraints, at, name, scope)
            type_rows[name] = self._type_rows(name)
        self._unchecked((*self.ranks, *rules), backend_rules)
        tolerance = {}
        for dtype, t in self.op.tolerance.items():
            node = self.parse(t.ulp, ("tolerance", dtype, "ulp"), INT)
            if node is not None:
                tolerance[dtype] = node
        self._samples()
        quant = self._quant(params)
        each, faults = each_of(self.op)
        self.faults.extend(faults)
        scratch = self._kernel()
        if self.faults:
            raise CompileError(self.faults)
        return CompiledOp(self.op, slots, params, self.scope, tuple(self.ranks), tuple(self.binds), lets, rules,
                          backend_rules, type_rows, inferences, tolerance, quant, each, scratch)  # fmt: skip

    def _kernel(self) -> Node | None:
        """The kernel's scratch bytes; adds a fault for each unknown argument."""
        kernel = self.op.kernel
        if kernel is None:
            return None
        known = [*self.op.inputs, *self.op.params, *self.op.let, *self.op.outputs]
        for i, name in enumerate(kernel.arguments or ()):
            if name not in known:
                hint = did_you_mean(name, known)
                self.fault(
                    ("kernel", "arguments", i),
                    f"'{name}' is no input, parameter, output or name of let{hint}",
                )
        self._tiling(kernel)
        return None if kernel.scratch is None else self.parse(kernel.scratch, ("kernel", "scratch"), INT)

    def _tiling(self, kernel: KernelDef) -> None:
        if kernel.tiling is None:
            return
        if len(self.op.outputs) != 1 or next(iter(self.op.outputs.values())).variadic:
            self.fault(("kernel", "tiling"), "an op that runs in tiles has one output")
        for name in kernel.tiling.inputs:
            slot = self.op.inputs.get(name)
            if slot is None:
                hint = did_you_mean(name, self.op.inputs)
                self.fault(("kernel", "tiling", "inputs", name), f"'{name}' is no input of the op{hint}")
            elif slot.variadic:
                self.fault(
                    ("kernel", "tiling", "inputs", name), f"'{name}' is variadic: its tensors are read whole"
                )

    def _slots(self) -> tuple[Slot, ...]:
        slots = []
        for group, output in ((self.op.inputs, False), (self.op.outputs, True)):
            for position, (name, d) in enumerate(group.items()):
                at = ("outputs" if output else "inputs", name)
                self.new_name(
                    name, Name(TENSORS if d.variadic else TENSOR, None, d.optional and not d.variadic), at
                )
                slots.append(Slot(name, d, output, position))
        if not self.op.outputs and not any(p.base == "str" for p in self.op.params.values()):
            self.fault(("outputs",), "an op has at least one output, or a str parameter that names a graph")
        return tuple(slots)

    def _params(self) -> list[tuple[str, ParamDef, str]]:
        out = []
        for name, d in self.op.params.items():
            type_ = param_type(name, d)
            optional, sure = d.optional or d.default is not None, _literal(d)
            self.new_name(name, Name(type_, RANGES.get(d.base), optional, sure, param=True), ("params", name))
            tables = {n.upper() for n, known in self.op.params.items() if known.enum}
            for value, number in d.enum.items():
                if self.enums.get(value, (name, number)) != (name, number):
                    self.fault(
                        ("params", name), f"the enum value '{value}' is also one of '{self.enums[value][0]}'"
                    )
                if value in self.names or value in KNOWN or value in RESERVED or value in tables:
                    self.fault(("params", name), f"the enum value '{value}' already has a meaning")
                self.enums[value] = (name, number)
            out.append((name, d, type_))
        return out

    def _defaults(self, raw: list[tuple[str, ParamDef, str]]) -> tuple[Param, ...]:
        params = []
        for name, d, type_ in raw:
            default = None
            if d.default is not None:
                default = self.parse(
                    d.default, ("params", name, "type"), type_, shift=d.type.rindex(d.default)
                )
            params.append(Param(name, d, type_, default))
        return tuple(params)

    def _lets(self) -> tuple[tuple[str, Node], ...]:
        out = []
        for name, text in self.op.let.items():
            node = self.parse(text, ("let", name), (INT, INTS, FLOAT, BOOL))
            if node is not None:
                self.new_name(name, Name(node.type, node.range, let=True), ("let", name))
                out.append((name, node))
        return tuple(out)

    # -- rules from shapes

    def _written_rules(
        self, rules: Mapping[str, Rule], at: tuple[str | int, ...], backend: str | None, scope: Scope
    ) -> tuple[CompiledRule, ...]:
        out = []
        for ident, rule in rules.items():
            require = self.parse(rule.expression, (*at, ident, rule.strength), BOOL, scope)
            when = self.parse(rule.when, (*at, ident, "when"), BOOL, scope) if rule.when is not None else None
            if require is not None:
                out.append(
                    CompiledRule(
                        ident,
                        require,
                        when,
                        rule.strength,
                        rule.why,
                        rule.source,
                        backend,
                        rule.expression,
                    )
                )
        return tuple(out)

    def _type_rows(self, backend: str) -> tuple[TypeRow, ...]:
        rows = []
        part = self.op.backends[backend]
        for config in part.configurations:
            if config not in part.dtypes:
                self.fault(
                    ("backends", backend, "configurations", config),
                    "no configuration of 'dtypes' has this name",
                )
        for config, group in part.dtypes.items():
            origin = part.configurations.get(config, Configuration())
            for number, row in enumerate(group, 1):
                at: tuple[str | int, ...] = ("backends", backend, "dtypes", config, number - 1)
                for slot, cell in row.items():
                    if slot not in self.op.slots:
                        self.fault(
                            (*at, slot), f"no input or output '{slot}'; known: {', '.join(self.op.slots)}"
                        )
                    for dtype in cell:
                        if dtype not in BY_SHORT:
                            self.fault((*at, slot), no_type(dtype))
                for slot in self.op.slots:
                    if slot not in row:
                        self.fault(at, f"the row has no cell for '{slot}'")
                cells = {s: tuple(row.get(s, ())) for s in self.op.slots}
                ends = (origin.since or part.since, origin.until or part.until)
                source = origin.source or part.source
                need = self.needs.get(backend, {}).get(config.partition("_")[0])
                rows.append(TypeRow(f"{backend}.{config}.{number}", cells, *ends, source, need))
        return tuple(rows)

    def _unchecked(
        self, own: tuple[CompiledRule, ...], of_backends: Mapping[str, tuple[CompiledRule, ...]]
    ) -> None:
        """Checks the ``unchecked`` entries of the backends."""
        known = {i: rule.expect is not None for i, rule in self.op.constraints.items()}
        known |= {r.id: r.strength != "require" for r in own} | {UNKNOWN: False}
        theirs = {r.id: name for name, rules in of_backends.items() for r in rules}
        theirs |= {f"TYPES_{name}": name for name in self.op.backends}
        for name, backend in self.op.backends.items():
            for ident, entry in backend.unchecked.items():
                at: tuple[str | int, ...] = ("backends", name, "unchecked", ident)
                if ident in theirs:
                    cure = (
                        "delete that instead" if theirs[ident] == name else "only rules of the op stand here"
                    )
                    self.fault((*at, "__key__"), f"'{ident}' is a rule of {theirs[ident]}; {cure}")
                elif ident in BOUND:
                    self.fault((*at, "__key__"), f"without {ident} no rule can be judged, so it is required")
                elif known.get(ident):
                    self.fault((*at, "__key__"), f"'{ident}' is a warning for every backend; delete it here")
                elif ident not in known and not ("_" in ident and self._unread()):
                    hint = did_you_mean(ident, known, f"known: {', '.join(known) or 'none'}")
                    self.fault((*at, "__key__"), f"no rule '{ident}' of the op{hint}")
                self._sdks(entry, at)

    def _unread(self) -> bool:
        """True if a slot could not be read, so that some derived rules are unknown."""
        return any(f.at[0] in ("inputs", "outputs") for f in self.faults)

    def _sdks(self, entry: Unchecked, at: tuple[str | int, ...]) -> None:
        numbers = []
        for end, version in (("since", entry.since), ("until", entry.until)):
            try:
                numbers += [] if version is None else [sdk_number(version)]
            except OpdbError as error:
                self.fault((*at, end), str(error))
        if len(numbers) == 2 and numbers[1] < numbers[0]:
            self.fault((*at, "until"), f"the SDK {entry.until} comes before {entry.since}")

    def _quant(self, params: tuple[Param, ...]) -> QuantRules:
        enums = {p.name: p.definition.enum for p in params if p.definition.enum and p.required}

        def fault(at: tuple[str | int, ...], message: str) -> None:
            self.fault(("quant", *at), message)

        return quant_rules.read(self.op.quant, list(self.op.inputs), list(self.op.outputs), enums, fault)

    def _samples(self) -> None:
        known = {*self.op.inputs, *self.op.params, *self.op.outputs}
        for i, sample in enumerate(self.op.samples):
            for name in sample:
                if name not in known:
                    self.fault(
                        ("samples", i, name),
                        f"no input or parameter '{name}'; known: {', '.join(sorted(known))}",
                    )
                elif name in self.op.slots and not is_shape(sample[name], self.op.slots[name].variadic):
                    example = "[[2, 3], [2, 4]]" if self.op.slots[name].variadic else "[2, 3]"
                    self.fault(("samples", i, name), f"the sample of a tensor is its shape; e.g. {example}")
