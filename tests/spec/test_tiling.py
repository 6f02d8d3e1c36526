"""The section ``tiling`` of kernels."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opdb.spec.tiling import Tiling

TILING = {
    "axes": ["any...", {"multiple": 8}, "whole"],
    "inputs": {"x": ["same...", {"scale": 2, "after": 1}, "whole"], "bias": ["whole"]},
}


def test_a_tiling_survives_a_round_trip() -> None:
    assert Tiling.model_validate(TILING).model_dump() == TILING


def test_axes_apply_to_any_rank() -> None:
    tiling = Tiling.model_validate(TILING)
    assert [c.multiple for c in tiling.cuts(4)] == [1, 1, 8, 0]
    assert [c.multiple for c in tiling.cuts(1)] == [0]
    assert [p.kind for p in tiling.parts("x", 4)] == ["part", "part", "part", "whole"]
    assert [p.kind for p in tiling.parts("bias", 2)] == ["whole", "whole"]
    assert [p.kind for p in tiling.parts("other", 1)] == ["whole"]
    assert tiling.parts("x", 2)[0].range(3, 4) == (6, 9)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"axes": ["some"]}, "'some' is not whole, any"),
        ({"axes": ["any", "any..."]}, "only the first entry can end in '...'"),
        ({"axes": ["whole"]}, "'axes' are all whole"),
        ({"axes": ["any"], "inputs": {"x": ["any"]}}, "'any' is not whole, same"),
    ],
)
def test_invalid_tilings_are_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("...", r"\.\.\.")):
        Tiling.model_validate(data)
