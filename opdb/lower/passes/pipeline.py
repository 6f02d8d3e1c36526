"""The passes in order, and the loop that runs them until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.guess import did_you_mean
from opdb.lower.passes import (
    activations,
    casts,
    divisions,
    drop_dead,
    fold_before,
    fold_behind,
    functions,
    identities,
    image_linears,
    merge_equal,
    norms,
    reshapes,
    responses,
    rows,
    scalings,
    slices,
    static_ops,
    transposes,
    unpack_splits,
)
from opdb.lower.passes.edit import Edit

#: The maximum number of runs of the whole list: a pass may make work for an earlier one.
ROUNDS = 8


@dataclass(frozen=True)
class Pass:
    """One rewrite.  ``run`` changes the graph in place and returns how many places it changed.

    ``exact``: every number stays bit for bit the same; otherwise floats may differ by rounding, as products are reordered.
    """

    name: str  # e.g. fold-batchnorm
    about: str  # one line: what it does
    exact: bool
    run: Callable[[Edit], int]


#: In the order in which they run.
PASSES: tuple[Pass, ...] = (
    Pass("fold-constants", "ops that read constants alone are computed now", False, static_ops.run),
    Pass("drop-identities", "ops that change nothing are gone", True, identities.run),
    Pass(
        "cancel-casts", "Casts, Converts and Quantizes that give back what went in are gone", True, casts.run
    ),
    Pass("merge-equal", "equal ops of equal inputs are computed once", True, merge_equal.run),
    Pass("drop-dead", "what nobody reads is gone", True, drop_dead.run),
    Pass(
        "fuse-functions", "GELU, HardSwish, Sigmoid and Tanh out of chains are one op", False, functions.run
    ),
    Pass("fuse-norms", "Softmax, LayerNorm, RmsNorm and L2Norm out of chains are one op", False, norms.run),
    Pass(
        "fuse-responses",
        "local response normalization out of averages and powers is one Lrn",
        False,
        responses.run,
    ),
    Pass("split-unpacks", "UnPack of five dimensions as a Split and Reshapes", True, unpack_splits.unpack),
    Pass(
        "sink-transposes",
        "one layout for every tensor, such that Transposes move as few bytes as possible",
        False,
        transposes.settle,
    ),
    Pass(
        "split-before-reshapes",
        "a Split of five dimensions ahead of the Reshape that makes them",
        True,
        unpack_splits.split_first,
    ),
    Pass(
        "slice-before-reshapes",
        "slices of a dimension that a Reshape made, ahead of the Reshape",
        True,
        slices.run,
    ),
    Pass(
        "linear-as-convolution",
        "linear layers of images with their channels last are convolutions of 1 by 1",
        False,
        image_linears.run,
    ),
    Pass("merge-reshapes", "chains of Reshapes as one, and none to the same shape", True, reshapes.merge),
    Pass(
        "fold-batchnorm",
        "Batchnorms, products and sums go into the filter before them",
        False,
        fold_behind.run,
    ),
    Pass("fold-normalization", "products and sums go into the filter behind them", False, fold_before.run),
    Pass("merge-scalings", "products with constants and sums in a row are one op", False, scalings.run),
    Pass("divide-by-product", "a division by a constant is a product", False, divisions.run),
    Pass("move-activations", "activations stand behind what they are computed with", True, activations.run),
    Pass("read-rows", "what computes each row by itself reads past a Reshape before it", True, rows.run),
)
NAMES = tuple(p.name for p in PASSES)


@dataclass(frozen=True)
class Optimized:
    """``counts``: the number of places that each pass changed; passes that found nothing are left out."""

    graph: QnnGraph
    counts: Mapping[str, int]


def optimize(
    graph: QnnGraph, target: Target, without: Collection[str] = (), passes: tuple[Pass, ...] = PASSES
) -> Optimized:
    """Returns a graph that computes the same; the given one is not changed.  ``without``: names of passes to skip.

    The validators of ``target`` accept every op that a pass makes, and it has no erratum that the policy of ``target`` avoids;
    otherwise the place stays as it is.  Inputs and outputs keep their names, order, shapes and types.
    Raises OpdbError for an unknown pass.
    """
    check_names(without, tuple(p.name for p in passes))
    edit = Edit(graph, target)
    counts: dict[str, int] = {}
    for _ in range(ROUNDS):
        found = 0
        for each in passes:
            if each.name not in without and (n := each.run(edit)):
                counts[each.name] = counts.get(each.name, 0) + n
                found += n
        if not found:
            break
    return Optimized(edit.graph(), counts)


def check_names(given: Collection[str], known: Collection[str] = NAMES) -> None:
    """Raises OpdbError for an unknown pass."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known, f"the passes: {', '.join(known)}")
            raise OpdbError(f"no pass '{name}'{hint}")
