"""The table of the rule language's functions.

A row has the signature, the Python and C names, the English phrase, and examples; the examples are run
as tests of the Python, C, and English emitters (tests/spec/lang/test_functions.py).  ``python`` names a
function of ``opdb.runtime.checks`` or a builtin; ``c`` one of runtime/include/opdb/checked.h.  In
``english``, ``{0}`` is the first argument.  ``phrase`` pairs are (affirmed, denied) predicates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opdb.spec.lang.nodes import BOOL, DTYPE, FLOAT, INT, INT64, INTS, ROWS, STR, TENSOR, TENSORS


@dataclass(frozen=True)
class Function:
    name: str
    params: tuple[tuple[str, ...], ...]  # the allowed types of each argument
    result: str
    python: str
    c: str  # "" for torch-only functions
    english: str
    examples: tuple[tuple[str, Any], ...]  # expression -> value; None means undecidable
    partial: bool = False  # may be undecidable: the C function takes `bool *ok`
    optional: int = 0  # the number of trailing parameters that may be omitted
    predicate: tuple[str, str] = ("", "")
    torch: bool = False  # only in torch mappings
    note: str = field(default="", compare=False)


_LIST, _T = (INTS,), (TENSOR,)
_INT, _FLOAT = (INT,), (FLOAT,)
#: The argument that determines the dtype of a new tensor: another tensor, or a dtype name.
_LIKE = (TENSOR, DTYPE)

FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        Function("len", ((INTS, ROWS, TENSORS),), INT, "len", ".n", "the number of {0}", (("len([4, 5])", 2), ("len([])", 0))),
        Function("prod", (_LIST,), INT, "prod", "opdb_prod", "the product of {0}",
                 (("prod([2, 3, 4])", 24), ("prod([])", 1), ("prod([4294967296, 4294967296])", None)), partial=True),
        Function("sum_of", (_LIST,), INT, "sum_of", "opdb_sum", "the sum of {0}",
                 (("sum_of([2, 3])", 5), ("sum_of([9223372036854775807, 1])", None)), partial=True),
        Function("min", ((INT, FLOAT), (INT, FLOAT)), INT, "min", "opdb_min", "the smaller of {0} and {1}",
                 (("min(2, 3)", 2), ("min(0 - 1, 3)", -1))),
        Function("max", ((INT, FLOAT), (INT, FLOAT)), INT, "max", "opdb_max", "the larger of {0} and {1}",
                 (("max(2, 3)", 3), ("max(4, 3)", 4))),
        Function("to_float", (_INT,), FLOAT, "float", "opdb_to_float", "{0}", (("to_float(3)", 3.0), ("to_float(0 - 2)", -2.0))),
        Function("unique", (_LIST,), BOOL, "unique", "opdb_unique", "", (("unique([1, 2])", True), ("unique([1, 1])", False)),
                 predicate=("have no value twice", "have a value twice")),
        Function("increasing", (_LIST,), BOOL, "increasing", "opdb_increasing", "",
                 (("increasing([1, 2, 4])", True), ("increasing([1, 1])", False), ("increasing([])", True)),
                 predicate=("be strictly increasing", "not be strictly increasing")),
        Function("contains", (_LIST, (INT,)), BOOL, "contains", "opdb_contains", "",
                 (("contains([1, 2], 2)", True), ("contains([], 0)", False)),
                 predicate=("contain {1}", "not contain {1}")),
        Function("present", (("any",),), BOOL, "present", "present", "", (),
                 predicate=("be given", "be left out")),
        Function("broadcastable", (_LIST, _LIST), BOOL, "broadcastable", "opdb_broadcastable", "",
                 (("broadcastable([2, 1], [3])", True), ("broadcastable([2], [3])", False), ("broadcastable([], [3])", True)),
                 predicate=("be broadcastable with {1}", "not be broadcastable with {1}")),
        Function("broadcast", (_LIST, _LIST), INTS, "broadcast", "opdb_broadcast", "the broadcast of {0} and {1}",
                 (("broadcast([2, 1], [3])", [2, 3]), ("broadcast([2], [3])", None), ("broadcast([1, 0], [5, 1])", [5, 0])),
                 partial=True),
        Function("gather", (_LIST, _LIST), INTS, "gather", "opdb_gather", "{0} at {1}",
                 (("gather([5, 6, 7], [2, 0])", [7, 5]), ("gather([5], [1])", None)), partial=True),
        Function("replace", (_LIST, (INT,), (INT,)), INTS, "replace", "opdb_replace", "{0} with {2} at position {1}",
                 (("replace([5, 6, 7], 1, 9)", [5, 9, 7]), ("replace([5, 6], 2, 9)", None), ("replace([5, 6], 0 - 1, 9)", [5, 9])),
                 partial=True),
        Function("range", ((INT,), (INT,)), INTS, "indices", "opdb_range", "the integers from {0} to {1} - 1",
                 (("range(3)", [0, 1, 2]), ("range(1, 3)", [1, 2]), ("range(3, 1)", []), ("range(0, 65)", None)),
                 partial=True, optional=1),
        Function("cat", (_LIST, _LIST), INTS, "cat", "opdb_cat", "{0} followed by {1}",
                 (("cat([1], [2, 3])", [1, 2, 3]), ("cat([], [])", []), ("cat(range(64), [1])", None)), partial=True),
        Function("reduced", (_LIST, _LIST, (BOOL,)), INTS, "reduced", "opdb_reduced",
                 "{0} without the axes {1} (kept as 1 if {2})",
                 (("reduced([2, 3, 4], [1], 1 == 2)", [2, 4]), ("reduced([2, 3, 4], [1], 1 == 1)", [2, 1, 4]),
                  ("reduced([2], [0], 1 == 2)", [1]), ("reduced([], [], 1 == 1)", [1]), ("reduced([2], [1], 1 == 1)", None), ("reduced([2, 3], [1, 1], 1 == 1)", None)),
                 partial=True, note="an empty result is [1]: the rank of QNN's reductions is max(1, N - M)"),
        Function("expand", (_LIST, (INT,)), INTS, "expand", "opdb_expand", "{0}, repeated to {1} values if it has one",
                 (("expand([2], 3)", [2, 2, 2]), ("expand([1, 2], 2)", [1, 2]), ("expand([1, 2], 3)", None), ("expand([1], 65)", None)), partial=True),
        Function("of_rank", (_LIST, (INT,)), INTS, "of_rank", "opdb_of_rank", "{0} with ones in front, {1} values in all",
                 (("of_rank([2, 3], 4)", [1, 1, 2, 3]), ("of_rank([2, 3], 2)", [2, 3]), ("of_rank([2, 3], 1)", None), ("of_rank([], 65)", None)),
                 partial=True),
        Function("axes_of", (_LIST, (INT,)), INTS, "axes_of", "opdb_axes_of",
                 "the axes {0} of {1} dimensions in order, counted from the first; all where there is none",
                 (("axes_of([0 - 1, 0], 3)", [0, 2]), ("axes_of([], 2)", [0, 1]), ("axes_of([5], 3)", [2]), ("axes_of([1], 0)", []),
                  ("axes_of([1], 65)", None)), partial=True),
        Function("bit", ((INT,), (INT,)), INT, "bit", "opdb_bit", "bit {1} of {0}",
                 (("bit(6, 1)", 1), ("bit(6, 0)", 0), ("bit(0 - 1, 31)", 1), ("bit(1, 32)", None), ("bit(1, 0 - 1)", None)), partial=True,
                 note="0 or 1; a mask has the bits 0 to 31, from the lowest"),
        Function("same_quant", (_T, _T), BOOL, "same_quant", "opdb_same_quant", "", (),
                 predicate=("have the encoding of {1}", "not have the encoding of {1}"),
                 note="kind, scales (as float32), offsets, axis and bits; true where neither has an encoding"),
        # Only in torch mappings, because they create tensors.
        Function("permute", (_T, _LIST), TENSOR, "permute", "", "{0} permuted by {1}", (), torch=True),
        Function("reshape", (_T, _LIST), TENSOR, "reshape", "", "{0} in the shape {1}", (), torch=True),
        Function("batched", (_T, (INT,)), TENSOR, "batched", "", "{0} as a batch of {1} dimensions", (), torch=True,
                 note="itself, or with a first dimension of 1 where it has one less"),
        Function("as_image", (_T,), TENSOR, "as_image", "", "{0} as an image", (), torch=True,
                 note="[N, C, H, W] of [N, C, ...]; pixels that are not of two dimensions get up to 128 rows"),
        Function("ones", (_LIST, _LIKE), TENSOR, "ones", "", "ones in the shape {0}", (), torch=True, optional=1),
        Function("zeros", (_LIST, _LIKE), TENSOR, "zeros", "", "zeros in the shape {0}", (), torch=True, optional=1),
        Function("full", (_LIST, _FLOAT, _LIKE), TENSOR, "full", "", "{1} in the shape {0}", (), torch=True, optional=1,
                 note="ones, zeros and full have the type of their last argument, without one that of the op's first input"),
        Function("ramp", (_LIST, _LIST, (INT,)), TENSOR, "ramp", "", "{2} plus {1} times the place, in the shape {0}", (), torch=True,
                 note="a constant of INT_32"),
        Function("ramp_mask", (_LIST, _LIST, (INT,)), TENSOR, "ramp_mask", "", "whether {2} plus {1} times the place is not negative, in the shape {0}", (),
                 torch=True, note="a constant of BOOL_8"),
        Function("tiled", (_T, _LIST), TENSOR, "tiled", "", "{0} repeated to the shape {1}", (), torch=True),
        Function("wrapped", (_T, (INT,)), TENSOR, "wrapped", "", "{0}, negative values counted from {1}", (), torch=True),
        Function("scaled", (_T, (INT,)), TENSOR, "scaled", "", "{0} times {1}", (), torch=True),
        Function("inverse_root", (_T, _FLOAT), TENSOR, "inverse_root", "", "1 / sqrt({0} + {1})", (), torch=True),
        Function("times", (_T, _T), TENSOR, "times", "", "{0} times {1}", (), torch=True, note="of static tensors"),
        Function("minus", (_T, _T), TENSOR, "minus", "", "{0} less {1}", (), torch=True, note="of static tensors"),
        Function("floats", (_T,), TENSOR, "floats", "", "{0} in floating point", (), torch=True, note="of static tensors"),
        Function("channel_filter", (_T, _T, _T), TENSOR, "channel_filter", "", "{0} as a filter with a scale for each channel", (), torch=True,
                 note="of factors and shifts [C] whose values are known, and the tensor that they change"),
        Function("channel_bias", (_T, _T, _T), TENSOR, "channel_bias", "", "{0} as the bias of {1} with the filter {2}", (), torch=True),
        Function("block_diagonal", (_T, (INT,)), TENSOR, "block_diagonal", "", "{0} without its {1} groups", (), torch=True,
                 note="a filter [in, out / groups, ...] with zeros for what a group does not read"),
        Function("spaced", (_T, _LIST), TENSOR, "spaced", "", "{0} with zeros between, for the dilation {1}", (), torch=True),
        Function("widened", (_T,), TENSOR, "widened", "", "{0} in 16 bits", (), torch=True,
                 note="what a tensor of 16 bits has the type and encoding of, for the range of a tensor of UFIXED_POINT_8"),
        Function("given_at", ((TENSORS,),), INTS, "given_at", "", "the positions at which {0} has a tensor", (), torch=True),
        Function("chosen", ((TENSORS,),), TENSORS, "chosen", "", "the tensors that {0} has", (), torch=True),
        Function("filled", ((TENSORS,),), TENSORS, "filled", "", "the tensors of {0} that have elements", (), torch=True),
        Function("lifted", ((TENSORS,), (INT,)), TENSORS, "lifted", "", "each of {0} with a dimension of 1 at {1}", (), torch=True),
        # ... with values computed by a formula (opdb.runtime.windows)
        Function("window_means", (*(_INT,) * 5, (BOOL,), _LIKE), TENSOR, "window_means", "",
                 "the means of {4} windows of {1} among {0}", (), torch=True, optional=1),
        Function("window_sums", (*(_INT,) * 5, _LIKE), TENSOR, "window_sums", "",
                 "the sums of {4} windows of {1} among {0}", (), torch=True, optional=1),
        Function("window_factors", (*(_LIST,) * 5, (BOOL,), _LIKE), TENSOR, "window_factors", "",
                 "by what the means of windows of {1} among {0} are multiplied, zeros beyond the edges included", (), torch=True, optional=1),
        Function("adaptive_means", (_INT, _INT, _LIKE), TENSOR, "adaptive_means", "",
                 "the means of {1} windows that share {0}", (), torch=True, optional=1),
        Function("window_places", ((INT,),) * 6, TENSOR, "window_places", "",
                 "the places of {5} windows of {1} among {0}", (), torch=True),
        Function("fold_sums", (*(_INT,) * 6, _LIKE), TENSOR, "fold_sums", "",
                 "the sums over {0} places of {5} windows of {1}", (), torch=True, optional=1),
        Function("fold_places", (_LIST,) * 6, TENSOR, "fold_places", "",
                 "the places of {5} windows of {1} over each of {0}", (), torch=True),
        Function("adaptive_places", (_INT, _INT), TENSOR, "adaptive_places", "",
                 "the places of {1} windows that share {0}", (), torch=True),
        Function("adaptive_window", (_INT, _INT), INT, "adaptive_window", "",
                 "the widest of {1} windows that share {0}", (), torch=True),
        Function("nearest_places", (_INT, _INT, _FLOAT, (BOOL,)), TENSOR, "nearest_places", "",
                 "the nearest places among {0} of {1} values", (), torch=True),
        Function("padded_places", (_INT, _INT, _INT, (STR,)), TENSOR, "padded_places", "",
                 "the places of {0} values with {1} more before and {2} after", (), torch=True),
        Function("slice_places", (_LIST, _INT, _INT, _INT), TENSOR, "slice_places", "",
                 "the places of {1} slices from {2} on in steps of {3} behind dimensions of the sizes {0}", (), torch=True),
        Function("linear_weights", (_INT, _INT, _FLOAT, (BOOL,), _LIKE), TENSOR, "linear_weights", "",
                 "the weights of {0} values in {1} between them", (), torch=True, optional=1),
        Function("cubic_weights", (_INT, _INT, _FLOAT, (BOOL,), _LIKE), TENSOR, "cubic_weights", "",
                 "the weights of {0} values in {1} between them", (), torch=True, optional=1),
        Function("causal_mask", (_INT, _INT, _FLOAT, _LIKE), TENSOR, "causal_mask", "",
                 "{2} above the diagonal of {0} rows of {1}", (), torch=True, optional=1),
        Function("root", (_FLOAT,), FLOAT, "root", "", "the square root of {0}", (), torch=True),
        Function("power", (_FLOAT, _FLOAT), FLOAT, "power", "", "{0} to the power of {1}", (), torch=True),
        Function("is_whole", (_FLOAT,), BOOL, "is_whole", "", "", (), torch=True,
                 predicate=("be a whole number", "have a fraction")),

        # ... lists that mean what a torch argument does (opdb.runtime.arguments)
        Function("pool_stride", (_LIST, _LIST, (INT,)), INTS, "pool_stride", "",
                 "the steps {0} along {2} dimensions, those of the kernel {1} where there is none", (), torch=True),
        Function("pool_over", (_LIST,) * 5, INTS, "pool_over", "",
                 "how far {4} windows of {1} reach beyond {0}", (), torch=True,
                 note="of sizes, kernel, stride (as pool_stride) and padding (as expand), and the sizes of the result; below 0 where they end inside"),
        Function("same_padding", ((STR,), _LIST, _LIST), ROWS, "same_padding", "",
                 "the padding that {0} means for the kernel {1}", (), torch=True, note='the third argument is the dilation; zeros unless the word is "same"'),
        Function("pads_of", (_LIST, (INT,)), ROWS, "pads_of", "", "{0} before and after each of {1} dimensions", (), torch=True,
                 note="torch lists pairs from the last dimension on, and need not name the first ones"),
        Function("slice_ranges", (_LIST, (INT,), (INT,), (INT,), (INT,)), ROWS, "slice_ranges", "",
                 "{2} to {3} in steps of {4} along {1}, all of the other dimensions of {0}", (), torch=True, optional=1, note="the step is 1 where none is given"),
        Function("swapped", ((INT,), (INT,), (INT,)), INTS, "swapped", "",
                 "the order of {0} dimensions with {1} and {2} swapped", (), torch=True, note="negative ones count from the last"),
        Function("columns", (_LIST, _LIST, _LIST), ROWS, "columns", "", "the rows whose columns are the arguments", (), torch=True, optional=1),
        Function("is_float", (_T,), BOOL, "is_float", "", "", (), torch=True,
                 predicate=("have a floating-point type", "not have a floating-point type")),
        Function("is_real", (_T,), BOOL, "is_real", "", "", (), torch=True,
                 predicate=("be floating-point or quantized", "be neither floating-point nor quantized")),
        Function("lower_case", ((STR,),), STR, "lower_case", "", "{0} in lower case", (), torch=True),
    )
}  # fmt: skip

#: Attributes of tensors: name -> (type, range, English).
ATTRIBUTES: dict[str, tuple[str, tuple[int, int] | None, str]] = {
    "rank": (INT, (0, 16), "the rank of {0}"),
    "shape": (INTS, (0, 2**31 - 1), "the shape of {0}"),
    "dtype": ("dtype", None, "the dtype of {0}"),
    "encoding": ("encoding", None, "the encoding of {0}"),
    "symmetric": (BOOL, None, "{0} symmetric"),
    "static": (BOOL, None, "{0} static"),
    "sparse": (BOOL, None, "{0} sparse"),
    "type": ("tensor type", None, "the type of {0}"),
    "axis": (INT, (-1, 2**31 - 1), "the quantization axis of {0}"),
    "scale": (FLOAT, None, "the scale of {0}"),  # the first scale; 0 without encoding
    "offset": (INT, (-(2**31), 2**31 - 1), "the offset of {0}"),  # likewise
    "values": (INTS, INT64, "the values of {0}"),  # for STATIC integer tensors; undecidable for others
}

#: The sources of a tensor's data; an omitted tensor (NULL) is absent.
TENSOR_TYPES = ("APP_WRITE", "APP_READ", "NATIVE", "STATIC")

ENCODING_NAMES = (
    "NONE", "SCALE_OFFSET", "AXIS_SCALE_OFFSET", "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCK",
    "BLOCKWISE_EXPANSION", "VECTOR",
)  # fmt: skip
