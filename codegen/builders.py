"""Generated builders: a function of a node view for each ATen target of an op, and the registry of all.

A builder mirrors the mapping: guard, then the op with its inputs, parameters, and outputs, in the
terms of opdb.runtime.forms.  Each family has a module with a function for each candidate and target; identical
functions are merged into one, with a name for each target.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from opdb.catalog.facts.signature import torch_schema
from opdb.codegen import emit_english, emit_python
from opdb.codegen.artifact import Artifact, all_specs, family_path, sorted_ops, spec_path
from opdb.codegen.constants import PACKAGE
from opdb.codegen.environment import python_string, render
from opdb.codegen.rules import module
from opdb.core.errors import OpdbError, Problem, SpecError
from opdb.runtime import arguments, per_channel, tensors
from opdb.runtime import forms as lowering
from opdb.runtime import windows as constants
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompileError, Param
from opdb.spec.family import Candidate
from opdb.spec.lang.analyze import atoms, free_names
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import DTYPE, TENSOR, TENSORS, Name, Node, is_enum, walk
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import (
    CompiledDecomposition,
    CompiledMapping,
    CompiledStep,
    Schema,
    compile_decomposition,
    compile_mapping,
    conjuncts,
    first_tensor,
    guarded,
    may_be_none,
    plain_type,
    read_by_ops,
    results_read,
    unaccounted,
)
from opdb.spec.model import TorchMapping

Form = CompiledMapping | CompiledDecomposition
Schemas = Callable[[str], Schema]
FOLDER = "generated/python/builders"
#: Functions that create a tensor; generated calls pass the tensor whose dtype they take.
MAKERS = tuple(f.name for f in FUNCTIONS.values() if f.params and set(f.params[-1]) == {TENSOR, DTYPE})
#: The modules of opdb.runtime that define the functions of torch mappings.
HOMES = (arguments, per_channel, constants, lowering, tensors)
#: Names that builders use themselves, besides the functions of the rule language.
OWN_NAMES = (
    frozenset({"all", "any", "map", "node", "given", "listed", "smallest", "largest", "same"})
    | {"chain", "lowered_op", "one_op", "require", "scalar", "tensor_param", "unused"}
    | set(emit_python.CHECKED.values())
    | {f.python for f in FUNCTIONS.values()}
)


@dataclass(frozen=True)
class Compiled:
    """A candidate compiled for one of its targets, and the place of its builder."""

    name: str
    form: Form
    module: str  # in opdb.generated.builders
    function: str
    avoids: tuple[str, ...] = ()  # errata

    @property
    def ops(self) -> tuple[str, ...]:
        steps = [self.form] if isinstance(self.form, CompiledMapping) else self.form.steps
        return tuple(dict.fromkeys(s.op.name for s in steps))


def of_op(catalog: Catalog, name: str, schemas: Schemas = torch_schema) -> list[Compiled]:
    """The mappings in an op's own spec, whose targets have no other candidate."""
    op = catalog.compiled(name)
    with _refused(spec_path(name)):
        made = [
            compile_mapping(op, t, m, torch_schema(t, m.signature) if m.signature else schemas(t))
            for t, m in op.definition.torch.items()
        ]
    return [Compiled(name, form, module(name), function_name(form.target)) for form in made]


def of_family(catalog: Catalog, name: str, schemas: Schemas = torch_schema) -> list[Compiled]:
    """The candidates of a family, one per target, in the order of the family; cached."""
    if schemas is torch_schema:
        return catalog.once(("candidates of", name), lambda: _of_family(catalog, name, schemas))
    return _of_family(catalog, name, schemas)


def _of_family(catalog: Catalog, name: str, schemas: Schemas) -> list[Compiled]:
    found = []
    with _refused(family_path(name)):
        for c in catalog.families[name].candidates:
            for target in c.torch:
                form = _compiled(catalog, c, target, schemas)
                found.append(Compiled(c.name, form, *_place(c, target), c.avoids))
    return found


def _compiled(catalog: Catalog, candidate: Candidate, target: str, schemas: Schemas) -> Form:
    definition = candidate.definition
    try:
        if isinstance(definition, TorchMapping):
            signature = definition.signature
            schema = torch_schema(target, signature) if signature else schemas(target)
            return compile_mapping(catalog.compiled(candidate.op or ""), target, definition, schema)
        ops = {s.op: catalog.compiled(s.op) for s in definition.ops if s.op in catalog.ops}
        return compile_decomposition(definition, target, ops, schemas(target))
    except CompileError as error:
        raise CompileError([candidate.fault(f) for f in error.faults]) from None


def candidates(catalog: Catalog, schemas: Schemas = torch_schema) -> dict[str, list[Compiled]]:
    """Maps each target to its candidates in the order of its family, or to its only mapping."""
    found: dict[str, list[Compiled]] = {}
    for name in sorted_ops(catalog):
        for made in of_op(catalog, name, schemas):
            found.setdefault(made.form.target, []).append(made)
    for name in catalog.families:
        for made in of_family(catalog, name, schemas):
            found.setdefault(made.form.target, []).append(made)
    return {target: found[target] for target in sorted(found)}


@contextmanager
def _refused(path: str) -> Iterator[None]:
    """Converts the faults of a mapping to faults of its file; ``opdb lint`` shows the line of each."""
    try:
        yield
    except CompileError as error:
        raise SpecError([Problem(path, 0, 0, f"{f.message} (opdb lint)") for f in error.faults]) from None


def python(catalog: Catalog, name: str) -> Iterable[Artifact]:
    """The module of one op; none if its spec has no mapping."""
    forms = [c.form for c in of_op(catalog, name)]
    open_ = [p for f in forms for p in unaccounted(f, f.schema)]
    if open_:
        raise SpecError([Problem(spec_path(name), 0, 0, p.message) for p in open_])
    if forms:
        functions = [(function_name(f.target), f) for f in forms]
        view = module_view(name, catalog.ops[name].summary or "", functions)
        yield Artifact(
            f"{FOLDER}/{module(name)}.py", render("builders.py.j2", **view), (spec_path(name),), "python"
        )


def python_family(catalog: Catalog, name: str) -> Iterable[Artifact]:
    """The module of one family."""
    made = of_family(catalog, name)
    open_ = [p for c in made for p in unaccounted(c.form, c.form.schema, shared=True)]
    if open_:
        raise SpecError([Problem(family_path(name), 0, 0, f"{p.message} (opdb lint)") for p in open_])
    path = (family_path(name), *map(spec_path, dict.fromkeys(op for c in made for op in c.ops)))
    view = module_view(name, catalog.families[name].summary, [(c.function, c.form) for c in made])
    yield Artifact(f"{FOLDER}/families/{name}.py", render("builders.py.j2", **view), path, "python")


def python_registry(catalog: Catalog) -> Iterable[Artifact]:
    """The registry of builders by target, from the definitions, without compiling anything."""
    targets: dict[str, list[tuple[str, tuple[str, ...], str, str, tuple[str, ...]]]] = {}
    for name in sorted_ops(catalog):
        for target in catalog.ops[name].torch:
            targets.setdefault(target, []).append((name, (name,), module(name), function_name(target), ()))
    for c in catalog.candidates:
        for target in c.torch:
            where = (c.name, c.ops, *_place(c, target), c.avoids)
            targets.setdefault(target, []).append(where)
    inputs = (*all_specs(catalog), *map(family_path, catalog.families))
    if catalog.families:
        text = render("builders_families.py.j2")
        yield Artifact(f"{FOLDER}/families/__init__.py", text, inputs, "python")
    text = render("builders_init.py.j2", targets={t: targets[t] for t in sorted(targets)})
    yield Artifact(f"{FOLDER}/__init__.py", text, inputs, "python")


def _place(c: Candidate, target: str) -> tuple[str, str]:
    """The module and function of a candidate's builder for one target."""
    return f"families.{c.family}", f"{module(c.name)}__{function_name(target)}"


def function_name(target: str) -> str:
    """The builder's name, e.g. aten.native_layer_norm.default -> aten_native_layer_norm, aten.add.Tensor -> aten_add_tensor."""
    return target.removesuffix(".default").replace(".", "_").replace("::", "_").lower()


def module_view(name: str, summary: str, forms: Iterable[tuple[str, Form]]) -> dict[str, Any]:
    """The view of ``builders.py.j2``: functions by name."""
    writers = [_Function(function, form) for function, form in forms]
    functions: list[dict[str, Any]] = []
    for w in writers:
        made = w.view()
        same = next((f for f in functions if all(f[key] == made[key] for key in made)), None)
        if same is None:
            functions.append(made | {"name": w.name, "targets": [w.form.target], "aliases": []})
        else:  # overloads are often built alike
            same["targets"] += [w.form.target] * (w.form.target not in same["targets"])
            same["aliases"].append(w.name)
    names = [w.name for w in writers]
    if len(set(names)) != len(names):
        raise OpdbError(f"{name}: two torch targets differ only in capitals: {', '.join(names)}")
    constants: dict[str, dict[str, int]] = {}
    for w in writers:
        for parameter, values in w.constants.items():
            constants.setdefault(parameter, {}).update(values)
    used = set().union(*(w.lowering for w in writers)) | {"Lowered", "NodeView"}
    checks = set().union(*(w.checks for w in writers))
    homes = {m.__name__: found for m in HOMES if (found := _defined(m, used))}
    if checks:
        homes["opdb.runtime.checks"] = sorted(checks, key=str.lower)
    return {
        "name": name,
        "summary": summary,
        "functions": functions,
        "constants": {p: sorted(v.items(), key=lambda item: item[1]) for p, v in sorted(constants.items())},
        "homes": dict(sorted(homes.items())),
    }


def _defined(module: ModuleType, names: set[str]) -> list[str]:
    """The ``names`` that ``module`` defines, in isort's order: classes first."""
    own = (n for n in names if getattr(getattr(module, n, None), "__module__", "") == module.__name__)
    return sorted(own, key=lambda n: (not n[0].isupper(), n))


def _rewritten(node: Node, change: Callable[[Node], Node]) -> Node:
    """``node`` with ``change`` applied to every part, innermost first."""
    value = node.value
    if node.kind == "comp":
        function, loops = value
        value = (
            function,
            tuple(
                replace(
                    p,
                    source=_rewritten(p.source, change),
                    conditions=tuple(_rewritten(c, change) for c in p.conditions),
                )
                for p in loops
            ),
        )
    return change(replace(node, args=tuple(_rewritten(a, change) for a in node.args), value=value))


def lets_of_ops(form: CompiledDecomposition) -> dict[str, Node]:
    """The named expressions that the ops read, and not only the guard, in which they stand for themselves."""
    found: dict[str, Node] = {}
    read = {name for node in read_by_ops(form) for name in free_names(node)}
    for name, node in reversed([*form.lets.items()]):
        if name in read:
            found[name] = node
            read |= set(free_names(node))
    return dict(reversed([*found.items()]))


class _Function:
    """The texts of one builder, and their imports."""

    def __init__(self, name: str, form: Form) -> None:
        self.name, self.form = name, form
        self.scope, self.given = form.scope, guarded(form.when)
        self.locals = {a.name: self._local(a.name) for a in form.schema.arguments}
        tensors = form.tensors if isinstance(form, CompiledDecomposition) else ()
        self.new = {t.name: t for t in tensors}
        steps = form.steps if isinstance(form, CompiledDecomposition) else ()
        inputs = [n for s in steps for group in (s.inputs, s.absent) for n in group.values()]
        self.read_later = {name for n in inputs for name in free_names(n)} & self.new.keys()
        self.read: set[str] = set()
        self.checks: set[str] = set()
        self.lowering: set[str] = set()
        self.constants: dict[str, dict[str, int]] = {}  # enum values by parameter: name -> number

    def _local(self, name: str) -> str:
        taken = name in OWN_NAMES or name in FUNCTIONS or keyword.iskeyword(name) or name in self.scope.enums
        return f"{name}_" if taken else name

    # -- expressions

    def text(self, node: Node, given: Iterable[str] = (), like: Node | None = None, at_least: int = 0) -> str:
        """The Python text of ``node``; ``given``: optional arguments that are not None here."""
        self.read |= set(free_names(node))
        names: dict[str, Name] = {}
        for name, known in self.scope.names.items():
            sure = name in self.given or name in given
            names[self.locals.get(name, name)] = replace(known, optional=False) if sure else known

        def change(n: Node) -> Node:
            if n.kind == "index" and n.args[0].value == "node.results()" and n.args[1].kind == "const":
                return Node("name", TENSOR, value=f"node.result({n.args[1].value})")
            if n.kind == "name":
                spelled = {"result": "node.result(0)", "results": "node.results()"}.get(n.value)
                return replace(n, value=spelled or self.locals.get(n.value, n.value))
            if n.kind == "call" and n.value in MAKERS and len(n.args) < len(FUNCTIONS[n.value].params):
                kind = like or Node("name", TENSOR, value="result")
                return replace(n, args=(*n.args, change(kind)))
            return n

        changed = _rewritten(node, change)
        self.checks |= emit_python.helpers([changed], names)
        called = (FUNCTIONS[n.value] for n in walk(changed) if n.kind == "call")
        self.lowering |= {f.python for f in called if f.torch} - {"float"}
        return emit_python.expression(changed, names, at_least)

    def _require(self, condition: Node, sentence: str, sure: set[str]) -> dict[str, Any]:
        """A check of the guard.  ``sure``: optional arguments that are not None even if ``condition`` fails."""
        self.lowering.add("require")
        got = []
        for atom in atoms(condition):
            name = atom.args[0].value if atom.kind == "attr" else atom.value
            known = self.scope.names.get(name)
            if known is not None and known.optional and name not in sure and atom.kind == "attr":
                continue
            got.append((python_string(to_text(atom)), self.text(atom, [name])))
        return {"holds": self.text(condition), "sentence": python_string(sentence), "got": got}

    def _requires(self) -> list[dict[str, Any]]:
        form = self.form
        why = form.why if isinstance(form, CompiledMapping) else form.definition.why
        if form.when is None:
            return []
        if why:
            return [self._require(form.when, why.rstrip("."), set())]
        given, self.given = self.given, set()  # narrowed condition by condition
        out = []
        for part in conjuncts(form.when):
            out.append(self._require(part, emit_english.sentence(part), self.given))
            self.given |= guarded(part)
        self.given = given
        return out

    # -- ops

    def _input(self, slot: str, step: CompiledMapping | CompiledStep, like: Node) -> str:
        node = step.inputs[slot]
        missing = may_be_none(node, self.scope, self.given)
        text = self.text(node, missing, like, at_least=1)
        if not missing or (node.kind == "name" and slot not in step.absent):
            return text
        made = self.text(step.absent[slot], missing, like, at_least=1) if slot in step.absent else "None"
        return f"{made} if {self._none(missing)} else {text}"

    def _none(self, names: Iterable[str]) -> str:
        return " or ".join(f"{self.locals.get(n, n)} is None" for n in names)

    def _param(self, op: str, param: Param, node: Node) -> str:
        for n in walk(node):
            if n.kind == "const" and is_enum(n.type):
                self.constants.setdefault(f"{op}.{param.name}", {})[n.value] = param.definition.enum[n.value]
        missing = may_be_none(node, self.scope, self.given)
        maker = "tensor_param" if param.definition.dims else "scalar"
        self.lowering.add(maker)
        name, dtype = python_string(param.name), python_string(param.definition.base)
        text = f"{maker}({name}, {dtype}, {self.text(node, missing)})"
        return f"None if {self._none(missing)} else {text}" if missing else text

    def _like(self, step: CompiledMapping | CompiledStep) -> Node:
        """The tensor whose dtype new tensors take: the first one that an input reads."""
        for name in (name for node in step.inputs.values() for name in free_names(node)):
            known = self.scope.names.get(name)
            if known is not None and known.type in (TENSOR, TENSORS):
                return first_tensor(name, self.scope)
        return Node("name", TENSOR, value="result")

    def _op(self, step: CompiledMapping | CompiledStep) -> dict[str, Any]:
        like = self._like(step)
        params = {p.name: p for p in step.op.params}
        slots = [s.name for s in step.op.inputs]
        while slots and slots[-1] not in step.inputs:
            slots.pop()
        return {
            "op": step.op.name,
            "package": None if (package := step.op.definition.package) == PACKAGE else package,
            "inputs": {s: self._input(s, step, like) if s in step.inputs else "None" for s in slots},
            "params": [self._param(step.op.name, params[p], node) for p, node in step.params.items()],
            "outputs": {slot: self._output(node) for slot, node in step.outputs.items()},
            "makes": self._makes(step),
        }

    def _makes(self, step: CompiledMapping | CompiledStep) -> list[str]:
        """The new tensors of a step, with _ for unread ones; empty if none is read."""
        made = [n.value for n in step.outputs.values() if n.kind == "name" and n.value in self.new]
        return [n if n in self.read_later else "_" for n in made] if self.read_later & {*made} else []

    def _output(self, node: Node) -> str:
        made = self.new.get(node.value) if node.kind == "name" else None
        if made is None:
            return self.text(node)
        shape = "" if made.shape is None else f", {self.text(made.shape)}"
        return f"New({python_string(made.name)}, {self.text(made.like)}{shape})"

    def _dropped(self, steps: Iterable[CompiledMapping | CompiledStep]) -> list[int]:
        """The indices of the results that no op produces."""
        read = results_read([n for s in steps for n in s.outputs.values()])
        returns = self.form.schema.returns
        if read is None or any(plain_type(r)[0] != TENSOR.capitalize() for r in returns):
            return []
        return [i for i in range(len(returns)) if i not in read]

    def view(self) -> dict[str, Any]:
        """The function's view for the template, without name and target."""
        form = self.form
        several = form if isinstance(form, CompiledDecomposition) else None
        steps: list[CompiledMapping | CompiledStep] = (
            [form] if isinstance(form, CompiledMapping) else [*form.steps]
        )
        requires = self._requires()
        dropped = self._dropped(steps)
        self.lowering |= {"Chain", "New"} if self.new else {"lowered_op"} if several else {"one_op"}
        self.lowering |= {"unused"} if dropped else set()
        lets = {n: self.text(node) for n, node in lets_of_ops(several).items()} if several else {}
        ops = [self._op(s) for s in steps]
        return {
            "decomposition": several.name if several else None,
            "requires": requires,
            "dropped": dropped,
            "lets": lets,
            "chain": bool(self.new),
            "ops": ops,
            "arguments": [
                (self.locals[a.name], a.name) for a in form.schema.arguments if a.name in self.read
            ],
        }
