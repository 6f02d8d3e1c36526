"""Reads YAML or JSON files of other tools, with the place of every part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from opdb.core.errors import OpdbError
from opdb.spec.document import At, Document, parse_document

#: Starts another document of a YAML file, or ends one.
BORDER = re.compile(r"^(---|\.\.\.)(?=\s|$).*$", re.MULTILINE)


class Lenient(BaseModel):
    """A part of such a file.  Unknown fields are kept, to be reported."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def unknown(self) -> list[str]:
        return sorted(self.model_extra or {})


def read_documents(path: Path) -> Iterator[Document]:
    """The nonempty documents of a file.  Raises OpdbError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OpdbError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OpdbError(f"{path}: not a text in UTF-8") from None
    text = text.replace("\t", " ")  # JSON may be indented with tabs; YAML, which includes JSON, may not
    begin = 0
    for end in [*(m.start() for m in BORDER.finditer(text)), len(text)]:
        part = BORDER.sub("", text[begin:end], 1) if BORDER.match(text, begin) else text[begin:end]
        document = parse_document("\n" * text.count("\n", 0, begin) + part, str(path))
        if document.data is not None:
            yield document
        begin = end


def inside(document: Document, at: At) -> Document:
    """A part of a document as a document of its own, with its places."""
    data = document.data
    for step in at:
        data = data[step]
    places = {p[len(at) :]: place for p, place in document.places.items() if p[: len(at)] == at}
    return Document(document.path, document.text, data, places)
