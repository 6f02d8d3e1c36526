"""A page of the site: a template filled with facts, and the same facts as JSON beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from opdb.core.pages import embedded

#: The kinds of pages in the order of the navigation: folder -> (name of the list, of one).
KINDS = {
    "op": ("Ops", "op"),
    "torch": ("PyTorch", "PyTorch operator"),
    "onnx": ("ONNX", "ONNX operator"),
    "tflite": ("TFLite", "TensorFlow Lite operator"),
    "chip": ("Chips", "chip"),
    "sdk": ("SDKs", "SDK"),
    "rule": ("Rules", "rule"),
    "erratum": ("Errata", "erratum"),
    "code": ("Errors", "error"),
}
_ERRATUM = re.compile(r"\b[A-Z]{3,4}-\d{4}\b")
_BREAK = re.compile(r"(?:[_/(|]|(?<!\d)[.,]|[.,](?!\d))(?=.)")


@dataclass(frozen=True)
class Page:
    """``name`` is the permalink below the folder of its kind, e.g. Softmax; "index" for the list of the kind."""

    kind: str  # one of KINDS, "" for the pages at the top
    name: str
    title: str
    template: str
    facts: Mapping[str, Any]  # what the JSON file holds
    view: Mapping[str, Any] = field(default_factory=dict)  # what only the template reads
    also: tuple[str, ...] = ()  # other names, for the search
    summary: str = ""  # one line, for the search

    @property
    def path(self) -> str:
        """The file without its suffix, e.g. op/Softmax."""
        return f"{self.kind}/{self.name}" if self.kind else self.name

    def html(self) -> str:
        root = "../" if self.kind else ""
        template = _environment().get_template(self.template)
        return template.render(page=self, root=root, kinds=KINDS, **self.facts, **self.view)

    def json(self) -> str:
        return json.dumps(self.facts, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def file_name(name: str) -> str:
    """A name as a file's: letters, digits, dot, dash and underscore; e.g. Snapdragon 8 Gen 3 -> Snapdragon-8-Gen-3."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("opdb.plugins.site"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "with_errata": with_errata,
        "soft": soft,
        "embedded": lambda data: Markup(embedded(data)),
        "word": word,
        "file": file_name,
    }
    return made


def soft(name: object) -> Markup:
    """A name as HTML that may break after a mark."""
    pieces, at = [], 0
    text = str(name)
    for found in _BREAK.finditer(text):
        pieces.append(escape(text[at : found.end()]))
        at = found.end()
    return Markup("<wbr>").join([*pieces, escape(text[at:])])


def with_errata(text: str) -> Markup:
    """A text as HTML in which ids of errata are links; for pages in a folder."""
    return Markup(_ERRATUM.sub(r'<a href="../erratum/\g<0>.html">\g<0></a>', str(escape(text))))


def word(status: str) -> str:
    """The class of a status word in the style sheet."""
    return {"yes": "y", "yes, except": "e", "no": "x", "not known": "u"}.get(status, "u")
