"""Recipes for the quantization of a model, as YAML; those in opdb.lower.quantize.recipes by name, others by file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from opdb.core.errors import OpdbError, Problem, SpecError
from opdb.spec.document import parse_document
from opdb.spec.fields import Model
from opdb.spec.files import load

SUFFIXES = (".yaml", ".yml")
#: How the range of an activation follows from the values that calibration showed; opdb.lower.quantize.observers.
Observer = Literal["min-max", "percentile", "mse", "entropy"]


class Activations(Model):
    """Settings for activations.  ``percentile``: the share of the values that is not clipped, in percent."""

    bits: Literal[8, 16]
    symmetric: bool = False
    observer: Observer = "min-max"
    percentile: float = Field(default=99.99, gt=50, le=100)


class Weights(Model):
    """Settings for constants with channels.

    ``block``: input channels per scale (LPBQ); None for one scale per channel.  ``rounding``: to the nearest step, or as AIMET's
    AdaRound learns from the samples (opdb.execute.compile.rounding).
    """

    bits: Literal[4, 8, 16]
    symmetric: bool = True
    per_channel: bool = True
    block: Literal[16, 32, 64] | None = None
    rounding: Literal["nearest", "adaround"] = "nearest"

    @model_validator(mode="after")
    def _held(self) -> Self:
        if self.block is not None and self.bits != 4:
            raise ValueError("QNN has blocks of weights of 4 bits only; give bits: 4, or leave block out")
        if self.bits == 4 and not self.symmetric:
            raise ValueError("QNN's weights of 4 bits have zero in the middle; give symmetric: true")
        if self.rounding == "adaround" and (self.bits != 4 or self.block or not self.per_channel):
            raise ValueError(
                "rounding: adaround is for weights of 4 bits with a scale per channel; give bits: 4, leave block and per_channel out"
            )
        return self


class RuleActivations(Model):
    """The settings of activations that a rule changes."""

    bits: Literal[8, 16] | None = None
    symmetric: bool | None = None
    observer: Observer | None = None
    percentile: float | None = Field(default=None, gt=50, le=100)


class RuleWeights(Model):
    """The settings of weights that a rule changes."""

    bits: Literal[4, 8, 16] | None = None
    symmetric: bool | None = None
    per_channel: bool | None = None
    block: Literal[16, 32, 64] | None = None


class Rule(Model):
    """Other settings for some nodes.  The selectors are globs; a node matches if all given selectors match.

    ``module``: its path, or one above it; e.g. encoder.layers.0.  ``operator``: QNN's op (MatMul), PyTorch's operator (softmax,
    aten.softmax.int) or that of the file (onnx.Softmax).  ``node``: its name.  ``pattern``: the candidate of the specs by which it
    became QNN's ops; e.g. linear_rows.
    """

    module: str | None = None
    operator: str | None = None
    node: str | None = None
    pattern: str | None = None
    float: bool = False
    activations: RuleActivations | None = None
    weights: RuleWeights | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.module or self.operator or self.node or self.pattern):
            raise ValueError("a rule names its nodes; give module, operator, node or pattern")
        if self.float == (self.activations is not None or self.weights is not None):
            raise ValueError("a rule says either float: true, or activations or weights")
        return self


class Recipe(Model):
    """Settings for the quantization of a model.  If several rules match a node, the last one counts.

    ``float``: the model computes in fp16, and nothing is quantized.
    """

    name: str
    about: str = ""
    float: bool = False
    activations: Activations | None = None
    weights: Weights | None = None
    rules: list[Rule] = Field(default_factory=list)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.float and (self.activations or self.weights or self.rules):
            raise ValueError(
                "with float: true nothing is quantized; leave activations, weights and rules out"
            )
        if self.float:
            return self
        if self.activations is None or self.weights is None:
            raise ValueError(
                "the field 'activations' or 'weights' is missing; give both, a base, or float: true"
            )
        for place, rule in enumerate(self.rules, 1):
            try:
                self.of(rule)
            except ValidationError as error:
                why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
                raise ValueError(f"rule {place}: {why}") from None
        return self

    def of(self, rule: Rule) -> tuple[Activations, Weights]:
        """Returns the settings of activations and weights for nodes that match ``rule``."""
        assert self.activations is not None and self.weights is not None
        own = rule.activations.model_dump(exclude_none=True) if rule.activations else {}
        weights = rule.weights.model_dump(exclude_none=True) if rule.weights else {}
        if weights.get("bits", 4) != 4:
            weights.setdefault("block", None)
        whole = Weights(**self.weights.model_dump(exclude={"rounding"}) | weights)
        return Activations(**self.activations.model_dump() | own), whole

    def spelled(self) -> dict[str, Any]:
        """Returns the recipe as plain data with all its fields; ``parsed`` reads it back."""
        if self.activations is None or self.weights is None:
            return {"name": self.name, "about": self.about, "float": True}
        said: dict[str, Any] = {"name": self.name, "about": self.about}
        said |= {"activations": _said(self.activations), "weights": _said(self.weights)}
        return said | ({"rules": [rule.model_dump() for rule in self.rules]} if self.rules else {})


def _said(part: Activations | Weights) -> dict[str, Any]:
    """The fields of a part, including those with their default values."""
    said = {name: value for name, value in vars(part).items() if value is not None}
    if said.get("observer") != "percentile":
        said.pop("percentile", None)
    return said


def named(word: str) -> Recipe:
    """Returns the recipe of that name, or in the YAML file of that path.

    Raises OpdbError if there is neither, SpecError with the line for mistakes in the file.
    """
    if word.endswith(SUFFIXES):
        try:
            text = Path(word).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise OpdbError(
                f"--quantize {word}: {getattr(error, 'strerror', None) or 'not a text file'}"
            ) from None
        return parsed(text, word)
    word = word.replace("_", "-")
    if word not in names():
        raise OpdbError(
            f"--quantize {word}: no such recipe; give one of {', '.join(names())}, or a .yaml file"
        )
    return parsed((_folder() / f"{word}.yaml").read_text(encoding="utf-8"), f"{word}.yaml")


def parsed(text: str, path: str) -> Recipe:
    """Parses the recipe in a YAML text.  ``base`` in it names the recipe that supplies missing fields.

    Raises SpecError with the line.
    """
    document = parse_document(text, path)
    if isinstance(document.data, dict) and "base" in document.data:
        base = document.data.pop("base")
        if not isinstance(base, str) or base not in names():
            problem = document.problem(("base",), f"base: {base!r} is not one of {', '.join(names())}")
            raise SpecError([Problem(*vars(problem).values())]) from None
        inherited = named(base).model_dump(exclude={"name", "about"}, exclude_defaults=True)
        for field, value in inherited.items():
            own = document.data.setdefault(field, value)
            if isinstance(own, dict) and isinstance(value, dict):
                document.data[field] = value | own
    if isinstance(document.data, dict):
        document.data.setdefault("name", Path(path).stem)
    return load(Recipe, document)


@cache
def names() -> tuple[str, ...]:
    """The names of the recipes that opdb ships, the usual ones first."""
    order = ("8a8w", "16a8w", "16a4w", "16a4w-block", "8a4w", "16a16w", "fp16")
    found = {Path(f.name).stem for f in _folder().iterdir() if f.name.endswith(".yaml")}
    return (*(n for n in order if n in found), *sorted(found.difference(order)))


def _folder() -> Any:
    return files("opdb.lower.quantize") / "recipes"
