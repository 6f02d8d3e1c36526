"""Parses untrusted XML and HTML files into trees with line numbers; only this module uses the library.

No DTD, no entities beyond XML's own five, no network, limited size.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from opdb.core.errors import MissingExtra, OpdbError

MAX_BYTES = 32 * 1024 * 1024
#: lxml's element; opdb has no types for it.
Element = Any
DOCTYPE = re.compile(rb"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)


def parse_xml(path: Path) -> Element:
    """The root element.  Raises OpdbError if the file cannot be read, is not XML (with the line), or has a DTD."""
    etree = _etree()
    data = read_bytes(path)
    if b"\0" in data[:4] or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise OpdbError(f"{path}: UTF-16 or UTF-32; save it as UTF-8")
    declared = DOCTYPE.search(data)
    if declared is not None:
        line = data.count(b"\n", 0, declared.start()) + 1
        raise OpdbError(f"{path}:{line}: a document type or entity is declared; remove it, op XML needs none")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True,
        remove_pis=True,
    )  # fmt: skip
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        line = (error.position or (1, 1))[0]
        what = str(error.msg or error).partition(", line")[0]
        raise OpdbError(f"{path}:{max(line, 1)}: not XML: {what}") from None
    except LookupError:
        raise OpdbError(f"{path}:1: its encoding is not known; save it as UTF-8") from None


def parse_html(path: Path) -> Element:
    """The root element of a UTF-8 page.  Raises OpdbError if the file cannot be read, or is not UTF-8 or not HTML."""
    etree = _etree()
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OpdbError(f"{path}:{line}: not UTF-8; convert the page") from None
    parser = etree.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=False,
                              encoding="utf-8")  # fmt: skip
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise OpdbError(f"{path}: not HTML: {error.msg}") from None
    if root is None or root.tag != "html":
        raise OpdbError(f"{path}: not HTML: no element in it")
    return root


def read_bytes(path: Path) -> bytes:
    """The content of a file.  Raises OpdbError if it does not exist, is a folder, or is larger than MAX_BYTES."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OpdbError(f"{path}: larger than {MAX_BYTES // 2**20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise OpdbError(f"{path}: cannot read: {error.strerror}") from None


def words(element: Element) -> str:
    """The text in an element, with white space collapsed."""
    return " ".join("".join(element.itertext()).split())


def _etree() -> Any:
    try:
        from lxml import etree
    except ImportError as error:
        raise MissingExtra("lxml", "imports") from error
    return etree
