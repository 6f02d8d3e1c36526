"""Options and the compile specs that carry them."""

from __future__ import annotations

import pytest
from executorch.exir.backend.compile_spec_schema import CompileSpec

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate.specs import KERNELS, Options, options_of

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

CHIP = "SM8650"


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options("CPU", payload="graph", weights="blob"),
        Options("htp", soc=CHIP, optimization=3, vtcm_mb=4, precision="fp16", execution="emulator"),
        Options("HTP", soc=CHIP, ignored=("HTP-0001", "HTP-0002"), without=("drop-dead",), errata="warn"),
        Options(mutable_buffers="program", leave=("aten.sort.default", "aten.topk.default")),
    ],
)
def test_specs_carry_options(options: Options) -> None:
    specs = options.compile_specs()
    assert options_of(specs) == options
    assert options_of(list(reversed(specs))) == options
    assert len({s.key for s in specs}) == len(specs)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "NPU"}, "unknown backend 'NPU'; known: .*KERNELS"),
        ({"backend": "HTP"}, "its rules depend on the SoC"),
        ({"backend": "HTP", "soc": "SM86"}, "unknown SoC 'SM86'; did you mean"),
        ({"backend": "CPU", "vtcm_mb": 4}, "the CPU backend has no vtcm_mb to choose"),
        ({"soc": CHIP}, f"{KERNELS}: the C kernels have no soc"),
        ({"payload": "context"}, "no precision and no context"),
        (
            {"backend": "CPU", "payload": "binary"},
            "payload: 'binary' is not a valid value; one of context, graph",
        ),
        ({"weights": "none"}, "weights: 'none' is not a valid value; one of named, blob"),
        ({"execution": "phone"}, "execution"),
        ({"without": ("drop-deads",)}, "no pass 'drop-deads'; did you mean 'drop-dead'"),
    ],
)
def test_invalid_options_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(OpdbError, match=said):
        Options(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ([("opdb.bakend", b"CPU")], "unknown compile spec 'opdb.bakend'; did you mean 'opdb.backend'"),
        ([("backend", b"CPU")], "unknown compile spec 'backend'"),
        ([("opdb.backend", b"CPU"), ("opdb.backend", b"CPU")], "is there twice"),
        ([("opdb.optimization", b"high")], "b'high' is not a whole number"),
        ([("opdb.backend", b"\xff")], "is not UTF-8"),
    ],
)
def test_invalid_compile_specs_are_refused(specs: list[tuple[str, bytes]], said: str) -> None:
    with pytest.raises(OpdbError, match=said):
        options_of([CompileSpec(*spec) for spec in specs])
