"""Files written, edits refused, and the state left after a failure."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from opdb.catalog.store.current import Snapshot
from opdb.codegen import commit, formatters, writer
from opdb.codegen.artifact import Artifact, Target
from opdb.codegen.targets import TARGETS
from opdb.codegen.writer import HandEdited, check, diff, generate
from opdb.core.errors import OpdbError
from opdb.spec.catalog import Catalog

Files = Callable[..., Target]
A = {"docs/a.md": "A\n", "python/a.py": "a = 1\n", "tables/a.csv": "a,b\n"}


def contents(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def kinds(differences: Sequence[writer.Difference]) -> dict[str, str]:
    return {d.name: d.kind for d in differences}


def test_a_second_run_renders_and_writes_nothing(
    mini: Catalog, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tree / "build" / "rendered.json"
    first = generate(mini, tree, TARGETS, memory=memory)
    assert len(first.written) >= 18 and not first.removed
    before = {p: p.stat().st_mtime_ns for p in tree.rglob("*")}

    def refuse(*_: object) -> None:
        raise AssertionError("a run with nothing to do renders nothing")

    monkeypatch.setattr(formatters, "_run", refuse)
    monkeypatch.setattr(Target, "render", refuse)
    second = generate(mini, tree, TARGETS, memory=memory)
    assert (second.written, second.removed, second.unchanged) == ((), (), len(first.written))
    assert {p: p.stat().st_mtime_ns for p in tree.rglob("*")} == before | {
        tree / "generated": (tree / "generated").stat().st_mtime_ns
    }


def test_only_changed_files_are_written(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    before = (tree / "generated/docs/a.md").stat()
    (tree / "generated/python/a.py").unlink()
    result = generate(mini, tree, [files(A)])
    assert result.written == ("generated/python/a.py",)
    after = (tree / "generated/docs/a.md").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_changed_op_changes_its_files_only(mini: Catalog, tree: Path) -> None:
    generate(mini, tree, TARGETS)
    own = dict(mini.own)
    own["Relu"] = own["Relu"].model_copy(update={"summary": "Another summary."})
    changed = Catalog(own, mini.bases, mini.families, mini.backends, mini.socs, mini.retired)
    result = generate(changed, tree, TARGETS)
    assert "generated/docs/ops/Relu.md" in result.written
    assert not [n for n in result.written if "concat" in n.lower()]
    assert check(changed, tree, TARGETS) == []


def stands_for(catalog: Catalog, read: list[str]) -> Snapshot:
    """The snapshot of a catalog as SQL has it; ``read`` records loads of the catalog itself."""

    def load() -> Catalog:
        read.append(catalog.hash)
        return catalog

    ops = {n: catalog.op_hash(n) for n in catalog.ops}
    families = {n: catalog.family_hash(n) for n in catalog.families}
    return Snapshot(catalog.hash, ops, families, tuple(catalog.backends), load)


def test_the_catalog_is_loaded_only_for_rendering(mini: Catalog, tree: Path) -> None:
    read: list[str] = []
    memory = tree / "build" / "rendered.json"
    first = generate(stands_for(mini, read), tree, TARGETS, memory=memory)
    assert read and check(mini, tree, TARGETS) == []
    read.clear()
    again = generate(stands_for(mini, read), tree, TARGETS, memory=memory)
    assert (again.written, again.unchanged) == ((), len(first.written))
    assert read == []
    (tree / "generated/docs/ops/Relu.md").unlink()
    assert generate(stands_for(mini, read), tree, TARGETS, memory=memory).written == (
        "generated/docs/ops/Relu.md",
    )
    own = {**mini.own, "Relu": mini.own["Relu"].model_copy(update={"summary": "Another summary."})}
    changed = Catalog(own, mini.bases, mini.families, mini.backends, mini.socs, mini.retired)
    written = generate(stands_for(changed, read), tree, TARGETS, memory=memory).written
    assert "generated/docs/ops/Relu.md" in written
    assert read == [mini.hash, changed.hash]
    with (tree / "generated/docs/ops/Relu.md").open("a") as file:
        file.write("mine\n")
    with pytest.raises(HandEdited):
        generate(stands_for(changed, read), tree, TARGETS, memory=memory)


# -- hand edits


@pytest.mark.parametrize("path", ["generated/docs/a.md", "generated/python/a.py"])
def test_a_hand_edit_is_refused_and_kept(path: str, mini: Catalog, tree: Path, files: Files) -> None:
    targets = [files(A)]
    generate(mini, tree, targets)
    with (tree / path).open("a") as file:
        file.write("mine\n")
    before = contents(tree)
    with pytest.raises(
        HandEdited, match=r"was edited by hand; move the change into specs/ .* --force"
    ) as caught:
        generate(mini, tree, targets)
    assert "-mine\n" in caught.value.differences[0].diff
    assert contents(tree) == before
    result = generate(mini, tree, targets, force=True)
    assert len(result.written) == 1
    assert check(mini, tree, targets) == []


def test_an_outdated_file_is_not_a_hand_edit(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    new = {"docs/a.md": "B\n", "python/a.py": "a = 2\n"}
    assert set(generate(mini, tree, [files(new)]).written) == {"generated/docs/a.md", "generated/python/a.py"}


@pytest.mark.parametrize("path", ["generated/tables/a.csv", "README.md"])
def test_files_without_a_checksum_are_overwritten(path: str, mini: Catalog, tree: Path, files: Files) -> None:
    targets = [files(A), *(t for t in TARGETS if t.name == "readme")]
    generate(mini, tree, targets)
    before = (tree / path).read_text()
    after = (
        before.replace("<!-- /ops -->", "mine\n<!-- /ops -->") if path == "README.md" else before + "mine\n"
    )
    (tree / path).write_text(after)
    assert len(check(mini, tree, targets)) == 1
    assert len(generate(mini, tree, targets).written) == 1
    assert (tree / path).read_text() == before


def test_a_foreign_file_in_the_way_is_kept(mini: Catalog, tree: Path, files: Files) -> None:
    (tree / "generated/docs").mkdir(parents=True)
    (tree / "generated/docs/a.md").write_text("somebody's notes\n")
    with pytest.raises(HandEdited):
        generate(mini, tree, [files(A)])
    assert sorted(contents(tree)) == ["README.md", "generated/docs/a.md"]


# -- removal


def test_obsolete_files_are_removed_with_their_folders(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    (tree / "generated/docs/notes.txt").write_text("not ours\n")
    result = generate(mini, tree, [files({"python/a.py": "a = 1\n"})])
    assert set(result.removed) == {"generated/docs/a.md", "generated/tables/a.csv"}
    assert not (tree / "generated/tables").exists()
    assert (tree / "generated/docs/notes.txt").exists()


def test_files_of_a_removed_op_are_removed(mini: Catalog, tree: Path) -> None:
    generate(mini, tree, TARGETS)
    own = {n: o for n, o in mini.own.items() if n != "Relu"}
    families = {n: f for n, f in mini.families.items() if n != "relu"}
    fewer = Catalog(own, mini.bases, families, mini.backends, mini.socs, mini.retired)
    assert "generated/docs/ops/Relu.md" in generate(fewer, tree, TARGETS).removed
    assert not [n for n in contents(tree) if "relu" in n.lower()]
    assert check(fewer, tree, TARGETS) == []


def test_an_edited_obsolete_file_is_kept(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    with (tree / "generated/docs/a.md").open("a") as file:
        file.write("mine\n")
    with pytest.raises(HandEdited):
        generate(mini, tree, [files({})])
    assert (tree / "generated/docs/a.md").exists()


# -- check and diff


def test_check_names_every_difference(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    assert check(mini, tree, [files(A)]) == []
    (tree / "generated/docs/a.md").write_text("B\n")
    (tree / "generated/python/a.py").unlink()
    (tree / "generated/python/b.py").write_text("b = 1\n")
    (tree / "generated/python/__pycache__").mkdir()
    (tree / "generated/python/__pycache__/a.pyc").write_bytes(b"\xff")
    before = contents(tree)
    found = check(mini, tree, [files(A)])
    assert kinds(found) == snapshot(
        {
            "generated/docs/a.md": "differs",
            "generated/python/a.py": "missing",
            "generated/python/b.py": "unexpected",
        }
    )
    assert "-B\n" in found[0].diff and "+A\n" in found[0].diff
    assert "--- /dev/null" in found[1].diff and "+++ /dev/null" in found[2].diff
    assert contents(tree) == before


def test_cached_texts_are_compared_with_the_disk(mini: Catalog, tree: Path, files: Files) -> None:
    memory = tree / "build" / "rendered.json"
    generate(mini, tree, [files(A)], memory=memory)
    (tree / "generated/tables/a.csv").write_text("1,2\n")
    assert kinds(check(mini, tree, [files(A)], memory=memory)) == {"generated/tables/a.csv": "differs"}
    assert generate(mini, tree, [files(A)], memory=memory).written == ("generated/tables/a.csv",)


def test_diff_shows_what_generate_would_change(mini: Catalog, tree: Path, files: Files) -> None:
    generate(mini, tree, [files(A)])
    new = files({"docs/a.md": "B\n", "docs/b.md": "new\n"})
    before = contents(tree)
    shown = diff(mini, tree, [new])
    assert contents(tree) == before
    done = generate(mini, tree, [new])
    assert {d.name for d in shown} == {*done.written, *done.removed}


# -- limits


def test_generating_one_op_leaves_other_ops_alone(mini: Catalog, tree: Path) -> None:
    generate(mini, tree, TARGETS)
    for name in ("Relu", "Concat"):
        (tree / f"generated/docs/ops/{name}.md").unlink()
    assert generate(mini, tree, TARGETS, ops=["Relu"]).written == ("generated/docs/ops/Relu.md",)
    assert kinds(check(mini, tree, TARGETS)) == {"generated/docs/ops/Concat.md": "missing"}
    assert generate(mini, tree, TARGETS).written == ("generated/docs/ops/Concat.md",)


def test_generating_one_target_leaves_others_alone(mini: Catalog, tree: Path) -> None:
    assert {n.split("/")[1] for n in generate(mini, tree, TARGETS, only=["docs"]).written} == {"docs"}
    generate(mini, tree, TARGETS)
    assert generate(mini, tree, TARGETS, only=["docs"]).removed == ()
    assert check(mini, tree, TARGETS) == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"only": ["dcos"]}, "no target 'dcos'; did you mean 'docs'?"),
        ({"ops": ["relu"]}, "no op 'relu'; did you mean 'Relu'?"),
        ({"ops": ["../x"]}, "no op '../x'; known: Concat, ElementWiseUnary, Relu"),
    ],
)
def test_an_unknown_name_is_refused(
    limits: dict[str, list[str]], message: str, mini: Catalog, tree: Path
) -> None:
    with pytest.raises(OpdbError) as caught:
        generate(mini, tree, TARGETS, **limits)
    assert str(caught.value) == message


def test_two_targets_for_one_file_are_refused(mini: Catalog, tree: Path, files: Files) -> None:
    with pytest.raises(OpdbError, match=r"two targets generate generated/docs/a\.md: files and more"):
        generate(mini, tree, [files(A), files(A, "more")])
    assert sorted(contents(tree)) == ["README.md"]


# -- regions


def test_text_around_a_generated_region_is_kept(mini: Catalog, tree: Path) -> None:
    (tree / "README.md").chmod(0o600)
    generate(mini, tree, TARGETS)
    text = (tree / "README.md").read_text()
    assert text.startswith("# Title\n\n<!-- ops -->\n") and text.endswith("\n<!-- /ops -->\n\nEnd.\n")
    assert "| CPU | 1 | 1 |" in text
    assert (tree / "README.md").stat().st_mode & 0o777 == 0o600
    (tree / "README.md").write_text("New words.\n" + text)
    assert generate(mini, tree, TARGETS).written == ()


@pytest.mark.parametrize(
    "text", ["no markers\n", "<!-- /ops -->\n<!-- ops -->\n", 2 * "<!-- ops -->\n<!-- /ops -->\n"]
)
def test_missing_markers_are_named(text: str, mini: Catalog, tree: Path) -> None:
    (tree / "README.md").write_text(text)
    with pytest.raises(OpdbError, match=r"README\.md needs the lines <!-- ops --> and <!-- /ops -->"):
        generate(mini, tree, TARGETS)
    assert sorted(contents(tree)) == ["README.md"]


# -- failures


def test_a_held_lock_is_reported_and_a_stale_one_ignored(mini: Catalog, tree: Path, files: Files) -> None:
    (tree / "generated").mkdir()
    with (tree / commit.LOCK).open("w") as file:
        file.write("4711\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OpdbError, match=r"another opdb generate \(process 4711\) is writing"):
            generate(mini, tree, [files(A)])
    assert len(generate(mini, tree, [files(A)]).written) == 3
    assert not (tree / commit.LOCK).exists()


def test_a_full_disk_changes_nothing(
    mini: Catalog, tree: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th sync fails, for every n before the first file is replaced."""
    generate(mini, tree, [files(A)])
    before = contents(tree)
    new = files({"docs/a.md": "B\n", "docs/new/b.md": "new\n", "python/a.py": "a = 2\n"})
    real, calls, fail_at = os.fsync, 0, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fail_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for step in range(1, 4):  # three files
        calls, fail_at = 0, step
        with pytest.raises(
            OpdbError, match=r"cannot write .*: the disk is full; free some space; nothing was changed"
        ):
            generate(mini, tree, [new])
        assert contents(tree) == before
        assert not (tree / "generated/docs/new").exists()
    fail_at = 0
    assert len(generate(mini, tree, [new]).written) == 3


def test_a_failing_replacement_leaves_whole_files(
    mini: Catalog, tree: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(mini, tree, [files(A)])
    new = files({n: t.replace("a", "b") for n, t in A.items()})
    real, calls = os.replace, 0

    def broken(source: str, target: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:  # one file went well
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(
            OpdbError, match=r"cannot write generated/.*: input/output error; then run opdb generate again"
        ):
            generate(mini, tree, [new])
    assert not [n for n in contents(tree) if n.endswith(".new")]
    generate(mini, tree, [new])
    assert check(mini, tree, [new]) == []


def test_a_read_only_folder_is_named(mini: Catalog, files: Files) -> None:
    target = files(A)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "generated").mkdir()
        for folder in (root, root / "generated"):
            folder.chmod(0o555)
        user = os.geteuid()
        if user == 0:  # permissions do not bind root
            os.seteuid(65534)
        try:
            with pytest.raises(
                OpdbError, match=r"^cannot write generated/\.lock: no permission; make the folder"
            ):
                generate(mini, root, [target])
        finally:
            os.seteuid(user)
            (root / "generated").chmod(0o755)
        assert contents(root) == {}


def test_a_killed_run_leaves_no_orphans(mini: Catalog, tree: Path, files: Files) -> None:
    """A killed run leaves new files that the next run does not generate; the next run removes them."""
    generate(mini, tree, [files(A)])
    script = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import HERE, catalog_of
from opdb.codegen import commit
from opdb.codegen.artifact import Artifact, Target
from opdb.codegen.writer import generate
made = [Artifact(f"generated/new/b.{s}", "b\\n", ("x",), l) for s, l in (("csv", "csv"), ("md", "markdown"))]
target = Target("files", "", whole=lambda catalog: made, reads=(Path(sys.argv[1], "conftest.py"),))
replace = os.replace
def killed(source, target):
    replace(source, target)
    if target.name == "b.csv":
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
generate(catalog_of(HERE / "specs"), Path(sys.argv[2]), [target])
"""
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tree)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (tree / "generated/new/b.csv").exists()
    generate(mini, tree, [files(A)])
    assert check(mini, tree, [files(A)]) == []
    assert sorted(p.name for p in (tree / "generated").iterdir()) == [
        "docs",
        "python",
        "tables",
    ]


def test_a_failing_target_is_named_and_nothing_is_written(mini: Catalog, tree: Path, files: Files) -> None:
    def fail(catalog: Catalog, op: str) -> list[Artifact]:
        raise OpdbError("no kernel of this name")

    with pytest.raises(OpdbError, match=r"^kernels/Concat: no kernel of this name$"):
        generate(mini, tree, [files(A), Target("kernels", "", per_op=fail)])
    assert sorted(contents(tree)) == ["README.md"]
