"""Names in any case, and numbers with their nouns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from opdb.core.names import counted, plural, spelled

ROOT = Path(__file__).parents[2]


def test_names_are_found_in_any_case() -> None:
    assert spelled("htp", ["CPU", "HTP"]) == "HTP"
    assert spelled("GPU", ["CPU", "HTP"]) == "GPU"
    assert spelled("matmul", iter(["MatMul", "matmul"])) == "matmul"


def test_nouns_follow_their_number() -> None:
    assert [counted(n, "node") for n in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert [counted(n, "axis", "axes") for n in (1, 3)] == ["1 axis", "3 axes"]
    assert plural(1, "is", "are") == "is" and plural(0, "is", "are") == "are"


#: A count and its plural in a message, e.g. f"{len(nodes)} nodes".
COUNT = re.compile(
    r"\A (?:more )?(nodes|graphs|records|files|ops|cases|results|rows|tensors|calls|cells|runs|models|pairs|samples)\b"
)


def test_no_message_puts_a_plural_behind_a_length() -> None:
    """All messages go through ``counted``: "1 nodes" cannot be printed."""
    found = []
    for path in (p for folder in ("opdb", "runtime") for p in (ROOT / folder).rglob("*.py")):
        if "generated" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            for value, text in zip(node.values, node.values[1:], strict=False):
                if (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(value.value, ast.Call)
                    and getattr(value.value.func, "id", "") == "len"
                    and isinstance(text, ast.Constant)
                    and COUNT.match(str(text.value))
                ):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text.value}")
    assert found == []
