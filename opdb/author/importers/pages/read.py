"""Reads the folder of OpDef pages into ``Pages``: their content as facts; every fault has file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdb.author.importers.pages import phrases
from opdb.author.importers.pages.outline import Heading, Item, Table, outline
from opdb.catalog.facts import DocumentedBackend
from opdb.catalog.facts.refresh import SUPPLEMENTS
from opdb.core.dtypes import lookup
from opdb.core.errors import OpdbError, Problem, SpecError
from opdb.core.names import counted

MASTER, HISTORY, SUPPORTED = "MasterOpDef.html", "opdef_version_history.html", "SupportedOps.html"
NAME = re.compile(r"[A-Za-z]\w{0,59}", re.ASCII)
SDK = re.compile(r"\d+\.\d+(\.\d+)?")
GROUPS = {"Inputs": "inputs", "Parameters": "params", "Outputs": "outputs"}


@dataclass
class PageOp:
    """One op of MasterOpDef.html in the data format of opdb.catalog.facts."""

    name: str
    line: int
    facts: dict[str, Any]
    unread: list[str] = field(default_factory=list)  # places of unknown phrases; e.g. MasterOpDef.html:12


@dataclass
class Pages:
    sdk: str
    opset: str | None
    ops: dict[str, PageOp]
    backends: dict[str, dict[str, DocumentedBackend]]  # backend -> op -> its part, if it has a supplement
    since: dict[str, str]  # op -> SDK from the version history
    unread: dict[str, list[str]]  # op -> places in supplements
    supported: dict[str, set[str]]  # op -> backends of SupportedOps.html; {} without that page


def read(folder: Path, sdk: str | None = None) -> Pages:
    """Reads all pages.  ``sdk``: the version, if the version history does not state it.

    Raises OpdbError if the folder, MasterOpDef.html, or the SDK is missing; SpecError with all faults of all pages.
    """
    if not folder.is_dir():
        raise OpdbError(f"{folder}: no such folder; give the SDK's docs/QNN/OpDef")
    if not (folder / MASTER).is_file():
        raise OpdbError(f"{folder}: has no {MASTER}; give the SDK's docs/QNN/OpDef")
    reader = _Reader(folder)
    opset, newest, since = reader.history()
    version = sdk or newest
    if version is None or not SDK.fullmatch(version):
        raise OpdbError(f"{folder}: {HISTORY} names no SDK version; name it with --sdk, e.g. 2.39.0")
    ops = reader.master()
    backends = {
        b: reader.supplement(b, version, ops) for b in SUPPLEMENTS if (folder / SUPPLEMENTS[b]).is_file()
    }
    supported = reader.supported()
    if reader.problems:
        raise SpecError(reader.problems)
    return Pages(version, opset, ops, backends, since, reader.unread, supported)


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.unread: dict[str, list[str]] = {}

    def fault(self, page: str, line: int, message: str) -> None:
        self.problems.append(Problem(str(self.folder / page), line, 1, message))

    def ops(self, page: str) -> Iterator[Heading]:
        """The sections of a page that describe an op."""
        tops = outline(self.folder / page).parts
        for top in tops:
            yield from (op for op in top.parts if op.level == 2)

    # -- MasterOpDef.html

    def master(self) -> dict[str, PageOp]:
        out: dict[str, PageOp] = {}
        for heading in self.ops(MASTER):
            if not NAME.fullmatch(heading.title):
                continue  # a chapter, not an op
            if heading.title in out:
                self.fault(MASTER, heading.line, f"the op {heading.title} is there twice")
            out[heading.title] = self.op(heading)
        if not out:
            self.fault(MASTER, 0, "has no section of an op; expected the SDK's page")
        return out

    def op(self, heading: Heading) -> PageOp:
        op = PageOp(heading.title, heading.line, {"inputs": [], "params": [], "outputs": []})
        if heading.part("Outputs") is None and heading.part("Parameters") is None:
            self.fault(MASTER, heading.line, f"{op.name}: neither Parameters nor Outputs; is the page whole?")
        for title, group in GROUPS.items():
            part = heading.part(title)
            for position, slot in enumerate(part.parts if part else ()):
                op.facts[group].append(self.slot(op, slot, group, position, len(part.parts if part else ())))
        return op

    def slot(self, op: PageOp, heading: Heading, group: str, position: int, count: int) -> dict[str, Any]:
        given = {key.strip().lower(): (value.strip(), item) for item in heading.items
                 for key, colon, value in [item.text.partition(":")] if colon}  # fmt: skip
        where = f"{op.name}, {heading.title}"
        raw: dict[str, Any] = self.named(heading.title, group, position, count)
        pattern = NAME if group == "params" else re.compile(r"(in|out)\[[\w.]+\]")
        if not pattern.fullmatch(heading.title):
            self.fault(
                MASTER, heading.line, f"{where}: not a name; e.g. {'axis' if group == 'params' else 'in[0]'}"
            )
        mandatory = given.get("mandatory", ("", None))[0].lower()
        if mandatory not in ("true", "false"):
            self.fault(MASTER, heading.line, f"{where}: no 'Mandatory: true' or 'false'; is the page whole?")
        raw["mandatory"] = mandatory == "true"
        self.types(where, heading, given, raw, group)
        self.shape(op, given, raw, group)
        if "default" in given:
            understood, value = phrases.default(given["default"][0])
            if understood and group == "params":
                raw["default"] = value
            elif not understood:
                self.miss(op, raw, given["default"][1])
        values = self.values(where, given.get("values"))
        if values:
            raw["enum"] = values
        for key in ("constraints", "constraint"):
            if key in given:
                raw["constraints"] = list(self.constraints(op, given[key][1], raw))
        return raw

    def miss(self, op: PageOp, raw: dict[str, Any], item: Item) -> None:
        """Records the place of an unknown phrase."""
        raw["unread"] = True
        op.unread.append(f"{MASTER}:{item.line}")

    def named(self, title: str, group: str, position: int, count: int) -> dict[str, Any]:
        if group == "params":
            return {"name": title}
        word = group[:-1]
        if ".." in title:
            return {"slot": title, "name": f"{word}s", "repeated": True}
        return {"slot": title, "name": word if count == 1 else f"{word[:-3]}{position}"}

    def types(
        self, where: str, heading: Heading, given: Mapping[str, Any], raw: dict[str, Any], group: str
    ) -> None:
        text = next((given[k][0] for k in ("data type", "datatype", "data types") if k in given), "")
        found: list[str] = []
        for word in re.split(r",\s*|\s+or\s+", text):
            dtype = lookup(word.strip())
            if dtype is not None:
                found.append(dtype.short)
            elif word.strip().lower().startswith("backend"):
                found.append("backend")
            else:
                self.fault(MASTER, heading.line, f"{where}: the data type {word!r} is not known")
        if group == "params":
            raw["dtype"] = found[0] if found else "backend"
        else:
            raw["dtypes"] = "backend" if found == ["backend"] else found

    def shape(self, op: PageOp, given: Mapping[str, Any], raw: dict[str, Any], group: str) -> None:
        if "shape" not in given:
            return
        text, item = given["shape"]
        found = phrases.shape(text)
        if found is None:
            self.miss(op, raw, item)
            return
        if group == "params" and not found.pop("scalar", False) and "shape" not in found:
            rank = found.get("rank", {"max": 1})
            found["shape"] = ["M"] * (rank.get("max") or 1)
        if group == "params" and "shape" not in found:
            found.pop("rank", None)
        raw |= {k: v for k, v in found.items() if k != "scalar"}

    def values(self, where: str, given: tuple[str, Item] | None) -> dict[str, int]:
        out: dict[str, int] = {}
        for item in given[1].items if given else ():
            match = re.fullmatch(r"([A-Za-z_]\w*) ?[=:] ?(\d{1,9}),?", item.text, re.ASCII)
            if match is None:
                self.fault(MASTER, item.line, f"{where}: a value is not NAME = NUMBER")
            else:
                out[match[1]] = int(match[2])
        return out

    def constraints(self, op: PageOp, item: Item, raw: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for point in item.items:
            kind, _, text = point.text.partition(":")
            fact = phrases.master(kind.strip(), text.strip(), bool(raw.get("shape")))
            if fact is None:
                self.miss(op, raw, point)
            else:
                yield fact

    # -- <Backend>OpDefSupplement.html

    def supplement(self, backend: str, sdk: str, ops: Mapping[str, PageOp]) -> dict[str, DocumentedBackend]:
        page = SUPPLEMENTS[backend]
        out: dict[str, DocumentedBackend] = {}
        for heading in self.ops(page):
            name = heading.title
            if name not in ops:
                self.fault(page, heading.line, f"the op {name!r} has no section in {MASTER}")
                continue
            rows: list[tuple[str, dict[str, tuple[str, ...]]]] = []
            slots: dict[str, dict[str, tuple[Any, ...]]] = {}
            for part in heading.parts:
                for table in part.tables:
                    if part.title.lower().startswith("datatype"):
                        rows += list(self.rows(page, name, table))
                    elif part.title.lower().startswith("constraint"):
                        self.rules(page, name, table, slots)
            out[name] = DocumentedBackend(backend, f"{page}@{sdk}#{name}", tuple(rows), slots)
        return out

    def rows(self, page: str, op: str, table: Table) -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
        for row in table.rows:
            cells: dict[str, tuple[str, ...]] = {}
            if len(row) != len(table.header):
                self.fault(
                    page,
                    table.line,
                    f"{op}: a row has {counted(len(row), 'cell')}, its table {len(table.header)}",
                )
                continue
            for slot, cell in zip(table.header[1:], row[1:], strict=True):
                found = []
                for word in re.split(r"[,\s]+", " ".join(cell.lines)):
                    dtype = lookup(word)
                    if dtype is not None:
                        found.append(dtype.short)
                    elif word.startswith("QNN_DATATYPE"):
                        self.fault(page, cell.line, f"{op}, {slot}: the data type {word!r} is not known")
                if found:
                    cells[slot] = tuple(found)
            yield _configuration(row[0].text), cells

    def rules(self, page: str, op: str, table: Table, slots: dict[str, dict[str, tuple[Any, ...]]]) -> None:
        for row in table.rows:
            for slot, cell in zip(table.header[1:], row[1:], strict=False):
                for line in cell.lines:
                    found = phrases.supplement(line)
                    if found is None:
                        self.unread.setdefault(op, []).append(f"{page}:{cell.line}")
                        continue
                    group, fact = found
                    entry = {"config": _configuration(row[0].text), **fact}
                    groups = slots.setdefault(slot, {})
                    groups[group] = (*groups.get(group, ()), entry)

    # -- the other pages

    def history(self) -> tuple[str | None, str | None, dict[str, str]]:
        """The newest op set and SDK, and the SDK of the earliest row that adds an op."""
        since: dict[str, str] = {}
        versions: list[tuple[str, str]] = []
        if (self.folder / HISTORY).is_file():
            for table in _tables(outline(self.folder / HISTORY)):
                names = [h.lower() for h in table.header]
                if "sdk version" not in names:
                    continue
                sdk, opset = (
                    names.index("sdk version"),
                    next((i for i, h in enumerate(names) if "op set" in h), None),
                )
                for row in table.rows:
                    if len(row) != len(names) or not SDK.fullmatch(row[sdk].text):
                        continue
                    versions.append((row[sdk].text, row[opset].text if opset is not None else ""))
                    for name in re.findall(r"Added (?:new )?(\w+) [Oo]p\b", " ".join(row[-1].lines)):
                        since[name] = row[sdk].text
        newest = max(versions, key=lambda v: [int(n) for n in v[0].split(".")], default=None)
        return (newest[1] or None, newest[0], since) if newest else (None, None, since)

    def supported(self) -> dict[str, set[str]]:
        """Op -> the backends with YES."""
        out: dict[str, set[str]] = {}
        if not (self.folder / SUPPORTED).is_file():
            return out
        for table in _tables(outline(self.folder / SUPPORTED)):
            at = next((i for i, h in enumerate(table.header) if h.lower().startswith("operation")), None)
            if at is None:
                continue
            columns = {
                i: b for i, h in enumerate(table.header) for b in SUPPLEMENTS if h.upper().split()[:1] == [b]
            }
            for row in table.rows:
                if len(row) == len(table.header):
                    yes = {b for i, b in columns.items() if row[i].text.upper().startswith("YES")}
                    out.setdefault(row[at].text, set()).update(yes)
        return out


def _configuration(text: str) -> str:
    """The name of a configuration in a form that a spec accepts; e.g. FP16, All."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:40] or "All"
    return f"_{name}" if name[0].isdigit() else name


def _tables(heading: Heading) -> Iterator[Table]:
    yield from heading.tables
    for part in heading.parts:
        yield from _tables(part)
