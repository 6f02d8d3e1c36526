"""Every command has help; the main ones print text and JSON as documented."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module, metadata
from pathlib import Path

import pytest

from opdb.core.install import DISTRIBUTION

from .conftest import ROOT, Run

COMMANDS = (
    "init", "sync", "lint", "add-op", "generate", "query", "diff", "show", "explain", "doctor", "validate", "check",
    "compile", "build", "recipe show", "run", "debug",
    "conformance run", "conformance torch", "conformance report", "cost build-table", "cost estimate", "probe",
    "errata probe", "errata page",
    "evidence build", "evidence check", "evidence export", "evidence merge", "evidence show",
    "executorch env", "executorch kernels", "executorch patches", "executorch register", "executorch table",
    "libraries chips", "libraries install", "libraries list",
    "context show", "context check", "demo",
    "aic check", "aic skeleton", "package aic", "package check", "package inspect", "package matrix", "package onnx", "package ort",
    "package qnn",
    "import xml", "import udo", "import cloud-ai", "import header", "import docs", "export xml",
    "completion", "help", "site", "version",
    "db upgrade", "db check", "db dump", "db restore", "db datasette", "db views",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(opdb: Run, command: str) -> None:
    done = opdb(*command.split(), "--help")
    assert done.returncode == 0
    assert "Usage: " in done.stdout


def test_the_version_is_printed(opdb: Run) -> None:
    done = opdb("--version")
    assert (done.returncode, done.stdout) == (0, f"opdb {metadata.version(DISTRIBUTION)}\n")


def test_every_command_is_listed_and_described(opdb: Run) -> None:
    import typer

    from opdb.cli import _register, app

    if not app.registered_commands:
        _register()
    group = typer.main.get_command(app)
    found = []
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        children = getattr(command, "commands", None)
        for child, sub in (children or {"": command}).items():
            found.append(f"{name} {child}".strip())
            assert sub.help, f"{name} {child} has no help"
    assert sorted(found) == sorted(COMMANDS)


def test_the_table_of_modules_has_every_command() -> None:
    import typer

    from opdb.cli import _COMMANDS
    from opdb.cli.help import App

    for module, names in _COMMANDS.items():
        app = App()
        app.callback()(lambda: None)
        import_module(f"opdb.cli.{module}").add_to(app)
        assert tuple(typer.main.get_command(app).commands) == names  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("query", "ops"),
        ("diff", "2.25", "2.47"),
        ("show", "Relu"),
        ("explain", "Relu.H1"),
        ("explain", "HTP-0042"),
        ("explain", "3110"),
        ("explain", "no floating point"),
    ],
)
def test_light_commands_load_nothing_heavy(loaded: Run, tmp_path: Path, args: tuple[str, ...]) -> None:
    heavy = {"torch", "numpy", "executorch", "alembic", "sqlalchemy", "jinja2", "rich"}
    code = f"""
import sys
from importlib import import_module, metadata
sys.argv = {["opdb", *args]!r}
from opdb.cli import main
try:
    main()
except SystemExit:
    pass
print(sorted(set(sys.modules) & {heavy!r}), file=sys.stderr)
"""
    env = {**os.environ, "OPDB_URL": f"sqlite:///{tmp_path / 'cli.db'}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.stdout
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_a_new_database_can_be_queried(loaded: Run) -> None:
    rows = json.loads(loaded("query", "ops", "--json").stdout)
    names = sorted(path.stem for path in (ROOT / "specs" / "ops").glob("*.yaml"))
    assert [r["op"] for r in rows] == names
    assert {r["package"] for r in rows} == {"qti.aisw", "OpdbCustom"}
    csv = loaded("query", "ops", "--format", "csv", "--columns", "op").stdout
    assert csv.splitlines() == ["op", *names]
    assert loaded("query", "ops", "--format", "md").stdout.startswith("| op | ")
    assert loaded("query", "ops", "--format", "html").stdout.startswith("<!doctype html>")


def test_sync_twice_changes_nothing(loaded: Run) -> None:
    report = json.loads(loaded("sync", "--json").stdout)
    assert (report["added"], report["changed"], report["removed"]) == ([], [], [])


def test_lint_is_clean(opdb: Run) -> None:
    done = opdb("lint")
    assert (done.returncode, done.stdout) == (0, "")


def test_show_prints_the_spec(loaded: Run) -> None:
    from opdb.spec.files import parse_document

    shown = parse_document(loaded("show", "LayerNorm").stdout, "shown")
    file = parse_document((ROOT / "specs/ops/LayerNorm.yaml").read_text(), "file")
    assert shown.data == file.data


def test_show_and_query_include_the_descriptions(loaded: Run) -> None:
    """The descriptions come from the spec and its base."""
    from opdb.spec.files import parse_document

    def parts(path: str) -> dict[str, dict[str, str]]:
        data = parse_document((ROOT / "specs" / path).read_text(), path).data
        return {n: d for group in ("inputs", "params", "outputs") for n, d in data.get(group, {}).items()}

    for op, wanted in (
        ("Conv2d", parts("ops/Conv2d.yaml")),
        ("ElementWiseUnary", parts("bases/elementwise_unary.yaml") | parts("ops/ElementWiseUnary.yaml")),
    ):
        text, data = loaded("show", op).stdout, json.loads(loaded("show", op, "--json").stdout)
        rows = {
            r["param"]: r["doc"] for r in json.loads(loaded("query", "params", "--op", op, "--json").stdout)
        }
        assert rows == {n: wanted[n]["doc"] for n in data["params"]}
        for name, entry in wanted.items():
            (shown,) = (data[g][name] for g in ("inputs", "params", "outputs") if name in data[g])
            assert shown["doc"] == entry["doc"] and f"    doc: {entry['doc']}\n" in text


def test_diff_prints_changes_and_fails_on_regressions(loaded: Run) -> None:
    done = loaded(
        "diff", "HTP:SM8450", "HTP:SM8650", "--op", "LayerNorm", "--json", "--fail-on", "regression"
    )
    assert done.returncode == 0
    (rule,) = json.loads(done.stdout)
    assert (rule["part"], rule["change"], rule["name"]) == ("rule", "removed", "LayerNorm.H3")
    back = loaded("diff", "SM8650", "SM8450")
    assert (back.returncode, back.stdout) == (2, "")
    assert back.stderr.startswith("opdb: no backend 'SM8650' in the catalog; known: CPU, ")
    assert (
        loaded("diff", "HTP:SM8650", "HTP:SM8450", "--op", "LayerNorm", "--fail-on", "regression").returncode
        == 1
    )
    bad = loaded("diff", "2.25", "2.47", "--fail-on", "nothing")
    assert (bad.returncode, bad.stderr) == (
        2,
        "opdb: --fail-on nothing: one of regression, removed, changed\n",
    )


def test_explain_prints_a_rule_and_its_source(loaded: Run) -> None:
    facts = json.loads(loaded("explain", "LayerNorm.C3", "--json").stdout)
    assert facts["asks"] == "every a in axes must be in [0, the rank of x)"
    assert facts["source"] == "MasterOpDef.html@2.25.0#LayerNorm"


def test_explain_prints_an_erratum_and_its_policy(loaded: Run) -> None:
    facts = json.loads(loaded("explain", "htp-0300", "--json").stdout)
    assert facts["erratum"] == "HTP-0300" and facts["backend"] == "HTP" and facts["effect"] == "wrong-result"
    assert facts["occurs"].startswith("where the dtype of x is f16 or ") and facts["scope"]["since"] == "2.47"
    assert set(facts["policy"]) == {"device", "emulator"} and facts["policy"]["emulator"] == "avoid"
    assert (ROOT / facts["url"]).is_file()
    said = loaded("explain", "HTP-0300").stdout
    for text in (facts["title"], facts["occurs"], facts["when"], "emulator: avoid", facts["url"]):
        assert text in said
    pattern = loaded("explain", "HTP-0390").stdout
    assert "in this pattern: a view, a FullyConnected" in pattern and pattern.count('{"op": ') == 4


REJECTED = {
    "id": "case 1",
    "op": "LayerNorm",
    "inputs": [{"name": "x", "dtype": "FLOAT_32", "shape": [2, 3, 4]}],
    "params": {"axes": {"dtype": "UINT_32", "data": [3]}},
    "outputs": [{"name": "y", "dtype": "FLOAT_32", "shape": [2, 3, 4]}],
}


def test_validate_says_why(opdb: Run) -> None:
    done = opdb("validate", "-", stdin=json.dumps(REJECTED))
    assert done.returncode == 1
    values = "a is 3 at axes[0], axes is [3], x has rank 3"
    assert f"  {values}; every a in axes must be in [0, the rank of x) (LayerNorm.C3)\n" in done.stdout
    full = opdb("validate", "-", "-v", stdin=json.dumps(REJECTED)).stdout
    assert "  every a in axes must be in [0, the rank of x); got a = 3 at axes[0], axes = [3]" in full
    assert "  nearest accepted: axes [2] instead of [3]\n" in done.stdout


def test_validate_json_is_the_contract(opdb: Run) -> None:
    accepted = {**REJECTED, "id": "case 2", "params": {"axes": {"dtype": "UINT_32", "data": [2]}}}
    done = opdb("validate", "-", "--json", stdin=f"{json.dumps(REJECTED)}\n{json.dumps(accepted)}\n")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["id"], first["verdict"], second["verdict"]) == ("case 1", "reject", "accept")
    assert first["nearest"] == {
        "text": "axes [2] instead of [3]",
        "changes": [{"path": "params.axes.data", "slot": "axes", "from": [3], "to": [2]}],
    }
    assert second["nearest"] is None
    violation = first["violations"][0]
    assert violation["rule"] == "LayerNorm.C3"
    assert violation["path"] == "params.axes"
    assert set(violation) == {
        "rule",
        "message",
        "path",
        "got",
        "warning",
        "finalize",
        "strength",
        "why",
        "erratum",
        "effect",
        "policy",
        "url",
    }
    page, _, anchor = violation["url"].partition("#")
    assert f'"{anchor}"' in (ROOT / page).read_text()


@pytest.mark.vendor
def test_validate_compares_with_the_vendors_verdict(opdb: Run) -> None:
    done = opdb(
        "validate",
        "-",
        "--json",
        "--backend",
        "HTP",
        "--soc",
        "SM8650",
        "--against",
        "vendor",
        stdin=json.dumps(REJECTED),
    )
    verdict = json.loads(done.stdout)
    assert verdict["vendor"]["verdict"] == "reject"
    assert verdict["vendor"]["code"] == 3110
    assert any("incorrect Value 3" in line for line in verdict["vendor"]["log"])


@pytest.mark.torch
def test_the_model_of_the_guide_is_supported(opdb: Run) -> None:
    done = opdb("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--json")
    coverage = json.loads(done.stdout)
    assert done.returncode == 0
    assert [r["verdict"] for r in coverage["rows"]] == ["supported", "supported"]
    assert coverage["partitions"] == 1


@pytest.mark.torch
@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("table", "Both nodes run on the NPU"),
        ("json", "{"),
        ("md", "# opdb.plugins.executorch.demo"),
        ("html", "<!doctype html>"),
    ],
)
def test_check_writes_its_report_to_a_file(opdb: Run, tmp_path: Path, form: str, start: str) -> None:
    command = ("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--format", form)
    printed, written = opdb(*command), opdb(*command, "-o", str(tmp_path / "report"))
    assert printed.returncode == written.returncode == 0
    assert printed.stdout.startswith(start) and written.stdout == ""
    assert (tmp_path / "report").read_text() == printed.stdout
    answer = "Both nodes run on the NPU (HTP SM8650), in 1 graph."
    assert written.stderr.startswith(f"{answer}\n2 nodes: 2 supported")


@pytest.mark.torch
def test_check_saves_one_node(opdb: Run, tmp_path: Path) -> None:
    place = ("--soc", "SM8650")
    for file, name in (("node.py", "node.py:make"), ("node.pt2", "node.pt2")):
        saved = opdb(
            "check",
            "opdb.plugins.executorch.demo:guide_model",
            *place,
            "--save-node",
            "linear",
            "-o",
            str(tmp_path / file),
        )
        assert saved.stdout.strip() == str(tmp_path / name)
        rows = json.loads(opdb("check", saved.stdout.strip(), *place, "--json").stdout)["rows"]
        assert [(r["target"], r["verdict"]) for r in rows] == [("aten.linear.default", "supported")]
    done = opdb("check", "opdb.plugins.executorch.demo:guide_model", *place, "--save-node", "linear")
    assert done.returncode == 2 and "-o FILE.py" in done.stderr


def test_check_knows_its_formats(opdb: Run) -> None:
    done = opdb("check", "opdb.plugins.executorch.demo:guide_model", "--soc", "SM8650", "--format", "pdf")
    assert done.returncode == 2 and "one of table, json, md, html" in done.stderr


def test_generate_check_is_clean_and_notices_changes(loaded: Run) -> None:
    done = loaded("generate", "--check")
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_dump_can_be_restored(loaded: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("dump") / "history.jsonl"
    assert loaded("db", "dump", "--output", str(file)).returncode == 0
    assert loaded("db", "restore", str(file)).returncode == 0
    assert loaded("db", "check").returncode == 0


def test_init_prints_one_line(opdb: Run, tmp_path: Path) -> None:
    done = opdb("init", "--db", str(tmp_path / "new.db"))
    assert done.stdout.count("\n") == 1 and " added, 0 changed" in done.stdout


def test_the_demo_names_existing_commands() -> None:
    import typer

    from opdb.cli import _register, app
    from opdb.plugins.executorch.commands.demo import NEXT

    if not app.registered_commands:
        _register()
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for text, _ in NEXT:
        name, *words = text.split()[1:]
        known = {option for p in commands[name].params for option in p.opts} | {"--help"}
        assert {w for w in words if w.startswith("--")} <= known, text
