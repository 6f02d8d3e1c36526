"""The fuzzer: the same cases by seed, every case run once, and a dying process is a finding with its config."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import fuzz
import pytest

from opdb.core.op_config import from_json
from opdb.spec.catalog import Catalog

OPS = ["Gather", "Relu"]


def test_a_batch_depends_only_on_the_seed(catalog: Catalog) -> None:
    relu = catalog.compiled("Relu")
    first, again, other = (list(fuzz.batch(relu, seed, 3)) for seed in (5, 5, 6))
    assert first == again != other and len(first) == fuzz.BATCH
    assert {c.fill for c in first} == set(fuzz.FILLS)
    assert any(c.runs for c in first) and any(not c.runs for c in first)


@pytest.mark.native
def test_fuzzing_resumes_without_repeating_batches(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "BATCH", 50)
    whole = fuzz.fuzz(catalog, OPS, 3000, 1, tmp_path / "whole")
    for configs in (1000, 2000, 3000):
        parts = fuzz.fuzz(catalog, OPS, configs, 1, tmp_path / "parts")
        assert parts.done == configs
    assert parts.counts == whole.counts and parts.batches == {"Gather": 3, "Relu": 3}
    assert whole.findings == []
    for counts in whole.counts.values():
        assert counts["accepted"] + counts["refused"] == counts["configs"] == 1500
        assert counts["run: ok"] and counts["run: invalid"]


@pytest.mark.native
def test_a_dying_process_is_a_finding(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "BATCH", 20)
    sound, bad = fuzz.ask, {4, 5, 19}
    planted = {c.seed: i for i, c in enumerate(fuzz.batch(catalog.compiled("Relu"), 1, 0)) if i in bad}

    def ask(case: fuzz.Case, tell: fuzz.Tell) -> Counter[str]:
        if case.seed in planted:
            tell("planted")
            os.kill(os.getpid(), signal.SIGKILL)
        return sound(case, tell)

    monkeypatch.setattr(fuzz, "ask", ask)
    state = fuzz.fuzz(catalog, ["Relu"], 200, 1, tmp_path)
    assert state.findings == ["Relu-1-0-4.json", "Relu-1-0-5.json", "Relu-1-0-19.json"]
    assert state.done == 200 and state.counts["Relu"]["findings"] == 3
    kept = json.loads((tmp_path / "Relu-1-0-4.json").read_text())
    assert planted[kept["seed"]] == 4 and kept["changed"] == "planted" and "ended with status" in kept["said"]
    assert from_json(kept["config"]).op == "Relu"
    assert fuzz.table(state).splitlines()[-1].startswith("all\t")
    monkeypatch.setattr(fuzz, "ask", sound)
    capsys.readouterr()
    fuzz.replay(tmp_path / "Relu-1-0-4.json")
    assert capsys.readouterr().out.startswith("{'configs': 10")
