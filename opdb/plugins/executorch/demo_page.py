"""The first page of the demo's report: the model, its differences from PyTorch, the .pte, the refused op config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opdb.checks.coverage import Coverage
from opdb.core.names import counted, plural
from opdb.core.pages import checked, style, table, text
from opdb.judge.nearest import Variant
from opdb.judge.validate import Verdict
from opdb.plugins.executorch.demo import Comparison


@dataclass
class Report:
    """What the demo found, in the order of its steps."""

    model: str
    coverage: Coverage
    comparisons: list[Comparison] = field(default_factory=list)
    pte: bytes = b""
    delegated: Sequence[str] = ()
    on_host: Sequence[str] = ()
    refused: Verdict | None = None
    library: str = ""  # what Qualcomm's library said of the refused config
    nearest: Variant | None = None


def page(report: Report, check: str, pte: str, cases: str) -> str:
    """The page as HTML.  ``check``, ``pte`` and ``cases``: the files of `opdb check`, the program, the first page of the cases."""
    nodes = [[r.node, r.target, ", ".join(r.ops), r.verdict] for r in report.coverage.rows]
    differences = [
        [
            c.executor,
            "within the bound" if c.ok else "OUTSIDE the bound",
            f"{c.largest:.3g}",
            f"{c.relative:.3g}",
            f"{c.bound:g}",
        ]
        for c in report.comparisons
    ]
    place = f"{report.coverage.backend} of {report.coverage.soc}"
    right = sum(c.ok for c in report.comparisons)
    supported = sum(r.verdict == "supported" for r in report.coverage.rows)
    sections = [
        f"<h1>opdb demo: {text(report.model)}</h1>",
        f"<p><b>{supported} of {counted(len(nodes), 'node')} {plural(supported, 'runs', 'run')} on {text(place)}</b>; "
        f"{right} of {counted(len(differences), 'result')} {plural(right, 'is', 'are')} as PyTorch's.</p>",
        _section(
            "nodes",
            f"What runs on {place}",
            table(["node", "operator", "QNN ops", "verdict"], nodes)
            + f'<p><a href="{check}">The whole answer of opdb check</a></p>',
        ),
        _section(
            "differences",
            "Differences from PyTorch in float32",
            table(
                ["computed by", "result", "largest difference", "relative to the largest result", "bound"],
                differences,
                (2, 3, 4),
            ),
        ),
        _section(
            "pte",
            "The ExecuTorch program",
            f'<p><a href="{pte}">{pte}</a>, {len(report.pte)} bytes. Delegated to the NPU: {text(", ".join(report.delegated))}; '
            f"on the CPU: {text(', '.join(report.on_host) or 'nothing')}.</p>",
        ),
        _section("refused", "A refused configuration", _refused(report)),
        _section(
            "cases",
            "Conformance",
            f'<p><a href="{cases}">All cases of the model\'s ops on all executors</a></p>',
        ),
    ]
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>opdb demo</title><style>{style()}</style></head><body><main>{''.join(sections)}</main></body></html>\n"
    )
    return checked(made, "the demo's model is fixed; report this")


def _section(ident: str, heading: str, body: str) -> str:
    return f'<section aria-labelledby="{ident}"><h2 id="{ident}">{text(heading)}</h2>{body}</section>'


def _refused(report: Report) -> str:
    assert report.refused is not None  # the demo's config breaks a rule
    rules = "".join(f"<li>{text(v.rule)}: {text(v.message)}</li>" for v in report.refused.violations)
    near = "" if report.nearest is None else f"<p>Nearest accepted: {text(report.nearest.text)}</p>"
    said = f"<p>Qualcomm's library: {text(report.library)}</p>" if report.library else ""
    return f"<p>{text(report.refused.config.op)} on {text(str(report.refused.target.backend))}:</p><ul>{rules}</ul>{said}{near}"
