"""The tables of supported operators against the lowering of real modules, including chains of ops."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from every_module import CASES

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_nodes
from opdb.codegen.support import Support
from opdb.codegen.support_tables import measured_places, op_support
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Rejected

pytestmark = pytest.mark.torch
SPECS = Path(__file__).parents[2] / "specs"
FLOATS = {"f32": "fp32", "f16": "fp16"}


@pytest.mark.breadth
def test_float_types_in_the_tables_match_the_lowering() -> None:
    """A type is listed exactly if some module's node is accepted in it, for nodes whose first tensor is float32."""
    programs = [export(case.build(), case.inputs()) for case in CASES]
    catalog = read_catalog(SPECS)
    for place in measured_places(catalog):
        target = Target(place.backend, place.soc, place.sdk)
        accepted: dict[str, set[str]] = defaultdict(set)
        asked: dict[str, set[str]] = defaultdict(set)
        for program in (Program(p, dtype) for p in programs for dtype in FLOATS):
            lowered = check_nodes(program, target).lowered
            for node in program.nodes:
                given = [a.meta["val"] for a in node.node.all_input_nodes]
                if given and isinstance(given[0], torch.Tensor) and given[0].dtype == torch.float32:
                    name = FLOATS[program.float_dtype]
                    asked[node.target].add(name)
                    if not isinstance(lowered[node.name], Rejected):
                        accepted[node.target].add(name)
        lines = csv.DictReader(io.StringIO(op_support(Support(catalog, place))))
        listed = {
            line["Operator"]: {kind.split(" ")[0] for kind in line["Compute DType"].split(", ")}
            for line in lines
        }
        assert len(asked) > 100
        for name, kinds in asked.items():
            assert (name, listed.get(name, set()) & kinds) == (name, accepted[name])
