"""Writes the pages that are read off the code: cli.md, python-api.md and chips.md of docs/reference, and docs/guides/troubleshooting.md.

    python tools/reference.py            # write what differs
    python tools/reference.py --check    # write nothing; exit 1 if a page differs (tests/docs/test_reference.py)

The command line is asked of Typer, as ``opdb COMMAND --help`` prints it.  The Python API is read from the sources
without importing them, so that neither PyTorch nor ExecuTorch has to be there.  Error codes and log lines are those that
``opdb explain`` knows (opdb/judge/error_codes.yaml).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import typer

import opdb
from opdb import cli
from opdb.catalog.targets.chips import nearest_of, with_name
from opdb.catalog.targets.target import Target
from opdb.cli import help
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import DEFAULT
from opdb.generated.constants.socs import SOCS
from opdb.judge import error_codes

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"opdb.runtime": "runtime", "opdb.codegen": "codegen"}
NOTE = "<!-- Written by tools/reference.py; edit {} and run it again. -->"

#: The stable interface for other programs: the packages whose names stay, and the purpose of each.
FACES = {
    "opdb": "The catalog and models",
    "opdb.plugins.executorch": "ExecuTorch",
    "opdb.plugins.hexagon": "Hexagon",
}


# -- the command line


def cli_page() -> str:
    """The text of docs/reference/cli.md."""
    cli._register()
    root = typer.main.get_command(cli.app)
    lines = [
        "# Command line",
        "",
        NOTE.format("the commands in opdb/cli"),
        "",
        "Exit status: 0 fine, 1 a check failed, 2 bad use or input (one message on standard error, nothing changed).",
        "",
    ]
    for path, command in commands(root, ("opdb",)):
        lines += command_lines(path, command)
    return "\n".join(lines).rstrip() + "\n"


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and its subcommands, in the order of the help."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands(below, (*path, name))


def command_lines(path: tuple[str, ...], command: click.Command) -> list[str]:
    context = command.context_class(command, info_name=path[-1], resilient_parsing=True)
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    found = [(name, about) for _, name, about in help.records(command, context) if "--help" not in name]
    lines = [f"{'#' * min(1 + len(path), 3)} {' '.join(path)}", "", f"    {usage}", ""]
    text = inspect.cleandoc(command.help or "")
    lines += [*text.replace("\b\n", "").splitlines(), ""]
    for title, rows in {"": found, **command.more()}.items():
        if rows:
            lines += [f"| {title.lower()} | |" if title else "| | |", "|---|---|"]
            lines += [f"| `{cell(names)}` | {cell(about)} |" for names, about in rows]
            lines.append("")
    if command.epilog:
        lines += [f"Example: `{command.epilog}`", ""]
    for title, below in help.grouped(command, context) if hasattr(command, "commands") else ():
        lines += [f"| {title} | |", "|---|---|"]
        for name, sub in below:
            at = "-".join([*path, name]).replace(" ", "-")
            lines.append(f"| [{name}](#{at}) | {cell(help.summary(sub))} |")
        lines.append("")
    return lines


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- the Python API


def api_page() -> str:
    """The text of docs/reference/python-api.md."""
    lines = [
        "# Python API",
        "",
        NOTE.format("the docstrings"),
        "",
        "What other programs may rely on: these names stay, or are kept for one release with a DeprecationWarning. Everything",
        "else in the package may change, and so may the attributes of results that no docstring names. A mistake of the caller",
        "raises `opdb.OpdbError`, with a message for people. A test runs the examples (tests/docs/test_python_api.py).",
        "",
    ]
    for face, purpose in FACES.items():
        lines += [f"## {purpose}: `{face}`", ""]
        for name, module in importlib.import_module(face)._MODULES.items():
            if face == "opdb" or name not in opdb.__all__:
                lines += definition_lines(face, definitions(module)[name])
    return "\n".join(lines).rstrip() + "\n"


Definition = ast.FunctionDef | ast.ClassDef


def definitions(module: str) -> dict[str, Definition]:
    """The functions and classes of a module, by name."""
    tree = ast.parse(source(module).read_text(encoding="utf-8"))
    return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def source(module: str) -> Path:
    root = next((r for r in FOLDERS if module.startswith(r)), "")
    rest = module.removeprefix(root).strip(".").split(".")
    path = ROOT.joinpath(FOLDERS.get(root, ""), *rest)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def definition_lines(module: str, node: Definition) -> list[str]:
    """The heading, signature and docstring of a function, or of a class with its public methods."""
    lines = [f"### {module}.{node.name}", "", f"    {signature(node)}", "", *words(node), ""]
    if isinstance(node, ast.ClassDef):
        methods = {m.name: m for m in reversed(node.body) if isinstance(m, ast.FunctionDef) and is_public(m)}
        if methods:
            lines += ["| | |", "|---|---|"]
            for method in reversed(methods.values()):
                lines.append(f"| `{cell(signature(method))}` | {cell(' '.join(words(method)))} |")
            lines.append("")
    return lines


def is_public(method: ast.FunctionDef) -> bool:
    return not method.name.startswith("_")


def signature(node: Definition) -> str:
    """The signature as called, without self; for a dataclass, its fields."""
    if isinstance(node, ast.FunctionDef):
        if any(
            isinstance(d, ast.Name) and d.id in ("property", "cached_property") for d in node.decorator_list
        ):
            return node.name
        arguments = re.sub(r"^(self|cls)(, |$)", "", ast.unparse(node.args))
        result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
        return f"{node.name}({arguments}){result}"
    starts = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"]
    if starts:
        return signature(starts[0]).replace("__init__", node.name, 1)
    if not any("dataclass" in ast.unparse(d) for d in node.decorator_list):
        return node.name
    fields = [
        ast.unparse(f)
        for f in node.body
        if isinstance(f, ast.AnnAssign) and not ast.unparse(f).startswith("_")
    ]
    return f"{node.name}({', '.join(fields)})"


def words(node: Definition) -> list[str]:
    """The docstring as Markdown: ``code`` in single backquotes."""
    text = ast.get_docstring(node)
    if text is None:
        raise SystemExit(
            f"tools/reference.py: {node.name} (line {node.lineno}) is public and has no docstring"
        )
    return list(fenced(text.replace("``", "`").splitlines()))


def fenced(lines: list[str]) -> Iterator[str]:
    """Fences examples as code: from a line with >>> to the next empty one."""
    inside = False
    for line in lines:
        if line.startswith(">>> ") and not inside:
            inside = True
            yield "```python"
        if inside and not line:
            inside = False
            yield "```"
        yield line
    if inside:
        yield "```"


# -- error codes and log lines


def troubleshooting_page() -> str:
    """The text of docs/guides/troubleshooting.md."""
    known = error_codes.known()
    lines = [
        "# Troubleshooting: what you see, what it means, what to type",
        "",
        NOTE.format(f"opdb/judge/{error_codes.DATA}"),
        "",
        "`opdb explain` prints each entry of this page, and needs neither a database nor a library:",
        "",
        *("    " + command for command in EXPLAINED),
        "",
        "Commands are examples: put your file, op and chip in their place. A code without an entry is explained by its name and module.",
        "A wrong result is no error of the library: [debug a wrong result](debug-a-wrong-result.md).",
        "",
        "| you see | it means |",
        "|---|---|",
    ]
    entries = [
        *((line_title(e), error_codes.of_line("", e)) for e in known.lines),
        *((code_title(code), error_codes.of_code(code)) for code in sorted(known.codes)),
    ]
    for title, facts in entries:
        lines.append(f"| [{cell(title)}](#{anchor(title)}) | {cell(facts['means'])} |")
    for group, some in (
        ("Lines of the log", entries[: len(known.lines)]),
        ("Error codes", entries[len(known.lines) :]),
    ):
        lines += ["", f"## {group}"]
        for title, facts in some:
            lines += ["", f"### {title}", "", *entry_lines(facts)]
    return "\n".join(lines) + "\n"


#: Examples of what `opdb explain` takes, for the page.
EXPLAINED = (
    "opdb explain 3110",
    "opdb explain 0xC26",
    "opdb explain QNN_COMMON_ERROR_MEM_ALLOC",
    'opdb explain "Failed to finalize graph (id: 1) with err 1002"',
)


def line_title(entry: error_codes.Entry) -> str:
    return f'"{entry.says[0]}"'


def code_title(code: int) -> str:
    return f"{code} {error_codes.of_code(code)['name']}"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-")


def entry_lines(facts: error_codes.Facts) -> list[str]:
    """An entry of the page below its heading."""
    lines = [facts["means"]]
    if others := facts.get("says", [])[1:]:
        lines += ["", "Also: " + ", ".join(f'"{part}"' for part in others) + "."]
    if "says" in facts and "code" in facts:
        lines += ["", f"Usual code: [{facts['code']}](#{anchor(code_title(facts['code']))})."]
    if "family" in facts:
        lines += ["", f"`{facts['hex']}`; {facts['family']}."]
    if facts["why"]:
        lines += ["", "Why it comes:", ""]
        lines += [f"- {cause['why']} ({sources(cause['source'])})" for cause in facts["why"]]
    width = max(len(step["run"]) for step in facts["type"])
    lines += ["", "What to type:", ""]
    lines += [f"    {step['run']:{width}}  # {step['to']}" for step in facts["type"]]
    if facts["see"]:
        lines += ["", f"See {sources(facts['see'])}."]
    if not facts["why"]:
        lines += ["", f"Source: {sources(facts['source'])}."]
    return lines


def sources(names: Sequence[str]) -> str:
    """Sources as links where they are pages."""
    return ", ".join(source_link(name) for name in names)


def source_link(name: str) -> str:
    """A page of docs/ or of the web, or a file of the repository, as a link from docs/guides; other texts as they are."""
    if name.startswith("https://"):
        owner = re.fullmatch(r"https://github.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", name)
        return f"[{owner[1]}#{owner[2]}]({name})" if owner else f"[Qualcomm's documentation]({name})"
    path, _, heading = name.partition("#")
    if not (ROOT / path).is_file():
        return name
    shown = Path(path).stem + (f", {heading.replace('-', ' ')}" if heading else "")
    link = os.path.relpath(path, "docs/guides") + (f"#{heading}" if heading else "")
    return f"[{shown}]({link})"


# -- chips


def chips_page() -> str:
    """The text of docs/reference/chips.md."""
    taken = [chip for chip in SOCS if not unprepared(chip)]
    left = [chip for chip in SOCS if unprepared(chip)]
    no_floats = sum(not SOCS[chip].fp16 for chip in taken)
    return "\n".join([
        "# Which chip is mine?",
        "",
        NOTE.format("specs/socs.yaml"),
        "",
        *CHIPS,
        "",
        f"## Chips with an HTP: {len(taken)}, {no_floats} of them without floats",
        "",
        "| chip | sold as | Hexagon | floats | simulated | Linux | QNN |",
        "|---|---|---|---|---|---|---|",
        *map(chip_line, taken),
        "",
        f"## Chips without: {len(left)}",
        "",
        *LEFT,
        "",
        "| chip | sold as | Hexagon | nearest that works | Linux |",
        "|---|---|---|---|---|",
        *(left_line(chip, taken) for chip in left),
    ]) + "\n"  # fmt: skip


CHIPS = """\
`--soc` takes each name of this page, in any case: `SM8650`, `SM8650-AB`, `8 Gen 3`, `SA8775P`, `RB3 Gen 2`. If you have the
device, ask it:

    adb shell getprop ro.soc.model        # Android 12 and later: SM8650
    cat /sys/devices/soc0/soc_id          # Linux and Android: 557

To look up a number of Linux: `opdb query socs --where "soc_ids like '%557%'"`. `opdb query socs` has the facts of this page, and
QNN's own number of each chip (`soc_model`).

- **Hexagon**: the version that an op package and `libQnnHtpV75Skel.so` are built for.
- **Floats**: the types besides integers that the HTP computes in. If there are none, quantize the model.
- **Simulated**: the first version of QNN whose library estimates latencies for the chip ([cost.md](../guides/cost.md)). `opdb run`
  emulates every chip of the first table.
- **Linux**: the number in `/sys/devices/soc0/soc_id`.
- **QNN**: the first version whose libraries know the chip, if it is not the oldest that opdb has seen.
""".splitlines()
LEFT = """\
QNN's libraries know these chips, but prepare nothing for an HTP of theirs. Most have none: the HTP begins with Hexagon v68.
Commands refuse them for `--backend HTP` and name the nearest chip that works. `opdb check --backend GPU` and, for v65 and v66,
`--backend DSP` check models for them.
""".splitlines()


def unprepared(chip: str) -> bool:
    try:
        Target(DEFAULT, chip).check_chip()
    except OpdbError:
        return True
    return False


def chip_line(chip: str) -> str:
    soc = SOCS[chip]
    floats = ", ".join(name for name, has in (("fp16", soc.fp16), ("bf16", soc.bf16)) if has) or "none"
    simulated = f"QNN {soc.simulated}" if soc.simulated else ""
    numbers = ", ".join(map(str, soc.soc_ids))
    since = soc.libraries.removeprefix("since ")
    return row(chip, ", ".join(soc.names), f"v{soc.htp_arch}", floats, simulated, numbers, since)


def left_line(chip: str, taken: Sequence[str]) -> str:
    soc = SOCS[chip]
    hexagon = f"v{soc.htp_arch}" if soc.htp_arch else ""
    nearest = with_name(nearest_of(chip, taken) or "")
    return row(chip, ", ".join(soc.names), hexagon, nearest, ", ".join(map(str, soc.soc_ids)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


PAGES = {
    "docs/reference/chips.md": chips_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/python-api.md": api_page,
    "docs/guides/troubleshooting.md": troubleshooting_page,
}


def main() -> int:
    differ = []
    for name, page in PAGES.items():
        text, path = page(), ROOT / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differ.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    for name in differ:
        print(f"differs {name}: run tools/reference.py" if "--check" in sys.argv else f"wrote {name}")
    return int("--check" in sys.argv and bool(differ))


if __name__ == "__main__":
    sys.exit(main())
