"""The common parts of all HTML reports: the style sheet of both color schemes, helpers of scripts, and the size limit of a page.

A page is one file that loads nothing: style and script are put into it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from opdb.core.errors import OpdbError

#: The largest page in bytes, which a browser on a phone still opens at once.
LARGEST = 2_000_000
_MARK = re.compile(r"(?:[_/(]|(?<!\d)[.,]|[.,](?!\d))(?=.)")


def resource(name: str, package: str = "opdb.core.pages") -> str:
    """The text of a file in the folder of ``package``."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


#: The width of a screen, in pixels, below which tables become cards.
NARROW = 860


def style(more: str = "", narrow: int = NARROW) -> str:
    """The content of a page's <style>: base.css, and the page's own ``more``.  ``narrow`` replaces NARROW."""
    return resource("base.css").replace(f"(max-width: {NARROW}px)", f"(max-width: {narrow}px)") + more


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The page with each ``<!--NAME-->`` replaced by its part; by default STYLE and SCRIPT are the common ones."""
    parts = {"STYLE": style(), "SCRIPT": resource("base.js")} | dict(parts)
    pieces = template.split("<!--")  # each piece but the first begins with the name of a part
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("-->")
        out += [parts[name], rest]
    return "".join(out)


def text(words: str) -> str:
    """Words as HTML."""
    return html.escape(words, quote=True)


def broken(name: str) -> str:
    """A name, or a line of code, as HTML that may only break after a mark; a number stays whole."""
    return _MARK.sub(r"\g<0><wbr>", text(name))


def embedded(data: Any) -> str:
    """JSON for a <script type="application/json">; no text in it ends the element."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def table(header: Sequence[str], lines: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of texts that becomes one card for each line if it does not fit.  ``numbers``: right-aligned columns."""
    kinds = [' class="n"' if i in numbers else "" for i in range(len(header))]
    head = "".join(f'<th scope="col"{kind}>{text(h)}</th>' for h, kind in zip(header, kinds, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-l="{text(h)}"{kind}>{broken(cell)}</td>'
            for h, kind, cell in zip(header, kinds, line, strict=True)
        )
        + "</tr>\n"
        for line in lines
    )
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def checked(page: str, cure: str) -> str:
    """Returns ``page``; raises OpdbError with ``cure`` (what to type instead) if it is larger than LARGEST."""
    size = len(page.encode())
    if size > LARGEST:
        raise OpdbError(
            f"the page would have {size / 1e6:.1f} MB, and no page of opdb has more than {LARGEST / 1e6:g} MB: {cure}"
        )
    return page
