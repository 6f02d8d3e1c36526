"""diff --model: what changes for a model between SDKs and chips."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from opdb.checks.coverage import Coverage
from opdb.checks.differences import Difference, steps
from opdb.checks.report.differences import FORMATS, details, lines, summaries, told_apart
from opdb.cli.check_several import print_overview
from opdb.cli.judge import Judge
from opdb.cli.progress import Stages
from opdb.cli.quantization import asked_recipe
from opdb.cli.screen import print_whole
from opdb.cli.targets import SeveralTargetsOptions, listed
from opdb.core.errors import OpdbError
from opdb.core.files import check_writable, write_atomically
from opdb.generated.constants.backends import DEFAULT

if TYPE_CHECKING:
    from opdb.cli.diff_options import DiffOptions


def diff_model(model: str, options: DiffOptions) -> bool:
    """Prints what changes for a model; True if a condition of --fail-on holds."""
    if options.form not in FORMATS:
        raise OpdbError(f"--format {options.form}: --model takes {', '.join(FORMATS)}")
    options.reading.check()
    dims = options.reading.dims()
    recipe, floats = asked_recipe(options.quantize, options.reading.dtype)
    several = SeveralTargetsOptions(options.backend or DEFAULT, options.soc, options.sdk, options.errata)
    if max(len(listed(options.soc)), len(listed(options.sdk))) < 2 or len(targets := several.targets()) < 2:
        raise OpdbError(
            "--model: name what to compare, e.g. --soc SM8650 --sdk 2.47,2.51, or --soc SM8550,SM8650"
        )
    check_writable(options.output)
    sys.path.insert(0, "")
    with Stages(("export", "check")) as stages:
        judge = Judge(model, dims, options.reading, options.quantize, recipe, floats, stages)
        coverages = [judge.coverage(target, f"on {target}") for target in targets]
    found = steps(coverages)
    _report(found, coverages, model, options)
    return any(d.failing(options.fail_on or ()) for d in found)


def _report(
    found: Sequence[Difference], coverages: Sequence[Coverage], model: str, options: DiffOptions
) -> None:
    """Writes to standard output, or to a complete file; then the summaries go to standard error."""
    buffer = io.StringIO()
    last = time_line(model, coverages)
    with redirect_stdout(sys.stdout if options.output is None else buffer):
        if options.form == "table":
            _print(found, coverages, last, options.verbose)
        else:
            for line in lines(found, coverages, options.form, model, last):
                print_whole(line)
    if options.output is not None:
        write_atomically(options.output, buffer.getvalue())
        for line in (*summaries(found), f"written to {options.output}"):
            print(line, file=sys.stderr)


def _print(found: Sequence[Difference], coverages: Sequence[Coverage], last: str, verbose: bool) -> None:
    for line in summaries(found):
        print(line)
    print()
    print_overview(coverages)
    for difference in told_apart(found):
        print()
        for line in details(difference, verbose):
            print(line)
    if last:
        print(f"\n{last}")


def time_line(model: str, coverages: Sequence[Coverage]) -> str:
    """How to get the times on these targets; "" for a backend that Qualcomm's libraries simulate on no chip."""
    from opdb.measure.cost.chips import simulated
    from opdb.measure.cost.simulator import QNN
    from opdb.runtime.qnn import SIMULATING

    if coverages[0].backend != SIMULATING:
        return ""
    known = [c for c in coverages if c.soc in simulated(c.sdk or QNN)]
    if len(known) < len(coverages):
        without = " or ".join(dict.fromkeys(str(c.soc) for c in coverages if c not in known))
        chips = ", ".join(simulated(QNN))
        return (
            f"times: Qualcomm's libraries do not simulate {without}; opdb cost estimates a model on {chips}"
        )
    versions = [f" --qnn {c.sdk}" if c.sdk else "" for c in known]
    calls = [f"opdb cost {model} --soc {c.soc}{qnn}" for c, qnn in zip(known, versions, strict=True)]
    return f"times: {'; '.join(calls)}"
