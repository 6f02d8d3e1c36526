"""demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.help import BUILD, App
from opdb.cli.option_groups import DatabaseOptions, with_option_groups
from opdb.cli.options import Json
from opdb.cli.output import print_json, text_aside
from opdb.core.names import counted
from opdb.plugins.executorch.demo import PTE

if TYPE_CHECKING:
    import torch

    from opdb.plugins.executorch.demo import Comparison
    from opdb.plugins.executorch.demo_page import Report

MODEL = "LayerNorm([768], eps=1e-6), Linear(768, 100) on (200, 768)"
#: The files of the report besides its first page.
CHECK, PTE_FILE, CASES = "check.html", "model.pte", "cases"

#: Commands to try after the demo.
NEXT = (
    (
        f"opdb check YOUR_MODEL.pt2 --backend {PTE.name} --soc {PTE.soc}",
        "which nodes run there, and why not the others",
    ),
    (f"opdb query support --op LayerNorm --soc {PTE.soc}", "which types it takes there"),
    ("opdb add-op --help", "an op of your own: spec, code, build, proof"),
)


def add_to(app: App) -> None:
    app.command(example="opdb demo --report report", group=BUILD)(demo)


@with_option_groups
def demo(
    report: Annotated[
        Path, typer.Option("--report", metavar="DIR", help="Folder of the HTML report.")
    ] = Path("report"),
    json: Json = False,
    database: DatabaseOptions = DatabaseOptions(),
) -> None:
    """Take a model from PyTorch to Qualcomm's libraries.

    Compares each step with PyTorch, and writes a report.
    """
    with text_aside(json):
        found, path, failures = _shown(report, database)
    wrong = [c.executor for c in found if not c.ok]
    if json:
        compared = [vars(c) | {"ok": c.ok} for c in found]
        print_json({"compared": compared, "failures": failures, "report": str(path.resolve())})
    if wrong or failures:
        print(f"opdb: outside the bounds: {', '.join(wrong) or 'conformance cases'}", file=sys.stderr)
        raise typer.Exit(1)
    with text_aside(json):
        _title(f"done; the report: {path.resolve()}")
        print("Next:")
        for command, what in NEXT:
            print(f"  {command:62} # {what}")


def _shown(report: Path, database: DatabaseOptions) -> tuple[list[Comparison], Path, int]:
    """Shows all steps; returns the comparisons, the report's first page, and the number of wrong cases."""
    import torch

    from opdb.cli.conformance import run_and_report
    from opdb.plugins.executorch import demo as d

    module, inputs = d.guide_model()
    with torch.no_grad():
        reference = module(*inputs).numpy()
    found = _checked_and_run(module, inputs, reference)
    _through_executorch(found, module, inputs, reference)
    _rejected(found)
    opened, catalog = database.synced()
    _title(f"5. conformance of the model's ops, {' and '.join(d.OPS)}: all their cases on all executors")
    _, failures = run_and_report(opened, catalog, report / CASES, soc=d.SOC, ops=d.OPS)
    return found.comparisons, _written(found, report), failures


def _written(found: Report, folder: Path) -> Path:
    """Writes the report's first page, the page of `opdb check`, and the .pte; returns the first page."""
    from opdb.checks.report.html import page as check_page
    from opdb.core.files import write_atomically
    from opdb.plugins.executorch.demo_page import page

    write_atomically(folder / CHECK, check_page(found.coverage, found.model))
    write_atomically(folder / PTE_FILE, found.pte)
    write_atomically(folder / "index.html", page(found, CHECK, PTE_FILE, f"{CASES}/index.html"))
    return folder / "index.html"


def _checked_and_run(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], reference: Any) -> Report:
    """Prints `opdb check` for the model, then runs its graph on kernels and libraries."""
    from opdb.catalog.targets.target import Target
    from opdb.checks.verdicts import check_program
    from opdb.cli.check_report import print_coverage
    from opdb.plugins.executorch import demo as d
    from opdb.plugins.executorch.demo_page import Report
    from opdb.programs.torch.export import export

    _title(f"1. opdb check: {MODEL} for {d.PTE.name} {d.SOC}")
    program = export(module, inputs, "the guide's model")
    coverage = check_program(program, Target(d.PTE.name, d.SOC, execution="emulator"))
    print_coverage(coverage)

    _title("2. the same graph on C kernels and on Qualcomm's libraries, against PyTorch float32")
    found = d.run_everywhere(program, inputs, reference, print)
    _print_comparisons(found)
    return Report(MODEL, coverage, found)


def _through_executorch(
    found: Report, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], reference: Any
) -> None:
    """Runs the model, and a LayerNorm that ExecuTorch's own builder refuses, through ExecuTorch."""
    import torch

    from opdb.plugins.executorch import demo as d
    from opdb.programs.torch.export import export

    _title(f"3. through ExecuTorch's own flow with opdb's builders, {d.SOC}, the .pte on the emulation")
    program = export(module, inputs, "the guide's model")
    comparison, compiled = d.run_in_executorch(program, inputs, reference, f"ExecuTorch {d.SOC}")
    host = ", ".join(compiled.not_delegated) or "nothing"
    print(
        f"{counted(len(compiled.pte), 'byte')}; delegated: {', '.join(compiled.delegated)}; on the host: {host}"
    )
    several = torch.nn.LayerNorm([8, 6])
    block = (torch.randn(2, 4, 8, 6),)
    with torch.no_grad():
        expected = several(*block).numpy()
    trailing, taken = d.run_in_executorch(
        export(several, block, "LayerNorm"), block, expected, "LayerNorm([8, 6])"
    )
    print(
        f"LayerNorm([8, 6]), which ExecuTorch's builder refuses: {', '.join(f'{n} by {f}' for n, f in taken.forms.items())}"
    )
    _print_comparisons([comparison, trailing])
    found.comparisons += [comparison, trailing]
    found.pte, found.delegated, found.on_host = compiled.pte, compiled.delegated, compiled.not_delegated


def _rejected(found: Report) -> None:
    """Shows an op config that both the rules and the library refuse."""
    from opdb.catalog.targets.target import Target
    from opdb.cli.validate import print_verdict
    from opdb.execute.libraries.client import VendorWorker
    from opdb.judge.nearest import nearest
    from opdb.judge.validate import check
    from opdb.plugins.executorch import demo as d

    _title("4. a rejected op config, and what the library itself says")
    config = d.rejected_config()
    with VendorWorker(d.PTE.name, d.SOC) as worker:
        target = Target(d.PTE.name, d.SOC, execution="emulator")
        found.refused, found.nearest, said = (
            check(config, target),
            nearest(config, target),
            worker.validate(config),
        )
    found.library = f"{said.verdict} {said.code_name or ''}".strip()
    print_verdict("demo", found.refused, found.nearest, said)


def _title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _print_comparisons(found: list[Comparison]) -> None:
    for c in found:
        print(
            f"{'ok ' if c.ok else 'BAD'} {c.executor:22} largest difference {c.largest:.3g}, relative {c.relative:.3g} (bound {c.bound:g})",
            flush=True,
        )
