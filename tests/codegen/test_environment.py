"""The filters of templates, each checked with a reader of its output; and the sandbox around templates."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import SecurityError
from markdown_it import MarkdownIt

from opdb.codegen import environment as env
from opdb.core.errors import OpdbError

NASTY = [
    "",
    "a\\",
    "*/",
    "/*",
    "??/",
    "\n",
    "\r\n",
    "\x00\x7f",
    '"',
    "'''",
    "é",
    "𝄞",
    "%d{{ x }}",
    "a\\\nb",
    "\\x411",
    "\u2028",
]
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=30)


@given(st.text())
def test_python_strings_are_read_back(text: str) -> None:
    literal = env.python_string(text)
    assert ast.literal_eval(literal) == text
    assert literal.isascii() and literal.isprintable()


def test_c_strings_are_read_back(tmp_path: Path) -> None:
    texts = [t for t in NASTY if "\0" not in t] + [chr(c) + "0" for c in range(1, 256)]
    prints = "\n".join(f'    puts({env.c_string(t)}); puts("<end>");' for t in texts)
    source = tmp_path / "strings.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{\n{prints}\n    return 0;\n}}\n")
    program = tmp_path / "strings"
    subprocess.run(
        ["cc", "-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror", source, "-o", program], check=True
    )
    out = subprocess.run([program], capture_output=True, check=True).stdout.decode()
    assert out.split("\n<end>\n")[:-1] == texts


@pytest.mark.parametrize("text", NASTY)
def test_text_cannot_end_a_c_comment(text: str, tmp_path: Path) -> None:
    source = tmp_path / "comment.c"
    source.write_text(
        f"/* {env.c_comment(text)} */\n// {env.c_comment(text)}\nint main(void) {{ return 0; }}\n"
    )
    subprocess.run(
        ["cc", "-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source], check=True
    )


@given(WORDS)
def test_markdown_shows_the_text(text: str) -> None:
    shown = MarkdownIt("gfm-like", {"linkify": False}).parse(env.markdown(text))
    inline = [t for t in shown if t.type == "inline"]
    assert "".join(_text(t) for t in inline) == " ".join(text.split())


@given(WORDS)
def test_code_shows_the_text_in_a_table(text: str) -> None:
    table = f"| a |\n|---|\n| {env.code(text)} |\n"
    cells = [t for t in MarkdownIt("gfm-like", {"linkify": False}).parse(table) if t.type == "inline"]
    assert [_text(t) for t in cells] == ["a", " ".join(text.split())]


def _text(inline: object) -> str:
    return "".join(child.content for child in inline.children)  # type: ignore[attr-defined]


def test_a_template_error_names_template_and_line() -> None:
    with pytest.raises(OpdbError, match=r"index\.md\.j2:\d+: 'ops' is undefined"):
        env.render("index.md.j2")


def test_templates_are_sandboxed() -> None:
    with pytest.raises(SecurityError):
        env.environment().from_string("{{ x.__class__.__mro__ }}").render(x=1)
    with pytest.raises(SecurityError):
        env.environment().from_string("{{ x.append(1) }}").render(x=[])
    with pytest.raises(jinja2.UndefinedError):
        env.environment().from_string("{{ x.y }}").render(x=1)
