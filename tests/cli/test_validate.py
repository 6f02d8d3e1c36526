"""`opdb validate` of many op configs: without the search for variants, and with invalid lines."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from .compiling import Here


def relu(rank: int, ident: str) -> str:
    tensor = {"name": "x", "dtype": "FLOAT_32", "shape": [2] * rank}
    return json.dumps({"id": ident, "op": "Relu", "inputs": [tensor], "outputs": [tensor | {"name": "y"}]})


def test_an_invalid_line_becomes_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, call = tmp_path / "many.jsonl", Here(capsys)
    file.write_text("\n".join([relu(2, "a"), "{", '{"id": "b", "op": 3}', '{"op": "Nothing"}', relu(7, "c")]))
    target = ("--backend", "HTP", "--soc", "SM8650", "--json")
    assert call("validate", str(file), *target).code == 2
    done = call("validate", str(file), *target, "--keep-going", "--no-nearest")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 1 and [row["verdict"] for row in found] == [
        "accept", "invalid", "invalid", "invalid", "reject",
    ]  # fmt: skip
    assert found[1]["place"].endswith("many.jsonl:2:2") and found[1]["error"].startswith("not JSON")
    assert (found[2]["id"], found[2]["error"]) == ("b", "op: expected a name, got 3")
    assert "Nothing" in found[3]["error"] and found[4]["nearest"] is None
    words = call("validate", str(file), *target[:-1], "--keep-going").out
    assert ":3: b invalid: op: expected a name, got 3" in words and "nearest accepted: x reshaped" in words


def test_no_nearest_skips_the_search_for_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused op configs take less time; the verdicts are the same."""
    file, call = tmp_path / "many.jsonl", Here(capsys)
    file.write_text("\n".join(relu(6 + i % 3, f"{i}") for i in range(60)))
    took, said = {}, {}
    for more in ((), ("--no-nearest",)):
        call("validate", str(file), "--backend", "HTP", "--soc", "SM8650", "--json", *more)
        start = time.process_time()
        done = call("validate", str(file), "--backend", "HTP", "--soc", "SM8650", "--json", *more)
        took[more] = time.process_time() - start
        said[more] = [json.loads(line) | {"nearest": None} for line in done.out.splitlines()]
    assert said[()] == said["--no-nearest",]
    assert took["--no-nearest",] < took[()]


@pytest.mark.parametrize("dtype", ["UNDEFINED", "QNN_DATATYPE_UNDEFINED"])
def test_an_omitted_tensor_may_have_no_data_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dtype: str
) -> None:
    """QNN's own initializer writes the undefined type."""
    x, file = {"dtype": "FLOAT_32", "shape": [2, 4]}, tmp_path / "norm.json"
    axes = {"dtype": "UINT_32", "shape": [1], "data": [1]}
    config = {
        "op": "LayerNorm", "params": {"axes": axes, "epsilon": {"dtype": "FLOAT_32", "value": 1e-6}},
        "inputs": [x, {"dtype": dtype, "type": "NULL", "shape": []}, {"dtype": dtype, "type": "NULL"}], "outputs": [x],
    }  # fmt: skip
    file.write_text(json.dumps(config))
    done = Here(capsys)("validate", str(file), "--backend", "HTP", "--soc", "SM8650", "--json")
    assert "invalid" not in done.out and "not a QNN data type" not in done.err, done.err
    assert done.document["verdict"] in ("accept", "reject")
    file.write_text(json.dumps(config | {"inputs": [{"dtype": dtype, "shape": [2, 4]}]}))
    refused = Here(capsys)("validate", str(file), "--backend", "HTP", "--soc", "SM8650")
    assert refused.code == 2 and "inputs[0].dtype" in refused.err
