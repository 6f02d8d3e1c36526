"""Merges facts of pages into the bundled ones: phrases that no pattern knows leave the known facts unchanged."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opdb.author.importers.pages.read import MASTER, PageOp, Pages
from opdb.catalog import facts as reference
from opdb.catalog.facts import DocumentedBackend, DocumentedOp

GROUPS = ("inputs", "params", "outputs")
#: Kinds of constraints that the document states as list items, never in a description.
POINTS = {"rank", "dtype_same", "shape_same", "count"}


@dataclass(frozen=True)
class Facts:
    """An op from the pages, as it was known before (None: unknown), and the facts that are gone from the pages."""

    new: DocumentedOp
    old: DocumentedOp | None
    gone: tuple[str, ...]  # e.g. input in[2], parameter group, HTP.INT8


def facts(pages: Pages, page: PageOp) -> Facts:
    """The facts of one op; known slots keep their names."""
    known = page.name in reference.documented_ops()
    old = reference.documented_op(page.name) if known else None
    raw: dict[str, Any] = copy.deepcopy(dict(old.facts)) if old is not None else {}
    gone: list[str] = []
    for group in GROUPS:
        key = "name" if group == "params" else "slot"
        before = {entry[key]: entry for entry in raw.get(group, ())}
        raw[group] = [_over(before.get(e[key]), e) for e in page.facts[group]]
        stated = {e[key] for e in page.facts[group]}
        word = "parameter" if group == "params" else group[:-1]
        gone += [f"{word} {name}" for name in before if name not in stated]
        gone += [lost for e in page.facts[group] for lost in _lost(before.get(e[key]), e, e[key])]
    raw["since"] = raw.get("since") or pages.since.get(page.name, pages.sdk)
    backends = dict(old.backends) if old is not None else {}
    for name, table in pages.backends.items():
        if page.name in table:
            known_part, part = backends.get(name), table[page.name]
            document = part.source.partition("@")[0]
            if known_part is not None and not any(
                p.startswith(document) for p in pages.unread.get(page.name, ())
            ):
                gone += [f"{name}.{lost}" for lost in _unconfirmed(known_part, part)]
            backends[name] = _backend(known_part, part)
        elif name in backends:
            gone.append(f"backend {name}")
    new = reference.documented(page.name, raw, f"{MASTER}@{pages.sdk}#{page.name}", backends)
    return Facts(new, old, tuple(gone))


def _lost(old: Mapping[str, Any] | None, new: Mapping[str, Any], name: str) -> list[str]:
    """Known constraints that a page with only readable phrases does not state; only the kinds in POINTS."""
    if old is None or new.get("unread"):
        return []
    stated = {c["kind"] for c in new.get("constraints", ())}
    return [f"{name}: {c['expr']}" for c in old.get("constraints", ()) if c["kind"] in POINTS - stated]


def _unconfirmed(old: DocumentedBackend, new: DocumentedBackend) -> list[str]:
    """Known entries of a supplement that a page with only readable phrases does not state."""
    out = []
    for slot, groups in old.slots.items():
        for group, entries in groups.items():
            stated = [(e["config"], e.get("kind")) for e in new.slots.get(slot, {}).get(group, ())]
            out += [
                f"{e['config']}, {slot}: {e['expr']}"
                for e in entries
                if (e["config"], e.get("kind")) not in stated
            ]
    return out


def _over(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """One slot or parameter: the page's facts override the known ones."""
    if old is None:
        return {k: v for k, v in new.items() if k != "unread"}
    out = dict(old)
    out["mandatory"] = new["mandatory"]
    for key in ("dtypes", "dtype"):
        if key in new:
            out[key] = new[key]
    if "shape" in new and tuple(new["shape"]) != tuple(old.get("shape", ())) and _stated(old):
        out["shape"] = new["shape"]
        out.pop("dim_formulas", None)  # they belong to the old dims
    for key in ("enum", "default"):
        if key in new and not _equal(new[key], old.get(key)):
            out[key] = new[key]
    out["constraints"] = _merged(old.get("constraints", ()), new.get("constraints", ()))
    ranks = [c for c in out["constraints"] if c["kind"] == "rank"]
    if ranks and "shape" not in out:
        out["rank"] = {k: ranks[0][k] for k in ("min", "max") if ranks[0].get(k) is not None}
    return out


def _stated(old: Mapping[str, Any]) -> bool:
    """True if the known shape is in the document's form, dim by dim."""
    return "shape" in old and "..." not in old["shape"]


def _equal(new: Any, old: Any) -> bool:
    if isinstance(old, dict) and not isinstance(new, dict) and "fill" in old:
        return bool(old["fill"] == new)
    if isinstance(old, dict) and ("unset" in old or "none" in old or "by_param" in old):
        return isinstance(new, dict) or "by_param" in old
    if isinstance(old, bool) or isinstance(new, bool):
        return old is not None and bool(new) == bool(old) and not isinstance(old, (dict, list))
    return bool(new == old)


def _merged(old: Any, new: Any) -> list[Any]:
    """The known constraints plus the page's; a new rank or range replaces the known one."""
    out = list(old)
    for fact in new:
        same = [i for i, known in enumerate(out) if known["kind"] == fact["kind"]]
        if any(_says(out[i], fact) for i in same):
            continue
        if fact["kind"] in ("rank", "value_range") and len(same) == 1 and "when" not in out[same[0]]:
            out[same[0]] = fact
        elif fact["kind"] not in ("unique", "dynamic_dims") or not same:
            out.append(fact)
    return out


def _says(known: Mapping[str, Any], fact: Mapping[str, Any]) -> bool:
    """True if two facts of the same kind are equivalent."""
    if fact["kind"] == "rank":
        return (known.get("min"), known.get("max")) == (fact.get("min"), fact.get("max"))
    if "ref" in fact and "ref" in known:
        return bool(known["ref"] == fact["ref"])
    if fact["kind"] == "value_range" and "min" in known:
        return [_plain(known.get(k)) for k in ("min", "max")] == [_plain(fact.get(k)) for k in ("min", "max")]
    # The known text of a range may come from several phrases.
    return _plain(known["expr"]) == _plain(fact["expr"]) or fact["kind"] in ("unique", "value_range")


def _plain(value: Any) -> str:
    return "".join(str(value).split()).replace("rank(in[0])", "N").upper()


def _backend(old: DocumentedBackend | None, new: DocumentedBackend) -> DocumentedBackend:
    """The page's rows; for single slots, the known entries plus the page's new ones."""
    if old is None:
        return new
    slots = {slot: dict(groups) for slot, groups in old.slots.items()}
    for slot, groups in new.slots.items():
        for group, entries in groups.items():
            known = slots.setdefault(slot, {}).get(group, ())
            fresh = [e for e in entries if not any(_repeats(k, e) for k in known)]
            if group == "rank":  # a new limit replaces the known one
                limited = {e["config"] for e in fresh}
                known = tuple(k for k in known if k["config"] not in limited or "when" in k)
            slots[slot][group] = (*known, *fresh)
    return DocumentedBackend(new.name, new.source, new.rows or old.rows, slots)


def _repeats(known: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    if known.get("kind") != entry.get("kind") or known["config"] not in (entry["config"], "All"):
        return False
    if "max" in entry or "min" in entry:
        return (known.get("min"), known.get("max")) == (entry.get("min"), entry.get("max"))
    return True
