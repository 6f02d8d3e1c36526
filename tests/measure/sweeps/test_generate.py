"""Generated configs: determined by seed and number, valid by the spec if unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import from_json, to_json
from opdb.measure.sweeps.generate import CHANGES, Generator
from opdb.measure.sweeps.mutate import MOST
from opdb.measure.sweeps.verdicts import Validator, validators_of
from opdb.spec.catalog import Catalog

MINI = Path(__file__).parents[2] / "data" / "mini"
CPU, HTP = Target("CPU", None, "2.25"), Target("HTP", "SM8650", "2.25")
N = 80


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_catalog(MINI)


@pytest.fixture(scope="module")
def validators(catalog: Catalog) -> dict[str, Validator]:
    return validators_of(catalog)


@pytest.fixture(params=["Concat-CPU", "ElementWiseAdd-HTP", "LayerNorm-CPU", "LayerNorm-HTP", "Relu-HTP"])
def generator(request: pytest.FixtureRequest, validators: dict[str, Validator]) -> Iterator[Generator]:
    op, _, backend = request.param.partition("-")
    yield Generator(validators[op], CPU if backend == "CPU" else HTP, 3)


def test_a_config_depends_only_on_its_number(generator: Generator) -> None:
    """The order and the generator object do not matter."""
    again = Generator(generator.validator, generator.target, generator.seed)
    forward = [generator.config(i) for i in range(N)]
    assert forward == [again.config(i) for i in reversed(range(N))][::-1]
    other = Generator(generator.validator, generator.target, generator.seed + 1)
    assert forward != [other.config(i) for i in range(N)]


def test_another_process_generates_the_same_configs(validators: dict[str, Validator]) -> None:
    code = (
        "import json, pathlib, sys\n"
        "from opdb.core.op_config import to_json\nfrom opdb.measure.sweeps.generate import Generator\n"
        "from opdb.measure.sweeps.verdicts import validators_of\nfrom opdb.catalog.store import read_catalog\n"
        "from opdb.catalog.targets.target import Target\n"
        f"v = validators_of(read_catalog(pathlib.Path({str(MINI)!r})))['LayerNorm']\n"
        "g = Generator(v, Target('HTP', 'SM8650', '2.25'), 3)\n"
        "print(json.dumps([to_json(g.config(i).config) for i in range(40, 60)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    generator = Generator(validators["LayerNorm"], HTP, 3)
    assert json.loads(done.stdout) == [to_json(generator.config(i).config) for i in range(40, 60)]


def test_unchanged_configs_are_valid(generator: Generator) -> None:
    good = [m for i in range(0, N, len(CHANGES)) if not (m := generator.config(i)).changes]
    assert len(good) == N / len(CHANGES)
    for made in good:
        assert generator.judged(made.config).verdict == "accept", made
        assert made.type_row.startswith(f"{generator.target.backend}.")
    assert len({m.config for m in good}) > len(good) / 4


def test_changes_give_accepted_and_rejected_configs(generator: Generator) -> None:
    """About half are still accepted after one change, fewer after two: both sides of a rule are probed."""
    verdicts = Counter(
        (len(m.changes), generator.judged(m.config).verdict) for m in map(generator.config, range(N))
    )
    assert verdicts[1, "accept"] >= 5 and verdicts[1, "reject"] >= 5 and verdicts[2, "reject"] >= 5


def test_configs_survive_a_json_round_trip(generator: Generator) -> None:
    """They have no tensor names (QNN uses positions), and small sizes."""
    for made in map(generator.config, range(N)):
        c = made.config
        assert from_json(json.loads(json.dumps(to_json(c)))) == c
        assert not any(t.name for t in (*c.inputs, *c.outputs))
        for t in (*c.inputs, *c.outputs):
            size = 1
            for d in t.shape:
                size *= d
            assert size <= MOST


def test_a_spec_without_samples_is_an_error(
    validators: dict[str, Validator], tmp_path: Path, catalog: Catalog
) -> None:
    definition = catalog.ops["Relu"].model_copy(update={"samples": []})
    from opdb.spec.compiler import compile_op

    bare = Validator(compile_op(definition, catalog.context), validators["Relu"].source)
    with pytest.raises(OpdbError, match="Relu: its spec has no samples"):
        Generator(bare, CPU, 0).config(0)


def test_a_backend_without_a_document_gets_configs_too(validators: dict[str, Validator]) -> None:
    """Uses types that other backends accept."""
    generator = Generator(validators["Relu"], Target("LPAI"), 0)
    made = generator.config(0)
    assert made.type_row == "" and generator.judged(made.config).verdict == "unknown"
