"""The core ATen operators of PyTorch with a form, and the reasons why the others have none (docs/guides/executorch.md)."""

import pytest

torch = pytest.importorskip("torch")

from opdb.lower.candidates import mapped  # noqa: E402
from opdb.programs.torch.targets import SHAPE_ONLY  # noqa: E402

pytestmark = pytest.mark.torch

#: Not needed for inference: gradients, symbolic sizes, and operators that only create tensors.
BACKWARD = {
    "aten._adaptive_avg_pool2d_backward.default", "aten.avg_pool2d_backward.default", "aten.convolution_backward.default",
    "aten.embedding_dense_backward.default", "aten.max_pool2d_with_indices_backward.default",
    "aten.native_group_norm_backward.default", "aten.native_layer_norm_backward.default",
}  # fmt: skip
SYMBOLIC = {
    "aten.sym_is_contiguous.default",
    "aten.sym_numel.default",
    "aten.sym_size.int",
    "aten.sym_storage_offset.default",
    "aten.sym_stride.int",
}
CREATING = {
    "aten.arange.start_step", "aten.empty.memory_format", "aten.empty_strided.default", "aten.full.default",
    "aten.full_like.default", "aten.rand.default", "aten.randn.default", "aten.randperm.default", "aten.resize_.default",
    "aten.scalar_tensor.default",
}  # fmt: skip
#: Folded away in the graph: their result is their input, or a constant.
FOLDED = {"aten.alias.default", "aten.clone.default", "aten.fill.Scalar"}
#: No form, with the reason.
REST = {
    "aten._embedding_bag.default": "bags begin where the data says, and no op sums rows of open number",
    "aten._fft_c2r.default": "complex numbers, which QNN has not",
    "aten._fft_r2c.default": "complex numbers, which QNN has not",
    "aten._local_scalar_dense.default": "a number of Python, no tensor",
    "aten._native_batch_norm_legit.default": "changes its running statistics: training",
    "aten._pdist_forward.default": "pairs of rows: no spec makes their table of places yet; cdist has a form",
    "aten.as_strided.default": "reads memory by strides, which tensors of QNN have not",
    "aten.atan2.out": "writes to a tensor that is given; atan2.default has a form",
    "aten.masked_scatter.default": "where a value goes depends on how many before it are masked",
    "aten.native_dropout.default": "drops at random; a module in evaluation mode exports none",
    "aten.nonzero.default": "the number of its results depends on the data",
}


def core() -> set[str]:
    """Uses the schemas: ``dir(torch.ops.aten)`` grows with each operator used."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        library, _, name = schema.name.partition("::")
        packet = getattr(torch.ops.aten, name, None) if library == "aten" else None
        operator = getattr(packet, schema.overload_name or "default", None)
        if operator is not None and torch.Tag.core in operator.tags:
            found.add(str(operator))
    return found


def test_every_core_operator_of_inference_has_a_form_or_a_reason() -> None:
    inference = core() - BACKWARD - SYMBOLIC - CREATING
    assert {t for t in inference if not mapped(t)} == FOLDED | set(REST)
    assert "aten.fill.Scalar" in SHAPE_ONLY
    assert (len(core()), len(inference), len(inference) - len(REST)) == (
        193,
        171,
        160,
    )  # as docs/reference/torch-operators.md says
