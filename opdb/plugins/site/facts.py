"""Everything that pages are about, read once from the database: definitions, support in words, operators, chips, SDKs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from opdb.catalog.query import Filters, ask
from opdb.catalog.store import Store
from opdb.core.sdk import version
from opdb.generated.constants.sdks import DEFAULT_SDK, SDKS
from opdb.plugins.site import support
from opdb.plugins.site.support import Support
from opdb.spec.backend import preferred
from opdb.spec.catalog import Catalog

Row = dict[str, Any]
#: The chip that pages begin with.
CHIP = "SM8650"


@dataclass(frozen=True)
class Facts:
    """The contents of the site; rows are those of `opdb query`."""

    catalog: Catalog
    support: Support
    torch: Mapping[str, list[Row]]  # PyTorch operator -> its candidates
    flows: Mapping[str, list[Row]]  # PyTorch operator -> evidence of whole flows
    chips: Mapping[str, Row]
    errata: Mapping[str, Row]
    operators: Mapping[str, Mapping[str, Any]]  # "onnx", "tflite" -> operator -> what it becomes
    runs: tuple[Row, ...]  # the measurements behind the support

    @cached_property
    def backends(self) -> tuple[str, ...]:
        """All backends, the default one first."""
        return preferred(self.catalog.backends.values())

    @cached_property
    def sdks(self) -> tuple[str, ...]:
        known = {s for measured in self.support.sdks.values() for s in measured} | set(SDKS)
        return tuple(sorted({short(s) for s in known if s}, key=version))

    @property
    def sdk(self) -> str:
        """The SDK that pages begin with."""
        return DEFAULT_SDK

    def newest(self, backend: str) -> str:
        """The newest SDK that the backend was measured with, or that its documents are from."""
        return max(self.support.sdks.get(backend, ("",)), key=version)

    @cached_property
    def torch_of(self) -> Mapping[str, list[str]]:
        """QNN op -> the PyTorch operators that may become it."""
        found: dict[str, list[str]] = defaultdict(list)
        for target, rows in self.torch.items():
            for op in dict.fromkeys(op for r in rows for op in ops_of(r)):
                found[op].append(target)
        return found

    @cached_property
    def onnx_of(self) -> Mapping[str, list[str]]:
        """PyTorch operator -> the ONNX operators that become it."""
        return _inverse(self.operators["onnx"], "torch")

    @cached_property
    def tflite_of(self) -> Mapping[str, list[str]]:
        """ONNX operator -> the TensorFlow Lite operators that become it."""
        return _inverse(self.operators["tflite"], "onnx")

    def onnx_to(self, op: str) -> list[str]:
        """The ONNX operators of which a PyTorch operator becomes this op."""
        return sorted({o for t in self.torch_of.get(op, ()) for o in self.onnx_of.get(t, ())})

    @cached_property
    def errata_of(self) -> Mapping[str, list[str]]:
        """QNN op -> the ids of its errata."""
        return {op: [e.erratum for e in self.catalog.errata_of(op)] for op in self.catalog.ops}

    def measured_with(self, backend: str) -> list[str]:
        """The measurements of a backend, e.g. HTP 2.47: onnxruntime-qnn 2.3.0, emulator, 2026-11-27."""
        mine = (r for r in self.runs if r["backend"] == backend)
        lines = (
            f"{backend} {r['sdk']}: {r['package']} {r['package_version']}, {r['execution']}, {r['measured']}"
            for r in mine
        )
        return sorted(set(lines), key=lambda line: (version(line.split()[1].rstrip(":")), line))

    @cached_property
    def popular(self) -> Mapping[str, int]:
        """Chips that were measured, before all others."""
        measured = {r["soc"] for r in self.runs}
        return {
            c: i
            for i, c in enumerate(
                sorted(self.chips, key=lambda c: (c not in measured, not self.chips[c]["names"], c))
            )
        }


def short(sdk: str) -> str:
    """An SDK without a patch of 0: 2.25.0 is 2.25."""
    return sdk.removesuffix(".0") if sdk.count(".") == 2 else sdk


def ops_of(candidate: Row) -> list[str]:
    return [op.strip() for op in candidate["ops"].split(",")]


def _inverse(operators: Mapping[str, Any], key: str) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, about in operators.items():
        for other in about[key] or ():
            found[other].append(name)
    return found


def read(store: Store) -> Facts:
    """Raises OpdbError if there is no database."""
    catalog = store.load_catalog()
    with store.asking() as reader:
        of_support = support.read(reader)
        runs = tuple(dict(r) for r in reader.rows(_RUNS))
    torch: dict[str, list[Row]] = defaultdict(list)
    for r in ask(store, "torch"):
        torch[r["torch_op"]].append(r)
    flows: dict[str, list[Row]] = defaultdict(list)
    for r in ask(store, "evidence", Filters(), "torch_op IS NOT NULL"):
        flows[r["torch_op"]].append(r)
    text = files("opdb.programs").joinpath("operators.json").read_text(encoding="utf-8")
    return Facts(
        catalog,
        of_support,
        torch,
        flows,
        {r["soc"]: r for r in ask(store, "socs")},
        {r["erratum"]: r for r in ask(store, "errata")},
        json.loads(text),
        runs,
    )


_RUNS = """
SELECT DISTINCT backend, soc, sdk, execution, package, package_version, measured FROM v_evidence
WHERE kind = 'op' ORDER BY backend, soc, sdk, execution, package, package_version, measured"""
