"""A backend is one file: nothing else names it, and errors in the file are reported with place and fix."""

from __future__ import annotations

import ast
import csv
import io
import re
import subprocess
from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.sdks import installed_sdks, known_sdk
from opdb.catalog.targets.target import Target, emulates_here, half
from opdb.codegen import constants, docs
from opdb.core.errors import OpdbError, SpecError
from opdb.core.op_config import from_json
from opdb.generated.constants.backends import ASKED, BACKENDS, DEFAULT, PREFERRED
from opdb.generated.constants.sdks import DEFAULT_SDK, SDKS
from opdb.judge.lint import lint
from opdb.judge.validate import check
from opdb.runtime import native

from .npu import NPU, RELU, SPECS, run, with_file, write_constants

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def npu(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Specs with a made-up backend, and the constants generated from them."""
    folder = tmp_path_factory.mktemp("npu")
    specs = with_file(folder)
    return specs, write_constants(read_catalog(specs), folder / "constants")


def test_query_backends_lists_a_new_file(npu: tuple[Path, Path], tmp_path: Path) -> None:
    specs, made = npu
    done = run(made, "init", "--specs", str(specs))
    assert done.returncode == 0, done.stderr
    done = run(made, "query", "backends", "--format", "csv")
    rows = {r["backend"]: r for r in csv.DictReader(io.StringIO(done.stdout))}
    assert list(rows) == ["CPU", "GPU", "DSP", "HTP", "HTA", "LPAI", "NPU"]
    assert rows["NPU"] == {
        "backend": "NPU", "about": "a made-up card", "id": "", "letter": "N", "library": "", "asked": "0",
        "chips": "SM8650, SM8750", "ops": "0", "context": "",
    }  # fmt: skip
    assert rows["HTP"]["ops"] == "4" and rows["HTP"]["context"]


def test_verdicts_of_a_backend_without_rules_are_unknown(npu: tuple[Path, Path]) -> None:
    _, made = npu
    done = run(made, "validate", "-", "--backend", "npu")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "standard input: Relu on NPU: unknown",
        "  only the op definition was judged: the specs hold no rules of Relu on NPU (cannot be evaluated) (Relu.TYPES_NPU)",
    ]
    done = run(made, "validate", "-", "--backend", "NPU", "--soc", "8 Gen 3")
    assert done.stdout.startswith("standard input: Relu on NPU SM8650: unknown")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("validate", "-", "--backend", "NPU", "--soc", "SM8450"), "NPU runs on SM8650, SM8750, not on SM8450"),
        (("validate", "-", "--backend", "NPX"), "unknown backend 'NPX'; did you mean 'NPU'? (known: CPU, GPU, DSP, HTP, HTA, LPAI, NPU)"),
        (("compile", "-", "--backend", "NPU", "-o", "x.bin"), "--backend NPU: graphs are compiled for "),
        (("package", "qnn", "Relu", "--backend", "NPU"), "an op package for NPU is sources for the card's own compiler;"),
    ],
)  # fmt: skip
def test_commands_follow_the_backends_file(
    npu: tuple[Path, Path], args: tuple[str, ...], message: str
) -> None:
    done = run(npu[1], *args)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_the_c_enum_and_the_page_list_the_new_backend(npu: tuple[Path, Path], tmp_path: Path) -> None:
    catalog = read_catalog(npu[0])
    header = next(a.text for a in constants.c(catalog) if a.path.endswith("/backends.h"))
    (tmp_path / "backends.h").write_text(header)
    (tmp_path / "main.c").write_text(
        '#include "backends.h"\n#include <stdio.h>\n'
        'int main(void) { printf("%d %d\\n", OPDB_BACKEND_LPAI, OPDB_BACKEND_NPU); return 0; }\n'
    )
    subprocess.run(["cc", "-Wall", "-Werror", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said == "5 6\n"  # the numbers of the others stay
    page = next(a.text for a in docs.index(catalog) if a.path.endswith("/backends.md"))
    row = (
        "| NPU | a made-up card (SM8650, SM8750) | none known | N1, N2, ... | none | none that opdb drives |"
    )
    assert row in page and "7 backends." in page


def test_a_rule_of_the_new_backend_has_its_letter(tmp_path: Path) -> None:
    specs = with_file(tmp_path)
    relu = specs / "ops" / "Relu.yaml"
    section = "backends:\n  NPU: {source: NpuOps.html@1.0#Relu, constraints: {N1: x.rank <= 2}, dtypes: {All: [{x: f32, y: f32}]}}\n"
    relu.write_text(relu.read_text().replace("backends:\n", section))
    catalog = read_catalog(specs)
    assert [r.id for r in catalog.compiled("Relu").backend_rules["NPU"]] == ["N1"]
    relu.write_text(relu.read_text().replace("{N1:", "{H1:"))
    with pytest.raises(SpecError, match="the rule 'H1' of NPU must be named N1, N2"):
        read_catalog(specs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NPU.replace("letter: N", "letter: H"), "NPU.yaml:3:9: the letter 'H' is that of HTP; choose another"),
        (NPU.replace("letter: N", "letter: C"), "NPU.yaml:3:9: the letter 'C' is that of the op's own rules"),
        (NPU.replace("letter: N", "letter: no"), "NPU.yaml:3:9: 'no' is not one capital letter"),
        (NPU.replace("backend: NPU", "backend: npu"), "NPU.yaml:1:10: 'npu' is not the name of a backend: capitals"),
        (NPU.replace("backend: NPU", "backend: NPV"), "NPU.yaml:1:10: the file must be named backends/NPV.yaml"),
        (NPU.replace("SM8750", "SM8751"), "NPU.yaml:4:17: no chip 'SM8751' in socs.yaml; did you mean 'SM8750'?"),
        (NPU.replace("about: a made-up card\n", ""), "NPU.yaml:1:1: the field 'about' is missing"),
        (NPU + "id: 6\n", "NPU.yaml:6:5: the number 6 is that of HTP; leave it out if none is known"),
        (NPU + "librery: {}\n", "NPU.yaml:6:1: unknown field 'librery'; did you mean 'library'?"),
        (NPU + "library: {file: libNpu.so}\n", "NPU.yaml:6:10: a library has 'x86' where it answers there, else 'refusal'"),
        (NPU + "library: {file: libNpu.so, x86: runs}\n", "NPU.yaml:6:33: 'runs' is not one of 'computes', 'emulates'"),
        (NPU + "context: {arch: bool8}\n", "NPU.yaml:6:17: 'arch' is a u32 of HTP"),
        (NPU + "context: {cores: u64}\n", "NPU.yaml:6:18: 'u64' is not one of 'u32', 'i32', 'bool8'"),
        (NPU + "fields: {cores: nsp}\n", "NPU.yaml:1:1: 'fields' has cores, which is not of 'context'"),
        (NPU + "needs: {FP16: {has: fp16, why: none}}\n", "NPU.yaml:1:1: 'needs' of FP16: 'fp16' is no bool8 of 'context'"),
        (NPU + "measured: {sdk: 2.47}\n", "NPU.yaml:6:17: a version needs quotes; e.g. '2.47'"),
    ],
)  # fmt: skip
def test_errors_in_a_file_name_place_and_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        lint(with_file(tmp_path, text))
    assert message in str(error.value)


def test_a_file_named_all_is_refused(tmp_path: Path) -> None:
    specs = with_file(tmp_path)
    (specs / "backends.yaml").write_text("HTP: {letter: H}\n")
    with pytest.raises(
        SpecError, match=r"backends.yaml:1:1: each backend has a file of its own, e.g. backends/HTP.yaml"
    ):
        read_catalog(specs)


# -- the project's own backends


def test_cloud_ai_is_one_file() -> None:
    """It has no number, library or rules: only the op definitions, on its chip."""
    mentions = [p for p in (ROOT / "opdb").rglob("*.py") if re.search(r"\bAIC\b", p.read_text())]
    packages = "opdb/plugins/cloud_ai/"  # custom ops, whose YAML uses this name for the card
    assert [p for p in mentions if not p.relative_to(ROOT).as_posix().startswith(packages)] == []
    record = BACKENDS["AIC"]
    assert (record.id, record.library, record.chips, record.letter) == (None, None, ("AIC100",), "Q")
    config = from_json(RELU)
    for target in (Target("AIC"), Target("aic", "AIC100"), Target("AIC", "Cloud AI 100")):
        verdict = check(config, target)
        assert (verdict.verdict, [v.rule for v in verdict.violations]) == ("unknown", ["Relu.TYPES_AIC"])
        assert native.validate(config, target.context()) == ()
    worse = from_json(RELU | {"outputs": [RELU["outputs"][0] | {"shape": [3, 2]}]})  # type: ignore[index,operator,dict-item]
    verdict = check(worse, Target("AIC"))
    assert verdict.verdict == "reject" and "Relu.SHAPE_y" in [v.rule for v in verdict.violations]
    with pytest.raises(OpdbError, match="AIC runs on AIC100, not on SM8650"):
        check(config, Target("AIC", "SM8650"))
    assert "OPDB_BACKEND_AIC = 6" in (ROOT / "generated/c/include/opdb/backends.h").read_text()
    assert "| AIC | Cloud AI 100" in (ROOT / "generated/docs/backends.md").read_text()


def test_properties_of_backends_follow_from_their_files() -> None:
    assert (DEFAULT, PREFERRED[:2], [b.name for b in ASKED]) == ("HTP", ("HTP", "CPU"), ["CPU", "HTP"])
    assert half("HTP") and not half("CPU") and not half(None) and not half("IR")
    assert not emulates_here("CPU") and not emulates_here("IR")


def test_no_code_names_a_backend() -> None:
    """Exceptions: bindings to the vendor's libraries, workarounds of errata, a key of PyTorch, SNPE's names of cores
    and the card in Cloud AI's YAML.
    """
    found = []
    for room in ("opdb", "codegen", "runtime"):
        for path in (ROOT / room).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("runtime/qnn/", "opdb/judge/errata/", "opdb/lower/workarounds/")):
                tree = ast.parse(path.read_text())
                texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in BACKENDS]
                found += [(name, n.value) for n in texts]
    found += [(p.name, m) for p in (ROOT / "codegen/templates").iterdir()
              for m in re.findall(r"[\"'](\w+)[\"']", p.read_text()) if m in BACKENDS]  # fmt: skip
    cores = [("opdb/author/importers/udo.py", core) for core in ("CPU", "DSP", "GPU")]
    card = [
        (name, "AIC")
        for name in ("opdb/plugins/cloud_ai/check/config.py", "opdb/plugins/cloud_ai/conformance.py")
    ]
    assert sorted(found) == sorted([*card, *cores, ("opdb/programs/torch_ops/__init__.py", "CPU")])


# -- SDKs


def test_sdks_of_documents_and_libraries_are_known() -> None:
    assert {"2.25", "2.47", "2.51"} <= set(SDKS) and DEFAULT_SDK == "2.47"
    assert known_sdk("2.47") == known_sdk("2.47.0") == 2047
    for sdk in installed_sdks():
        assert known_sdk(sdk, ()) == known_sdk(sdk)


def test_an_unknown_sdk_is_refused() -> None:
    for made in (lambda: known_sdk("9.99"), lambda: Target("HTP", "SM8650", "9.99").context()):
        with pytest.raises(OpdbError, match=r"unknown SDK '9.99': .*; known: 2.25, .*2.51") as error:
            made()
        assert str(error.value).count("2.47") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("diff", "2.47", "9.99"),
        ("query", "types", "--sdk", "9.99"),
        ("query", "support", "--op", "Relu", "--sdk", "9.99"),
        ("validate", "-", "--backend", "CPU", "--sdk", "9.99"),
    ],
)
def test_commands_refuse_an_unknown_sdk(npu: tuple[Path, Path], args: tuple[str, ...]) -> None:
    specs, made = npu
    assert run(made, "init", "--specs", str(specs)).returncode == 0
    done = run(made, *args)
    assert done.returncode == 2 and done.stdout == ""
    assert re.search(
        r"unknown SDK '9.99': opdb has no document or library of that version; known: .*2\.25, .*2\.47",
        done.stderr,
    )


def test_generated_constants_have_every_backend_file() -> None:
    """Backends are in the order of QNN's numbers."""
    names = {p.stem for p in (SPECS / "backends").glob("*.yaml")}
    assert names == set(BACKENDS)
    numbers = [b.id for b in BACKENDS.values() if b.id is not None]
    assert numbers == sorted(numbers)
