"""``opdb check --executorch``: the coverage of the edge graph that ExecuTorch's Qualcomm partitioner sees.

ExecuTorch is imported in a child process with the prepared environment; no library of the vendor is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import BACKENDS
from opdb.plugins.executorch import env, process


def check_model(
    spec: str, target: Target, dims: Mapping[str, int] | None = None, *, timeout: float = 3600.0
) -> Coverage:
    """The verdict on every node of a model after ExecuTorch's export, edge lowering, and passes.

    ``spec``: a .pt2 file or ``module:callable`` (opdb.programs.load).  ``target``: HTP and a SoC that ExecuTorch
    knows.  ``dims``: see opdb.programs.load.load_model.  ``timeout``: in seconds.

    Raises MissingExtra without executorch, OpdbError for another target, for a model that cannot be loaded, and if
    ExecuTorch's flow fails before it partitions.
    """
    target = target.spelled()
    followed = [b.name for b in BACKENDS.values() if "pte" in b.programs]
    if target.backend not in followed:
        raise OpdbError(
            f"ExecuTorch's flow is followed for {' and '.join(followed)} only, not for {target.backend}"
        )
    environment = env.prepare()
    coverage: Coverage = process.call(
        "opdb.plugins.executorch.tools.check:_check",
        spec,
        target,
        dims,
        environment=environment,
        timeout=timeout,
    )
    return coverage


def _check(spec: str, target: Target, dims: Mapping[str, int] | None) -> Coverage:
    """The child's side of ``check_model``."""
    env.require_active()
    import opdb.plugins.executorch
    from opdb.plugins.executorch.tools.predict import Predictor
    from opdb.programs.load import load_model, load_program
    from opdb.programs.torch.export import in_eval_mode

    assert target.soc is not None
    chipset = env.chipset(target.soc)
    if spec.endswith(".pt2"):
        saved = load_program(spec)
        args, kwargs = saved.example_inputs or ((), {})
        if kwargs or not args:
            raise OpdbError(
                f"{spec}: ExecuTorch's flow takes positional example inputs; export it again with them"
            )
        module, inputs = saved.module(check_guards=False), args
    else:
        module, inputs = load_model(spec, dynamo=True, dims=dims)
        in_eval_mode(module)
    opdb.plugins.executorch.register(target=target)
    try:
        edge = _edge_program(spec, module, inputs, chipset)
        return _with_halves(edge.whole, target, Predictor(edge.seen, target).coverage())
    finally:
        opdb.plugins.executorch.unregister()


def _with_halves(edge: Any, target: Target, coverage: Coverage) -> Coverage:
    """Adds warnings of values that do not fit fp16 (opdb.checks.range_warnings) to the rows of nodes that are ATen operators."""
    from executorch.backends.qualcomm.utils.constants import QCOM_QUANT_ATTRS

    from opdb.checks.range_warnings import with_warnings
    from opdb.plugins.executorch.delegate import aten

    nodes = {n.name: n for n in edge.graph.nodes}
    left = {row.node for row in coverage.rows if row.verdict != "supported"}
    inside = {name for name, node in nodes.items() if name not in left and not aten.readable(node)}
    program = aten.read(edge, inside, values=True)
    rows = with_warnings(
        program, target, coverage.rows, lambda name: QCOM_QUANT_ATTRS not in nodes[name].meta
    )
    return replace(coverage, rows=tuple(rows))


def _edge_program(spec: str, module: Any, inputs: Any, chipset: Any) -> Any:
    import torch

    from opdb.plugins.executorch import flow
    from opdb.plugins.executorch.edge import edge_program, exporting

    try:
        with exporting():
            return edge_program(module, inputs, chipset)
    except Exception as error:  # PyTorch and the passes raise anything
        with suppress(
            RuntimeError, TypeError, ValueError, AssertionError
        ):  # errors of a model that cannot be exported
            flow.refuse_branches(torch.export.export(module, inputs))
        lines = str(error).strip().splitlines()
        why = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        raise OpdbError(f"{spec}: ExecuTorch's flow fails before it partitions: {why}") from error
