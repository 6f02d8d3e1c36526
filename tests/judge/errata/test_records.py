"""Records of specs/errata: errors in one are reported with their place; a valid one becomes a hit of the validator."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from opdb.catalog.store import Store, read_catalog
from opdb.codegen import validators
from opdb.core.errors import SpecError
from opdb.core.op_config import OpConfig, from_json
from opdb.runtime.binding import Context
from opdb.runtime.checks import Violation
from opdb.spec.catalog import Catalog

SOUND = """\
erratum: HTP-0007
title: LayerNorm returns wrong numbers for more than 100 elements
op: LayerNorm
effect: wrong-result
let:
  count: prod(x.shape)
  doubled: count * 2
when: doubled > 200 and all(a * count > 0 for a in axes)
unless: x.dtype == uq8
detail: It is worse behind another op.
scope:
  since: '2.40'
  until: '2.47'
  arch: [73, 75]
workaround: other-candidate
cost:
  class: small
  note: one more op
seen:
- library: HTP 2.47.0
  socs: [SM8650]
  date: '2026-11-20'
  source: probe HTP 2.47.0 SM8650
evidence:
- device: a phone
  model: a network
  runtime: qnn_dlc
  figure: 68.0 %
  shows: absent
  source: paper@1.0#table
reproduction:
  config: {op: LayerNorm, inputs: [{name: x, dtype: FLOAT_16, shape: [2, 4]}], params: {}, outputs: []}
  inputs: {x: arange}
  expected: the normalized rows
  seen: zeros
"""


@pytest.fixture
def write(mini_specs: Path) -> Any:
    def write(text: str, name: str = "htp/HTP-0007") -> Path:
        path = mini_specs / "errata" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return mini_specs

    return write


def changed(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new)


@pytest.mark.parametrize(("text", "name", "said"), [
    (changed("op: LayerNorm\n", "op: LayerNrm\n"), "htp/HTP-0007",
     "errata/htp/HTP-0007.yaml:3:5: no op 'LayerNrm' in ops/; did you mean 'LayerNorm'?"),
    (SOUND, "htp/HTP-0008",
     "errata/htp/HTP-0008.yaml:1:10: the file must be named errata/htp/HTP-0007.yaml"),
    (SOUND, "cpu/HTP-0007",
     "errata/cpu/HTP-0007.yaml:1:10: the file must be named errata/htp/HTP-0007.yaml"),
    (changed("HTP-0007", "NPU-0007"), "npu/NPU-0007",
     "errata/npu/NPU-0007.yaml:1:10: no backend 'NPU' in backends/"),
    (changed("HTP-0007", "HTP-7"), "htp/HTP-7",
     "errata/htp/HTP-7.yaml:1:10: 'HTP-7' is not the id of an erratum: the backend in capitals, a hyphen and four"
     " digits; e.g. HTP-0042"),
    (changed("since: '2.40'", "since: newest"), "htp/HTP-0007", "HTP-0007.yaml:12:10: 'newest' is not an SDK version"),
    (changed("since: '2.40'", "since: 2.40"), "htp/HTP-0007", "HTP-0007.yaml:12:10: a version needs quotes"),
    (changed("until: '2.47'", "until: '2.39'"), "htp/HTP-0007",
     "HTP-0007.yaml:13:11: the version 2.39 comes before since, 2.40"),
    (changed("arch: [73, 75]", "socs: [SM8655]"), "htp/HTP-0007",
     "HTP-0007.yaml:14:10: no chip 'SM8655' in socs.yaml; did you mean 'SM8650'?"),
    (changed("doubled > 200", "doubld > 200"), "htp/HTP-0007", "HTP-0007.yaml:8:7: unknown name 'doubld'"),
    (changed("count: prod(x.shape)", "axes: prod(x.shape)"), "htp/HTP-0007",
     "HTP-0007.yaml:6:3: 'axes' is a name of LayerNorm; choose another"),
    (changed("effect: wrong-result", "effect: not-finalized"), "htp/HTP-0007",
     "the cause of 'not-finalized' is always graph-preparation"),
    (changed("workaround: other-candidate", "workaround: Other Candidate"), "htp/HTP-0007",
     "HTP-0007.yaml:15:13: 'Other Candidate' is not the name of a workaround"),
    (changed("  class: small\n", "  class: tiny\n"), "htp/HTP-0007",
     "HTP-0007.yaml:17:10: 'tiny' is not one of 'none', 'small', 'large'"),
    (SOUND.replace("LayerNorm", "Relu").replace("HTP-", "DSP-").replace(", axes", ""), "dsp/DSP-0007",
     "Relu has no section 'DSP'; give it one in specs/ops/Relu.yaml, or describe the fault by 'pattern' alone"),
])  # fmt: skip
def test_errors_in_a_record_name_their_place(write: Any, text: str, name: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_catalog(write(text, name))
    assert said in "\n".join(map(str, caught.value.problems))


def test_a_record_without_op_needs_a_pattern(write: Any) -> None:
    text = re.sub(r"^op: .*\n", "", SOUND, flags=re.M)
    with pytest.raises(SpecError, match="an erratum has an 'op', or a 'pattern' of ops in words"):
        read_catalog(write(text))


def test_a_record_survives_a_round_trip_through_sql(write: Any, store: Store) -> None:
    specs = write(SOUND)
    report = store.sync(specs)
    assert "errata/htp/HTP-0007.yaml" in report.added
    found, read = store.load_catalog(), read_catalog(specs)
    assert found == read and found.errata["HTP-0007"] == read.errata["HTP-0007"]
    before = read_catalog(specs).op_hash("LayerNorm")
    write(changed("> 200", "> 300"))
    assert store.sync(specs).changed == ("errata/htp/HTP-0007.yaml",)
    after = store.load_catalog()
    assert after.op_hash("LayerNorm") != before and after.hash != report.hash
    (specs / "errata/htp/HTP-0007.yaml").unlink()
    assert store.sync(specs).removed == ("errata/htp/HTP-0007.yaml",)
    assert store.load_catalog().errata == {}


# -- hits


def validator(catalog: Catalog) -> ModuleType:
    module = ModuleType("made")
    (artifact,) = validators.python(catalog, "LayerNorm")
    exec(compile(artifact.text, "layer_norm.py", "exec"), module.__dict__)
    return module


def config(rows: int, dtype: str = "FLOAT_16", axes: Any = (1,)) -> OpConfig:
    x = {"name": "x", "dtype": dtype, "shape": [rows, 10]}
    if "FIXED" in dtype:
        x["quant"] = {"encoding": "SCALE_OFFSET", "scale": 0.1, "offset": 0}
    axes = {"dtype": "UINT_32", "shape": [len(axes)], "data": list(axes)}
    return from_json(
        {"op": "LayerNorm", "inputs": [x], "params": {"axes": axes}, "outputs": [{**x, "name": "y"}]}
    )


@pytest.fixture
def hits(write: Any) -> Any:
    module = validator(read_catalog(write(SOUND)))

    def hits(given: OpConfig, arch: int = 75, sdk: int = 2047, backend: str = "HTP") -> list[Violation]:
        found = module.validate(given, Context(backend, sdk=sdk, arch=arch, soc_model=57))
        return [v for v in found if v.erratum]

    return hits


def test_a_hit_describes_the_fault_and_never_rejects(hits: Any) -> None:
    (hit,) = hits(config(11))
    assert (hit.rule, hit.erratum, hit.effect) == ("HTP-0007", "HTP-0007", "wrong-result")
    assert hit.sentence == "LayerNorm returns wrong numbers for more than 100 elements"
    assert hit.why == "It is worse behind another op."
    assert "x.shape = [11, 10]" in hit.got and not hit.undecidable and not hit.refuses


@pytest.mark.parametrize("outside", [
    {"given": config(10)},
    {"given": config(11, "UFIXED_POINT_8")},
    {"given": config(11, axes=(0,))},
    {"given": config(11), "arch": 79},
    {"given": config(11), "sdk": 2039},
    {"given": config(11), "sdk": 2048},
    {"given": config(11), "backend": "CPU"},
])  # fmt: skip
def test_no_hit_outside_of_condition_and_scope(hits: Any, outside: dict[str, Any]) -> None:
    assert hits(**outside) == []


def test_an_undecidable_condition_is_not_a_hit(write: Any) -> None:
    text = changed("unless: x.dtype == uq8", "unless: x.shape[7] == 1")
    found = validator(read_catalog(write(text))).validate(
        config(11), Context("HTP", sdk=2047, arch=75, soc_model=57)
    )
    assert not [v for v in found if v.erratum]
