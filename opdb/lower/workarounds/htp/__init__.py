"""The workarounds for HTP: a module for each kind of op, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opdb.lower.workarounds.htp import (
    clamps,
    conversions,
    convolutions,
    exponents,
    factors,
    gathers,
    pads,
    pools,
    precision,
    products,
    steps,
    sums,
)
from opdb.lower.workarounds.surroundings import InProgram, Workaround
from opdb.runtime.forms import LoweredOp

#: In the order in which they are tried, for an op with several errata.
OF_OPS: Mapping[str, Workaround] = {
    "average-by-channel": pools.average_by_channel,
    "pad-with-least-number": pools.with_least_number,
    "pool-every-second-column": pools.every_second_column,
    "zero-column-behind-filter": convolutions.zero_column_behind,
    "zero-taps-behind-filter": convolutions.zero_taps_behind,
    "zero-tap-across-filter": convolutions.zero_tap_across,
    "filter-as-long-as-padding": convolutions.filter_as_long_as_padding,
    "depth-in-one-step": convolutions.in_one_step,
    "pad-by-concat": pads.by_concat,
    "gather-from-one-matrix": gathers.from_one_matrix,
    "gather-from-joined-dimensions": gathers.from_joined_dimensions,
    "clamp-by-limits": clamps.by_limits,
    "bounded-exponent": exponents.bounded,
    "result-in-65536ths": steps.in_65536ths,
    "resize-in-steps-of-x": steps.of_x,
    "in-encoding-of-x": steps.in_encoding_of_x,
    "rows-first": products.rows_first,
    "scatter-in-steps-of-y": steps.of_y,
    "bias-along-axis": convolutions.bias_along_axis,
}
#: Workarounds that clamp away the values that trigger the erratum; the op config still matches it.
OF_VALUES = frozenset({"bounded-exponent"})
OF_PATTERNS: Mapping[str, Workaround] = {
    "product-of-rows": products.of_rows,
    "product-by-transposed": products.by_transposed,
    "copies-of-matrices": products.copies_of_matrices,
    "constant-first": factors.constant_first,
    "negative-subtracted": sums.negative_subtracted,
    "column-as-row": convolutions.column_as_row,
    "number-first": clamps.number_first,
}
#: erratum -> a function of a form's ops and of the ops after workarounds: true if they show the erratum.
BETWEEN_CONVERSIONS: Mapping[str, Callable[[Sequence[LoweredOp], Sequence[LoweredOp]], bool]] = {
    "HTP-0396": conversions.pads,
    "HTP-0397": conversions.more_than_one,
    "HTP-0450": conversions.wrong_behind_dequantize,
}
OF_PROGRAMS: Mapping[str, InProgram] = {"in-half-precision": precision.in_half_precision}
