"""Quantized ONNX files of ONNX Runtime's quantizers, AIMET and Quark: check's verdict, and the error of HTP's emulation.

The error is the distance from ONNX Runtime on the CPU, in steps of the output's scale.  Also counts the nodes that ONNX
Runtime's QNN provider takes, on the same library.  AIMET's and Quark's files are made by the interpreter of --tools, which has
both (_qdq_tools.py); without it, they are left out.

    python benchmarks/qdq.py [--folder build/qdq] [--form FORM]... [--graph GRAPH]... [--no-provider] [--tools PYTHON] [--page]
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from opdb.catalog.targets.target import Target
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.socs import SOCS

SOC = "SM8650"
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=Path("build/qdq"))
    parser.add_argument("--form", action="append", default=[])
    parser.add_argument("--graph", action="append", default=[])
    parser.add_argument("--no-provider", action="store_true")
    parser.add_argument("--tools", help="an interpreter that has aimet_onnx and quark")
    parser.add_argument(
        "--page", action="store_true", help="print the page of what was measured before, and end"
    )
    asked = parser.parse_args()
    results = asked.folder / "results.jsonl"
    if asked.page:
        print("\n".join(page([json.loads(line) for line in results.read_text().splitlines()])))
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    rows = list(_measured(asked, results))
    print("\n".join(_summary(rows)))


def _measured(asked: argparse.Namespace, results: Path) -> Iterator[dict]:
    """A row for each file; files in ``results`` are not measured again."""
    from _provider import sessions
    from _qdq_files import files
    from _qdq_runs import Outcome, outcome, row

    known = {}
    if results.is_file():
        known = {(r["form"], r["graph"]): r for r in map(json.loads, results.read_text().splitlines())}
    if asked.tools:
        subprocess.run([asked.tools, str(HERE / "_qdq_tools.py"), str(asked.folder)], check=True)
    target, chip = Target("HTP", SOC, execution="emulator"), SOCS[SOC]
    made = {(form, graph): path for form, graph, path in files(asked.folder, asked.form, asked.graph)}
    with VendorWorker("HTP", SOC) as vendor:
        for (form, graph), path in made.items():
            if (form, graph) not in known:
                found = (
                    Outcome(form, graph, "no file", why=path)
                    if isinstance(path, str)
                    else outcome(form, graph, path, target, vendor)
                )
                with results.open("a") as file:
                    file.write(row(found) + "\n")
                known[form, graph] = json.loads(row(found))
            print(_line(known[form, graph]), flush=True)
    unplaced = {k: p for k, p in made.items() if isinstance(p, Path) and not known[k]["provider"]}
    if unplaced and not asked.no_provider:
        placed = sessions(list(unplaced.values()), chip.soc_model, chip.htp_arch or 0)
        for key, session in zip(unplaced, placed, strict=True):
            known[key]["provider"] = session.placement
        results.write_text("".join(json.dumps(r) + "\n" for r in known.values()))
    yield from (known[key] for key in made)


def _line(r: dict) -> str:
    far = "" if r["steps"] is None else f"{r['steps']:.1f} steps"
    far = far or ("" if r["off"] is None else f"{r['off']:.1e} of the largest")
    state = "runs" if r["runs"] else "compiles" if r["compiles"] else ""
    return (
        f"{r['form']:32}{r['graph']:22}{r['verdict']:10}{state:9}{far:22}said {r['said']:2}  "
        f"{r['provider']:40}{r['left']} {r['why']}"
    )


def _summary(rows: list[dict]) -> Iterator[str]:
    yield f"{len(rows)} files: {', '.join(f'{n} {v}' for v, n in Counter(r['verdict'] for r in rows).most_common())}"
    failing = [r for r in rows if r["verdict"] == "accepted" and not r["runs"]]
    yield f"{len(failing)} accepted and failing, {sum(r['silent'] for r in rows)} nodes silently in floats"
    steps = Counter(round(r["steps"]) for r in rows if r["steps"] is not None)
    yield "steps from ONNX Runtime: " + ", ".join(f"{s} in {n}" for s, n in sorted(steps.items()))


def page(rows: list[dict]) -> Iterator[str]:
    """The tables of docs/results/quantized-onnx.md."""
    yield "| form | files | accepted | run | median steps | most steps | floats off | nodes said | silent | provider: all, some, error |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for form in dict.fromkeys(r["form"] for r in rows):
        of = [r for r in rows if r["form"] == form and r["verdict"] != "no file"]
        steps = sorted(r["steps"] for r in of if r["steps"] is not None)
        off = [r["off"] for r in of if r["off"] is not None]
        cells = (
            form, len(of), sum(r["verdict"] == "accepted" for r in of), sum(r["runs"] for r in of),
            f"{steps[len(steps) // 2]:.0f}" if steps else "", f"{steps[-1]:.0f}" if steps else "",
            f"{100 * max(off):.2g} %" if off else "", sum(r["said"] for r in of), sum(r["silent"] for r in of),
            ", ".join(str(n) for n in _provider(of)),
        )  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"
    yield from ("", "| form | graph | steps | ONNX Runtime's own | nodes said |", "|---|---|---|---|---|")
    far = [r for r in rows if r["steps"] is not None and r["steps"] > (30.5 if "16" in r["form"] else 2.5)]
    for r in sorted(far, key=lambda r: -r["steps"]):
        yield f"| {r['form']} | {r['graph']} | {r['steps']:.0f} | {r['default']:.0f} | {r['said']} |"
    yield from ("", "| form | graph | the QNN provider |", "|---|---|---|")
    for r in rows:
        if r["provider"] not in ("all", ""):
            yield f"| {r['form']} | {r['graph']} | {r['provider'].replace('|', '/')[:100]} |"


def _provider(rows: list[dict]) -> tuple[int, int, int]:
    """The numbers of files of which ONNX Runtime's QNN provider takes all nodes, some, or ends in an error."""
    whole = sum(r["provider"] == "all" for r in rows)
    failed = sum(r["provider"].startswith(("error", "ends")) for r in rows)
    return whole, len(rows) - whole - failed, failed


if __name__ == "__main__":
    main()
