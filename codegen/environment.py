"""Templates -> text: one jinja2 environment for every target.

Templates define the structure of files and compute nothing; they are project code, never spec content.  The
sandbox is a second line of defense behind the checks of opdb.spec.model.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core import plugins
from opdb.core.errors import OpdbError

if TYPE_CHECKING:  # jinja2 is loaded only when something is rendered
    from jinja2 import Environment


def c_string(text: str) -> str:
    """A C string literal of ``text``; ASCII only."""
    out = []
    for byte in text.encode():
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        else:  # three octal digits never merge with the next character; escaping ? avoids trigraphs
            out.append(char if 32 <= byte < 127 and char != "?" else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def c_comment(text: str) -> str:
    """``text`` for the inside of a C comment: one line, ASCII, without comment delimiters."""
    ascii_ = text.encode("ascii", "backslashreplace").decode()
    return " ".join(ascii_.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").split()).rstrip(
        "\\"
    )


def python_string(text: str) -> str:
    """A Python string literal of ``text`` in double quotes; ASCII only."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    if not (escaped.isascii() and escaped.isprintable()):
        escaped = "".join(c if 32 <= ord(c) < 127 else _escape(c) for c in escaped)
    return f'"{escaped}"'


def python_value(value: object) -> str:
    """A Python literal of a text, a number, a tuple or a mapping."""
    if isinstance(value, str):
        return python_string(value)
    if isinstance(value, dict):
        return "{" + "".join(f"{python_value(k)}: {python_value(v)}, " for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + "".join(f"{python_value(v)}, " for v in value) + ")"
    return repr(value)


def docstring(text: str) -> str:
    """``text`` for the inside of a docstring: one line, without terminators or escapes."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() else _escape(c) for c in line)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def markdown(text: str) -> str:
    """``text`` escaped for running Markdown or a table cell: one line, no markup."""
    line = re.sub(r"[\\`*\[<|~]|\b_|_\b|&(?=#?\w+;)", r"\\\g<0>", " ".join(text.split()))
    return re.sub(r"^([-+>#]|\d+(?=[.)]))", r"\\\1", line)


def code(text: str) -> str:
    """``text`` as Markdown code, safe inside a table cell."""
    line = " ".join(text.split())
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in _runs(line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}".replace("|", "\\|")


def _runs(text: str) -> list[str]:
    return [part for part in "".join(c if c == "`" else " " for c in text).split() if part]


@cache
def environment() -> Environment:
    """The jinja2 environment: strict, sandboxed, without autoescape; values pass through this module's filters."""
    from jinja2 import ChoiceLoader, PackageLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    env = ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([PackageLoader(p) for p in ("opdb.codegen", *plugins.names("TEMPLATES"))]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )
    filters = (c_string, c_comment, python_string, python_value, docstring, markdown, code)
    env.filters |= {f.__name__: f for f in filters}
    return env


def remember_templates(folder: Path, generator: str) -> None:
    """Caches compiled templates of this ``generator`` only in ``folder``; jinja2 compares their sources."""
    from jinja2 import FileSystemBytecodeCache

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.cache"):
            if not file.name.startswith(generator[:16]):
                file.unlink()
    except OSError:
        return
    environment().bytecode_cache = FileSystemBytecodeCache(str(folder), f"{generator[:16]}-%s.cache")


def render(template: str, **view: Any) -> str:
    """Renders ``template`` (a file in codegen/templates, or in a plug-in's templates) for ``view``.

    Raises OpdbError with template, line, and reason if the template or its view is faulty.
    """
    import traceback

    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return environment().get_template(template).render(**view)
    except TemplateSyntaxError as error:
        raise OpdbError(f"{template}:{error.lineno}: {error.message}") from error
    except TemplateError as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(".j2")]
        place = f"{template}:{frames[-1].lineno}" if frames else template
        raise OpdbError(f"{place}: {error.message}") from error
