"""Reads a model once and judges it on one target after another, for check and diff --model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from opdb.catalog.targets.target import Target
    from opdb.checks.coverage import Coverage
    from opdb.cli.option_groups import ModelFileOptions
    from opdb.cli.progress import Stages
    from opdb.lower.quantize import Recipe


@dataclass(frozen=True)
class Judge:
    """A model, and how it is judged.

    ``recipe``, ``floats``: see opdb.cli.quantization.asked_recipe, for ``quantize``, the value of --quantize.  ``data``: that of
    --data.  ``one_node``: the value of --save-node.
    """

    model: str
    dims: Mapping[str, int]
    options: ModelFileOptions
    quantize: str | None
    recipe: Recipe | None
    floats: str
    stages: Stages
    data: str | None = None
    one_node: str | None = None

    @cached_property
    def program(self) -> ExportedProgram:
        """The exported model."""
        from opdb.programs.load import load_program

        self.stages("export")
        # --save-node, --data and --decompose run PyTorch's passes on it
        quick = self.one_node is None and self.data is None and not self.options.decompose
        return load_program(self.model, self.dims, self.options.encodings, quick=quick)

    @cached_property
    def samples(self) -> list[tuple[Any, ...]]:
        """The inputs named by --data, in the program's order; none without it."""
        if self.data is None:
            return []
        from opdb.execute.compile.calibration import program_samples
        from opdb.programs.load import has_names

        names = None
        if has_names(self.model):
            from opdb.programs.onnx.files import ends

            names = ends(self.model)[0]
        return program_samples(self.data, self.program, names)

    def coverage(self, target: Target, where: str = "") -> Coverage:
        """The verdicts with the names of the model's file.  ``where``: what progress adds to the stage, e.g. for SM8650."""
        from opdb.checks.verdicts import check_program

        program, samples = self.program, self.samples
        self.stages("check", where)
        recipe, decompose = self.recipe, self.options.decompose
        if self.quantize is None or recipe is not None:
            recipe = self._recipe(target)
        if recipe is None:
            coverage = check_program(
                program,
                target,
                float_dtype=self.floats,
                decompose=decompose,
                progress=self.stages.count,
                samples=samples,
            )
            return self.named(coverage)
        from opdb.execute.compile.quantized_check import quantized_coverage

        return quantized_coverage(program, target, recipe, self.options.dtype, decompose, self.named)

    def named(self, coverage: Coverage) -> Coverage:
        """Replaces names by those of the model's file."""
        from opdb.programs.load import has_names

        if not has_names(self.model):
            return coverage
        from opdb.checks.file_names import with_names

        return with_names(coverage, self.model, self.options.encodings)

    def _recipe(self, target: Target) -> Recipe | None:
        """The recipe to quantize the model with before it is judged; None to leave it as it is."""
        from opdb.lower.quantize.recipe import named
        from opdb.programs.torch.encodings import is_dequantize, is_quantize

        encodings, recipe = self.options.encodings, self.recipe
        already = any(is_quantize(n) or is_dequantize(n) for n in self.program.graph.nodes)
        if recipe is None:
            return named("8a8w") if target.integers_only and not already and encodings is None else None
        if already or encodings is not None:
            raise OpdbError(f"--quantize {recipe.name}: the model is quantized already; leave --quantize out")
        if self.data is not None:
            raise OpdbError(
                f"--data {self.data}: `check --quantize` assumes ranges; `opdb compile --quantize` measures them on data"
            )
        return recipe
