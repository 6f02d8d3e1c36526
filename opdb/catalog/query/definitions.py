"""Questions about the specs: ops, params, types, torch, rules, chips, errata."""

from __future__ import annotations

from collections import defaultdict

from opdb.catalog.query.rows import Row, View
from opdb.catalog.query.sql import among, begins, compared, either
from opdb.core.sdk import declared


def ops(view: View) -> list[Row]:
    rows = view.read("v_ops", among("op", view.wanted_ops()), order=("op",))
    return [r for r in rows if any(map(view.wants_backend, r["backends"].split(", ")))]


def params(view: View) -> list[Row]:
    conditions = [among("op", view.wanted_ops())]
    if view.dtypes:
        conditions.append(among("dtype", view.dtypes))
    return view.read("v_params", *conditions, order=("op", "place"))


def types(view: View) -> list[Row]:
    """The type rows that any of the filtered SDKs has; all of them without an SDK filter."""
    rows, sdks = type_rows(view), view.filters.many("sdk")
    return [r for r in rows if not sdks or any(declared(r["since"], r["until"], s) for s in sdks)]


def type_rows(view: View) -> list[Row]:
    """Every documented type row; ``cells`` lists slot: dtypes, with alternatives separated by |."""
    conditions = [among("op", view.wanted_ops())]
    if backends := view.filters.many("backend"):
        conditions.append(among("backend", backends))
    rows = view.read("v_types", *conditions, order=("op", "place"))
    return [r for r in rows if view.has_dtype(r["cells"])]


def torch(view: View) -> list[Row]:
    """The candidates (one op, or a chain of ops) of every ATen target, in the order of its family."""
    wanted = set(view.filters.many("op"))
    asked = [
        either([compared("torch_op", "=", n), begins("torch_op", f"{n}.")])
        for n in view.filters.many("torch_op")
    ]
    rows = view.read("v_torch", *([either(asked)] if asked else []))
    kept = [r for r in rows if not wanted or wanted & set(r["ops"].split(", "))]
    return sorted(kept, key=lambda r: (r["torch_op"], r["place"], r["ops"]))


def unchecked(view: View) -> dict[tuple[str, str], dict[str, Row]]:
    """Maps (op, full rule id) to the backends that do not check the rule, each with its row of v_unchecked."""
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for r in view.read("v_unchecked", among("op", view.wanted_ops()), order=("op", "place")):
        found[r["op"], r["rule"]][r["backend"]] = r
    return found


def rules(view: View) -> list[Row]:
    """Every rule, written and derived; ``rule`` is its permanent id."""
    conditions = [among("op", view.wanted_ops())]
    if backends := view.filters.many("backend"):
        conditions.append(among("backend", backends))
    return view.read("v_rules", *conditions, order=("op", "place"))


def backends(view: View) -> list[Row]:
    rows = view.read("v_backends", order=("place",))
    return [r for r in rows if view.wants_backend(r["backend"])]


def socs(view: View) -> list[Row]:
    wanted = view.filters.many("soc")
    return [r for r in view.read("v_socs", order=("soc",)) if not wanted or r["soc"] in wanted]


def errata(view: View) -> list[Row]:
    """The errata that affect any of the filtered chips and any of the filtered SDKs."""
    conditions = []
    if view.filters.many("op") or view.filters.many("torch_op"):
        conditions.append(among("op", view.wanted_ops()))
    if backends := view.filters.many("backend"):
        conditions.append(among("backend", backends))
    rows = view.read("v_errata", *conditions, order=("erratum",))
    if sdks := view.filters.many("sdk"):
        rows = [r for r in rows if any(declared(r["since"], r["until"], s) for s in sdks)]
    if chips := view.filters.many("soc"):
        arch = {r["soc"]: str(r["htp_arch"]) for r in view.read("v_socs")}
        rows = [r for r in rows if any(_has(r["socs"], c) and _has(r["arch"], arch[c]) for c in chips)]
    return rows


def _has(listed: str | None, wanted: str) -> bool:
    """True if a comma-separated list contains a name; an empty list contains all names."""
    return listed is None or wanted in listed.split(", ")
