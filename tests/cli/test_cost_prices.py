"""opdb cost: the cost of errata, saved results, ranks for other chips, and the table of prices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opdb.lower.prices import read

from .compiling import Here

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.slow]
ON = ("--soc", "SA8255")
MODELS = """
import torch
from torch import nn

def net(channels=16):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), nn.AvgPool2d(5, 1, 2), nn.Conv2d(channels, channels, 3))
    return body.eval(), (torch.rand(1, 3, 32, 32),)

def depthwise():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 3, groups=16), nn.GELU(), nn.Conv2d(16, 16, 1))
    return body.eval(), (torch.rand(1, 16, 32, 32),)
"""


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODELS)
    return str(path)


def test_the_help_names_build_table(here: Here) -> None:
    done = here("cost", "--help")
    assert done.code == 0
    assert done.out.partition("\n")[0].endswith(" cost [OPTIONS] MODEL")
    assert "opdb cost build-table" in done.out
    assert " cost build-table [OPTIONS]" in here("cost", "build-table", "--help").out


def test_each_avoided_erratum_has_a_price(here: Here, models: str) -> None:
    model, avoid = f"{models}:net", (*ON, "--errata", "avoid")
    told = here("cost", model, *avoid, "--by", "erratum", "--json").document
    (price,) = told["errata_prices"]
    alone = here("cost", model, *avoid, "--ignore-erratum", "HTP-0303", "--json").document
    assert (price["erratum"], price["nodes"], price["why"]) == ("HTP-0303", 1, "")
    assert price["us"] == pytest.approx(told["us"] - alone["us"])
    assert price["us"] > 0
    assert price["share"] == pytest.approx(price["us"] / told["us"])
    (erratum,) = told["errata"]
    assert erratum["soc"] == "SA8255"
    assert erratum["us"] > 0
    text = here("cost", model, *avoid, "--by", "erratum").out
    assert "avoided HTP-0303 in 1 node" in text
    assert "about " in text.partition("that costs ")[2].partition("\n")[0]
    assert f"{price['us']:,.1f}" in text
    assert "no erratum is avoided" in here("cost", model, *ON, "--errata", "ignore", "--by", "erratum").out


def test_a_saved_result_can_be_compared(here: Here, models: str, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    saved.write_text(here("cost", f"{models}:depthwise", *ON, "--json").out)
    told = here("cost", f"{models}:net", *ON, "--against", saved, "--json").document
    before = json.loads(saved.read_text())
    assert told["against"]["other"]["cycles"] == before["cycles"]
    assert told["against"]["cycles"] == before["cycles"] - told["cycles"]
    text = here("cost", f"{models}:depthwise", *ON, "--against", saved).out
    assert "difference: +0 us, +0.0% of the cycles" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"soc": "SA8540"}, "it is of another chip: SA8540, here SA8255"),
        ({"build_id": "v2.47.0.1"}, "it is of another QNN version: v2.47.0.1, here v2.51"),
        ({"quantize": "8a8w"}, "it is of another precision: 8a8w, here fp16"),
        ({"missing": None}, "it is not what 'opdb cost --json' prints"),
    ],
)
def test_incomparable_results_are_rejected(
    here: Here, models: str, tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    document = here("cost", f"{models}:depthwise", *ON, "--json").document
    (tmp_path / "other.json").write_text(json.dumps({**document, **change}))
    done = here("cost", f"{models}:depthwise", *ON, "--against", tmp_path / "other.json")
    assert done.code == 2
    assert done.err.startswith(f"--against {tmp_path / 'other.json'}: {reason}")


def test_rank_only_covers_chips_that_are_not_simulated(here: Here, models: str) -> None:
    ranked = here("cost", f"{models}:net", "--soc", "SM8650", "--rank-only", "--json").document
    own = here("cost", f"{models}:net", *ON, "--json").document
    assert (ranked["soc"], ranked["rank_for"], own["rank_for"]) == ("SA8255", "SM8650", None)
    assert ranked["us"] == own["us"]
    first = here("cost", f"{models}:net", "--soc", "SM8650", "--rank-only").out.splitlines()[0]
    assert first.startswith("ranks only: this simulates SA8255, not SM8650")
    for soc, option, reason in (
        ("SM8350", (), "SM8350: --rank-only is for v73 to v81"),
        ("SM8650", ("--fail-over", "100"), "--fail-over 100: does not go with --rank-only, whose time is another chip's"),
    ):  # fmt: skip
        done = here("cost", f"{models}:net", "--soc", soc, "--rank-only", *option)
        assert done.code == 2
        assert done.err.startswith(reason)


def test_building_a_table_is_reproducible(here: Here, models: str, tmp_path: Path) -> None:
    first, second, pairs = (tmp_path / n for n in ("first.json", "second.json", "pairs.jsonl"))
    (tmp_path / "models.txt").write_text(f"# one\n{models}:depthwise\n")
    done = here("cost", "build-table", "--models", tmp_path / "models.txt", "--pairs", pairs, "-o", first)
    assert done.code == 0
    assert "candidates" in done.out
    told = here("cost", "build-table", f"{models}:depthwise", "-o", second, "--json").document
    assert first.read_bytes() == second.read_bytes()
    table = read(first.read_text())
    assert (table.soc, table.models) == ("SA8255", ("depthwise",))
    assert told["lines"] == len(table.lines)
    assert told["pairs"] == sum(
        json.loads(line).get("kind") is not None for line in pairs.read_text().splitlines()
    )
    assert {c["name"] for c in told["checks"]} > {"candidates", "whole networks"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "no model; give some"),
        (("--models", "nowhere.txt"), "--models nowhere.txt: No such file"),
        (("a.py:net", "b.py:net"), "b.py:net: a.py:net has the same name, net"),
        (("a.py:net", "--soc", "SM8650"), "SM8650: QNN 2.51 does not simulate this chip"),
        (("a.py:net", "--timeout", "0"), "--timeout 0: give a time above 0 seconds"),
    ],
)
def test_build_table_rejects_bad_arguments(here: Here, options: tuple[str, ...], reason: str) -> None:
    done = here("cost", "build-table", *options)
    assert done.code == 2
    assert done.err.startswith(reason)
