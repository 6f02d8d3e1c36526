"""Writes the whole site into a folder: pages, JSON, index of the search, scripts, validators."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.core.files import new_folder
from opdb.core.pages import resource
from opdb.plugins.site import facts as reading
from opdb.plugins.site import verdicts, wasm
from opdb.plugins.site.facts import Facts
from opdb.plugins.site.page import KINDS, Page
from opdb.plugins.site.pages import chips, codes, errata, lists, operators, ops, rules, sdks

#: No page, and no other file, is larger; nor is the whole site.
LARGEST_PAGE, LARGEST_SITE = 1_000_000, 40_000_000
#: A folder with this file was written by opdb, and is replaced; any other one is left alone.
MARK = "assets/site.js"
ASSETS = ("verdict.js", "nearest.js", "editor.js", "ops.js")
Count = Callable[[int, int], None]


@dataclass
class Written:
    """What was written: pages by kind, files, bytes, the largest page, and why verdicts are left out ("" if they are not)."""

    folder: Path
    pages: dict[str, int] = field(default_factory=dict)
    files: int = 0
    size: int = 0
    largest: tuple[int, str] = (0, "")
    left_out: str = ""


def write(
    store: Store,
    folder: Path,
    stage: Callable[[str], None] = lambda name: None,
    count: Count = lambda done, total: None,
) -> Written:
    """Writes the site, or nothing.  ``stage`` is told what begins, ``count`` how much of it is done.

    Raises OpdbError for a folder with other files in it, for a page or a site that is too large, and without a database.
    """
    refuse_foreign(folder)
    stage("reading the catalog")
    known = reading.read(store)
    left_out = wasm.missing() or ""
    modules = {}
    if not left_out:
        stage("compiling the validators")
        modules = wasm.modules(list(known.catalog.ops), count)
    stage("writing the pages")
    done = Written(folder, left_out=left_out)
    target = folder.resolve()
    with new_folder(target.with_name(f"{target.name}.new")) as made:
        for path, text in files(known, modules, done.pages):
            _put(made, path, text, done)
        if done.size > LARGEST_SITE:
            raise OpdbError(
                f"{folder}: the site would have {done.size / 1e6:.1f} MB, and none has more than {LARGEST_SITE / 1e6:g} MB"
            )
    shutil.rmtree(target, ignore_errors=True)
    target.with_name(f"{target.name}.new").rename(target)
    return done


def refuse_foreign(folder: Path) -> None:
    """Raises OpdbError if the folder has files that no earlier site has."""
    if folder.exists() and not folder.is_dir():
        raise OpdbError(f"{folder}: is a file; give the folder of the site")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise OpdbError(f"{folder}: has files that are not of a site; give an empty or a new folder")


def _put(root: Path, path: str, text: str, done: Written) -> None:
    data = text.encode()
    if len(data) > LARGEST_PAGE:
        raise OpdbError(
            f"{path} would have {len(data) / 1e6:.1f} MB, and no file of the site has more than {LARGEST_PAGE / 1e6:g} MB"
        )
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(data)
    done.files += 1
    done.size += len(data)
    if path.endswith(".html"):
        done.largest = max(done.largest, (len(data), path))


def files(known: Facts, modules: Mapping[str, bytes], counts: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The text of every file by its path; ``counts`` gets the number of pages of each kind."""
    made: dict[str, list[Page]] = {}
    taken: dict[str, str] = {}
    for kind, pages in _kinds(known, bool(modules)):
        for page in pages:
            made.setdefault(kind, []).append(page)
            yield from _of_page(page, taken)
        yield f"assets/search/{kind}.js", _index(kind, made[kind])
        counts[kind] = len(made[kind])
    for page in lists.pages(known, made):
        yield from _of_page(page, taken)
        counts["list"] = counts.get("list", 0) + 1
    yield from _assets(known, modules)


def _kinds(known: Facts, live: bool) -> Iterator[tuple[str, list[Page]]]:
    yield "op", list(ops.pages(known, live))
    of_frameworks = list(operators.pages(known))
    for kind in ("torch", "onnx", "tflite"):
        yield kind, [p for p in of_frameworks if p.kind == kind]
    yield "chip", list(chips.pages(known))
    yield "sdk", list(sdks.pages(known))
    yield "rule", list(rules.pages(known))
    yield "erratum", list(errata.pages(known))
    yield "code", list(codes.pages())


def _of_page(page: Page, taken: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The files of a page.  Raises OpdbError if another one has its name on a file system that ignores case."""
    other = taken.setdefault(page.path.lower(), page.title)
    if other != page.title:
        raise OpdbError(
            f"the pages of {page.title} and {other} would be one file, {page.path}, where case is ignored"
        )
    yield f"{page.path}.html", page.html()
    yield f"{page.path}.json", page.json()


def _index(kind: str, pages: list[Page]) -> str:
    rows = [[p.title, p.name, list(p.also), p.summary] for p in pages]
    return _script(f"opdbIndex({json.dumps(kind)}, {json.dumps(KINDS[kind][1])}, ", rows, ");\n")


def _assets(known: Facts, modules: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    package = "opdb.plugins.site.assets"
    yield "assets/site.css", resource("base.css") + resource("site.css", package)
    yield "assets/site.js", resource("base.js") + resource("site.js", package)
    for name in ASSETS:
        yield f"assets/{name}", resource(name, package)
    order = {kind: i for i, kind in enumerate(KINDS)}
    yield (
        "assets/search/kinds.js",
        _script("const KINDS = ", list(KINDS), ";\n") + _script("const ORDER = ", order, ";\n"),
    )
    yield "assets/targets.js", _script("const KNOWN = ", verdicts.known(known), ";\n")
    yield "assets/matrix.js", _script("const MATRIX = ", lists.matrix(known), ";\n")
    for op, module in modules.items():
        yield f"assets/wasm/{op}.js", f'const WASM = "{base64.b64encode(module).decode()}";\n'


def _script(before: str, data: Any, after: str) -> str:
    return before + json.dumps(data, ensure_ascii=True, separators=(",", ":")) + after
