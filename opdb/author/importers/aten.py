"""Maps an ATen schema to a QNN op, by the names and contents of arguments and parameters.

Nothing here is specific to an op: an argument finds its slot or parameter by name, by a synonym, or by a common
form (``dim`` for an axis, ``normalized_shape`` for trailing axes).  The rest become guards if QNN implements
one value of the argument, ignored arguments if they do not change the result, or words.
"""

from __future__ import annotations

from typing import Any

from opdb.catalog.facts import AtenArgument, AtenSchema
from opdb.spec.mapping import plain_type
from opdb.spec.model import OpDef

#: ATen's name of a tensor -> possible slots; the first one in the op is used.
TENSORS = {
    "self": ("x", "a"), "input": ("x", "a"), "mat1": ("a", "x"), "mat2": ("b", "weight"), "other": ("b",),
    "exponent": ("b",), "tensors": ("xs",), "weight": ("weight", "filter", "gamma", "coeff"),
    "bias": ("bias", "beta"), "index": ("indices",), "grid": ("grid",), "condition": ("condition",),
    "src": ("updates",), "running_mean": ("mean",), "running_var": ("variance",),
}  # fmt: skip
#: A slot's layout -> the positions of its dims in PyTorch's order (N, C, spatial; out, in, spatial).
ORDERS = {
    "NHWC": [0, 2, 3, 1], "NDHWC": [0, 2, 3, 4, 1], "HWIO": [2, 3, 1, 0], "DHWIO": [2, 3, 4, 1, 0],
}  # fmt: skip
#: ATen's name of a value -> the parameter.
VALUES = {
    "eps": "epsilon", "keepdim": "keep_dims", "groups": "group", "min_val": "min_value",
    "max_val": "max_value", "min": "min_value", "max": "max_value", "negative_slope": "alpha",
}  # fmt: skip
#: Arguments that choose how PyTorch computes, not the result.
IGNORED = {
    "cudnn_enable": "Selects a PyTorch implementation; same result.",
    "cudnn_enabled": "Selects a PyTorch implementation; same result.",
    "sparse_grad": "Of the backward pass.",
    "scale_grad_by_freq": "Of the backward pass.",
    "sparse": "Of the backward pass.",
    "size": "The result has it.",
    "output_padding": "Only a transposed convolution reads it.",
}
#: Arguments of which QNN implements one value; the guard, and the reason.
GUARDS = {
    "alpha": ("{0} == 1.0", "QNN does not scale the second operand."),
    "scale": ("{0} == 1.0", "QNN does not scale the result."),
    "input_scale": ("{0} == 1.0", "QNN does not scale the input."),
    "half_to_float": ("not {0}", "half_to_float must be false: the result has the type of the input."),
    "dtype": (
        "not present({0})",
        "dtype must be left out or be the type of the input: a conversion takes a second op.",
    ),
    "approximate": ('{0} == "none"', "QNN has the exact function only."),
    "transposed": ("not {0}", "A transposed convolution is another op."),
}


def mapping(op: OpDef, schema: AtenSchema) -> tuple[dict[str, Any], list[str]]:
    """One entry of ``torch`` as YAML data, and the arguments that it does not cover."""
    draft = _Draft(op, schema)
    for argument in schema.arguments:
        if not draft.tensor(argument) and not draft.value(argument):
            draft.rest(argument)
    draft.stand_ins()
    outputs = list(op.outputs)
    lists = any(plain_type(r)[0] == "Tensor[]" for r in schema.returns)
    results: dict[str, Any] = {
        o: "results" if op.outputs[o].variadic or lists else i for i, o in enumerate(outputs)
    }
    layout = op.outputs[outputs[0]].layout
    if layout in ORDERS:
        results[outputs[0]] = f"permute(result, {ORDERS[layout]})"
    out = {
        "when": " and ".join(draft.guards) or None,
        "why": " ".join(dict.fromkeys(draft.reasons)) or None,
        "inputs": {s: draft.inputs[s] for s in op.inputs if s in draft.inputs},
        "absent": draft.absent,
        "params": {p: draft.params[p] for p in op.params if p in draft.params},
        "outputs": results,
        "ignored": draft.ignored,
    }
    return {k: v for k, v in out.items() if v not in (None, {})}, draft.words


class _Draft:
    def __init__(self, op: OpDef, schema: AtenSchema) -> None:
        self.op, self.schema = op, schema
        self.main = next((a.name for a in schema.arguments if a.type.startswith("Tensor")), "self")
        self.rank = f"{self.main}[0].rank" if schema.arguments[0].type == "Tensor[]" else f"{self.main}.rank"
        self.inputs: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        self.params: dict[str, str] = {}
        self.ignored: dict[str, str] = {}
        self.guards: list[str] = []
        self.reasons: list[str] = []
        self.words: list[str] = []

    def tensor(self, argument: AtenArgument) -> bool:
        """Assigns a tensor argument to the slot with its name or synonym; returns True if there is one."""
        if not argument.type.startswith("Tensor"):
            return False
        free = [s for s in self.op.inputs if s not in self.inputs]
        for slot in (argument.name, *TENSORS.get(argument.name, ())):
            if slot in free and self.op.inputs[slot].variadic == (argument.type == "Tensor[]"):
                self.inputs[slot] = self.laid_out(slot, argument.name)
                return True
        return False

    def laid_out(self, slot: str, name: str) -> str:
        """The tensor with its dims in the slot's order; PyTorch has the channels before the spatial dims."""
        layout = self.op.inputs[slot].layout
        if layout not in ORDERS:
            return name
        order = ORDERS[layout]
        if name == self.main:
            self.guards.append(f"{name}.rank == {len(order)}")
            self.reasons.append(f"The op takes tensors of rank {len(order)}.")
        return f"permute({name}, {order})"

    def value(self, argument: AtenArgument) -> bool:
        """Assigns a value to the parameter with its name or synonym, or by a common form; returns True if there is one."""
        name, params = argument.name, self.op.params
        if name in ("dim", "dims", "axis") and self._dims(argument):
            return True
        if name == "normalized_shape" and "axes" in params:
            self.params["axes"] = f"range({self.rank} - len({name}), {self.rank})"
            return True
        windows = "pad_amount" in params and params["pad_amount"].dims[0]  # equal on both sides of each dim
        if name == "padding" and windows and plain_type(argument.type)[0] == "int[]":
            each = (f"expand({name}, {windows})[{i}]" for i in range(windows))
            self.params["pad_amount"] = "[" + ", ".join(f"[{p}, {p}]" for p in each) + "]"
            return True
        known = name if name in params else VALUES.get(name, "")
        if known not in params or known in self.params or argument.type.startswith("Tensor"):
            return False
        p = params[known]
        if plain_type(argument.type)[0] == "int[]" and len(p.dims) == 1 and p.dims[0]:
            self.params[known] = f"expand({name}, {p.dims[0]})"
        elif bool(p.dims) != argument.type.rstrip("?").endswith("]"):
            return False
        else:
            self.params[known] = name
        if argument.optional:
            self.guards.append(f"present({name})")
            self.reasons.append(f"QNN needs {known}.")
        return True

    def _dims(self, argument: AtenArgument) -> bool:
        """Uses ``dim`` as an axis, axes (ascending), or a permutation; negative ones count from the back."""
        one = plain_type(argument.type) == ("int", False)
        for param in ("axis", "axes", "perm"):
            if param not in self.op.params or param in self.params:
                continue
            if param == "axis" and one:
                self.params[param] = f"{argument.name} % {self.rank}"
            elif param != "axis" and plain_type(argument.type)[0] == "int[]":
                if param == "axes":
                    every, some = f"axes_of({argument.name}, {self.rank})", f"present({argument.name})"
                else:
                    every = f"[d % {self.rank} for d in {argument.name}]"
                    some = f"present({argument.name}) and len({argument.name}) > 0"
                if argument.optional:
                    every += f" if {some} else range({self.rank})"
                self.params[param] = every
            elif param == "axes" and one:
                self.params[param] = f"[{argument.name} % {self.rank}]"
            else:
                continue
            return True
        return False

    def rest(self, argument: AtenArgument) -> None:
        name = argument.name
        if name in IGNORED and not argument.type.startswith("Tensor"):
            self.ignored[name] = IGNORED[name]
        elif name in GUARDS:
            guard, why = GUARDS[name]
            self.guards.append(guard.format(name))
            self.reasons.append(why)
        else:
            self.words.append(f"{self.schema.target}: the argument {name} ({argument.type})")

    def stand_ins(self) -> None:
        """Gives an optional input that is not the last its documented fill where PyTorch has None."""
        shape = next((a.name for a in self.schema.arguments if a.name == "normalized_shape"), None)
        optional = [s for s, t in self.op.inputs.items() if t.optional and s in self.inputs]
        for slot in optional[:-1]:
            argument = self.schema.argument(self.inputs[slot])
            if shape is not None and argument is not None and argument.optional:
                self.absent[slot] = f"ones({shape})"
