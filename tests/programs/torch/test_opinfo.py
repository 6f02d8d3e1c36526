"""PyTorch's own operator samples (OpInfo) on QNN's real libraries: right, or refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
import torch
from opinfo_known import KNOWN
from opinfo_run import FAILED, NO_PROGRAM, PLACES, REFUSED, UNMAPPED, Kernels, Library, Outcome, outcomes
from opinfo_samples import BY_NAME, TAKEN, UNTAKEN, kind_of, samples

from opdb.execute.libraries.client import VendorWorker
from opdb.generated.builders import TARGETS

pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.slow]
#: OpInfos of the ATen operators that specs map; others reach mapped targets as well.
NAMED = [n for n, info in BY_NAME.items() if info.aten_name in {t.split(".")[1] for t in TARGETS}]
KINDS = [kind_of(d) for d in (*TAKEN, *UNTAKEN)]


@pytest.fixture(scope="module")
def workers(libraries: object) -> Iterator[dict[str, Library]]:
    opened = {
        b: VendorWorker(b, place.soc, log_level="error") for b, place in PLACES.items() if place.backend
    }
    yield {**opened, "KERNELS": Kernels()}
    for worker in opened.values():
        worker.close()


def told(found: list[Outcome]) -> str:
    return "\n".join(f"{o.sample} on {o.backend} ({o.form}): {o.text}" for o in found)


@pytest.mark.parametrize(
    ("place", "kind", "least"),
    [
        ("CPU", "float32", 100),
        pytest.param("KERNELS", "float32", 100, marks=pytest.mark.breadth),
        pytest.param("KERNELS", "int32", 90, marks=pytest.mark.breadth),
        pytest.param("KERNELS", "bool", 60, marks=pytest.mark.breadth),
    ],
)
def test_the_first_sample_of_each_operator_is_right_or_refused(
    place: str, kind: str, least: int, workers: dict[str, Library]
) -> None:
    """More than ``least`` targets are right on QNN CPU or on opdb's own kernels; the sweep below runs all samples, on HTP too."""
    known = {f"{n}-{k}-{i}" for (n, k, b), listed in KNOWN.items() if b == place for i in listed.numbers}
    found = [
        outcome
        for name in NAMED
        for sample in islice(samples(name, getattr(torch, kind)), 1)
        for outcome in outcomes(sample, {place: workers[place]})
    ]
    assert not told([o for o in found if o.outcome == FAILED and o.sample not in known])
    assert len({t for o in found if o.outcome == "right" for t in o.targets}) > least


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BY_NAME)
def test_every_sample_is_right_or_refused(name: str, kind: str, workers: dict[str, Library]) -> None:
    dtype = getattr(torch, kind)
    for sample in samples(name, dtype) if dtype in TAKEN else islice(samples(name, dtype), 1):
        for o in outcomes(sample, workers):
            listed = KNOWN.get((name, kind, o.backend))
            fails = listed is not None and sample.number in listed.numbers
            assert (o.outcome == FAILED) == fails, told([o])
            assert o.outcome not in (REFUSED, UNMAPPED, NO_PROGRAM) or o.text


def test_listed_failures_are_existing_samples() -> None:
    for (name, kind, backend), listed in KNOWN.items():
        count = sum(1 for _ in samples(name, getattr(torch, kind)))
        assert backend in PLACES and listed.numbers and max(listed.numbers) < count, (name, kind)
        assert listed.why
