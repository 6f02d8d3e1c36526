"""The table of ops and targets, and ranges of SDKs."""

from __future__ import annotations

from typing import Any

import pytest

from opdb.catalog.evidence.status import kind
from opdb.catalog.query.pivot import pivot
from opdb.catalog.query.sdk_ranges import by_range, ranges

SDKS = ("2.47", "2.48", "2.49", "2.50")


def row(op: str, type_row: str, sdk: str, status: str, **more: Any) -> dict[str, Any]:
    return {
        "op": op, "type_row": type_row, "cells": "x: f16", "backend": "HTP", "soc": "SM8650", "sdk": sdk, "status": status,
        "why": None, "errata": None, "declared": "yes", "execution": None,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("sdks", "text"),
    [
        (SDKS, "2.47-2.50"),
        (("2.47", "2.48", "2.50"), "2.47-2.48, 2.50"),
        (("2.49",), "2.49"),
        (("2.47", "2.49"), "2.47, 2.49"),
    ],
)
def test_ranges(sdks: tuple[str, ...], text: str) -> None:
    assert ranges(sdks, SDKS) == text


def test_rows_that_differ_only_in_the_sdk_are_one_row() -> None:
    rows = [row("Relu", "HTP.FP16.1", sdk, "no" if sdk == "2.48" else "yes") for sdk in SDKS]
    rows += [row("Relu", "HTP.INT8.1", sdk, "yes") for sdk in SDKS]
    merged = [*by_range(rows, ("type_row", "sdk", "status"))]
    assert [(r["type_row"], r["sdk"], r["status"]) for r in merged] == [
        ("HTP.FP16.1", "2.47, 2.49-2.50", "yes"),
        ("HTP.FP16.1", "2.48", "no"),
        ("HTP.INT8.1", "2.47-2.50", "yes"),
    ]
    assert len([*by_range(rows, ("op", "status"))]) == 3, "a row per place and status, whatever the SDK"


def test_a_cell_names_sdks_only_where_they_differ() -> None:
    rows = [row("Relu", "HTP.FP16.1", sdk, "yes") for sdk in SDKS]
    new = {"declared": "no", "why": "from QNN 2.49 on"}
    rows += [row("Relu", "HTP.INT8_2_49.1", sdk, "no", **new) for sdk in SDKS[:2]]
    rows += [row("Relu", "HTP.INT8_2_49.1", sdk, "yes, except", errata="HTP-0007") for sdk in SDKS[2:]]
    found = pivot(rows, by_soc=True)
    assert found.columns == ["op", "types", "HTP:SM8650 2.47-2.50"]
    assert [[r[c] for c in found.columns] for r in found.rows] == [
        ["Relu", "FP16", "yes"],
        ["Relu", "INT8", "2.47-2.48: no (from QNN 2.49 on); 2.49-2.50: yes, except HTP-0007"],
    ]
    assert found.errata == ["HTP-0007"]


def test_rows_that_are_refused_among_others_are_exceptions() -> None:
    rows = [
        row("Add", "HTP.INT8.1", "2.47", "yes"),
        row("Add", "HTP.INT8.2", "2.47", "no", cells="x: sq8", why="refused: no"),
        row("Add", "HTP.INT16.1", "2.47", "yes"),
        row("Add", "HTP.INT16_2_49.1", "2.47", "no", declared="no"),
    ]
    cells = {r["types"]: r["HTP:SM8650 2.47"] for r in pivot(rows, by_soc=True).rows}
    assert cells == {"INT8": "yes, except not x: sq8", "INT16": "yes"}


def test_an_exception_of_some_sdks_has_these_sdks() -> None:
    rows = [row("MatMul", "HTP.INT8.1", "2.47", "yes, except", errata="HTP-0051, HTP-0224")]
    rows += [row("MatMul", "HTP.INT8.1", sdk, "yes, except", errata="HTP-0224") for sdk in SDKS[1:]]
    (only,) = pivot(rows, by_soc=True).rows
    assert only["HTP:SM8650 2.47-2.50"] == "yes, except HTP-0051 (2.47), HTP-0224"


def test_without_chips_a_column_counts_them() -> None:
    rows = [row("Relu", "HTP.FP16.1", "2.47", "yes", soc=soc) for soc in ("A", "B")]
    rows += [row("Relu", "HTP.FP16.1", "2.47", "no", soc="C")]
    (only,) = pivot(rows, by_soc=False).rows
    assert only["HTP 2.47"] == "yes on 2 chips; no on 1 chip"


def test_kinds() -> None:
    assert [kind(t) for t in ("HTP.FP16.1", "HTP.INT16_2_47.3", None, "odd")] == [
        "FP16",
        "INT16",
        "other",
        "odd",
    ]
