"""validate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.help import CHECK, App
from opdb.cli.option_groups import TargetOptions, with_option_groups
from opdb.cli.options import Json, Lenient, Strict, Verbose, check_strictness
from opdb.cli.output import print_json_line
from opdb.core.errors import OpdbError
from opdb.generated.constants.backends import ASKED

if TYPE_CHECKING:
    from opdb.catalog.targets.target import Target
    from opdb.core.op_config import OpConfig
    from opdb.execute.libraries.client import VendorWorker
    from opdb.judge.nearest import Variant
    from opdb.judge.validate import Verdict


def add_to(app: App) -> None:
    app.command(example="opdb validate ops.json --soc SM8650", group=CHECK)(validate)


@dataclass(frozen=True)
class ValidateOptions:
    """All options, in the order of the help."""

    target: TargetOptions = TargetOptions()
    against: Annotated[
        str | None, typer.Option("--against", metavar="LIBRARY", help="'vendor': ask the real library too.")
    ] = None
    no_nearest: Annotated[
        bool,
        typer.Option(
            "--no-nearest",
            help="Do not search for what would be accepted, which takes most of the time of refused op configs.",
        ),
    ] = False
    keep_going: Annotated[
        bool,
        typer.Option("--keep-going", help="A line that is no op config is one bad row, not the end."),
    ] = False
    verbose: Verbose = False
    strict: Strict = False
    lenient: Lenient = False
    json: Json = False

    def check_against(self, target: Target) -> None:
        """Raises OpdbError for an unknown --against, and without a backend whose library can be asked."""
        if self.against not in (None, "vendor"):
            raise OpdbError(f"--against {self.against}: only 'vendor' is known")
        if self.against and target.backend is None:
            raise OpdbError(f"--against vendor needs {', or '.join(_askable())}")


@with_option_groups
def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Op configs: JSON, JSON lines, or - for standard input.")
    ],
    options: ValidateOptions,
) -> None:
    """Validate op configs: broken rules, and what to change.

    Exit 1 if one is not accepted, or is accepted and has an erratum of the library that is to be avoided.
    """
    check_strictness(options.strict, options.lenient)
    from opdb.judge.validate import check

    target = options.target.target()
    options.check_against(target)
    failed = False
    with ExitStack() as done:
        worker = done.enter_context(_vendor(target)) if options.against else None
        for place, ident, config in _rows(file, options.keep_going):
            try:
                if isinstance(config, OpdbError):
                    raise config
                verdict = check(config, target)
            except OpdbError as error:
                if not options.keep_going:
                    raise OpdbError(f"{place}: {error}") from None
                failed = True
                _print_invalid(place, ident, error, options.json)
                continue
            judged = _judged(verdict, target, options, worker)
            failed |= judged.fails(options)
            if options.json:
                print_json_line(judged.document())
            else:
                judged.print(place, options)
    if failed:
        raise typer.Exit(1)


def _rows(file: str, keep_going: bool) -> Iterator[tuple[str, str | None, OpConfig | OpdbError]]:
    """(place, id, op config) for each item in the file; with --keep-going, the error instead of an invalid op config."""
    from opdb.cli.op_configs import configs, rows

    return rows(file) if keep_going else ((place, c.id, c) for place, c in configs(file))


@dataclass(frozen=True)
class _Judged:
    """A verdict.  ``policies``: errata policy by rule.  ``variant``: the nearest accepted config; ``answer``: the library's."""

    verdict: Verdict
    policies: Mapping[str, str]
    variant: Variant | None
    answer: Any

    def fails(self, options: ValidateOptions) -> bool:
        from opdb.judge.errata.policy import AVOID, IGNORE

        avoided = AVOID in self.policies.values() and not options.lenient
        warned = any(self.policies.get(v.rule) != IGNORE for v in self.verdict.violations)
        return self.verdict.verdict != "accept" or avoided or (options.strict and warned)

    def document(self) -> dict[str, Any]:
        near = {"nearest": None if self.variant is None else self.variant.json()}
        vendor = {} if self.answer is None else {"vendor": _vendor_json(self.answer)}
        document = self.verdict.json() | near | vendor
        for violation in document["violations"]:
            violation["policy"] = self.policies.get(violation["rule"])
        return document

    def print(self, place: str, options: ValidateOptions) -> None:
        from opdb.judge.errata.policy import IGNORE

        kept = tuple(v for v in self.verdict.violations if self.policies.get(v.rule) != IGNORE)
        shown = replace(self.verdict, violations=kept)
        print_verdict(place, shown, self.variant, self.answer, options.verbose)
        if self.verdict.verdict == "accept" and self.fails(options):
            print(f"  {self._why(options)}")

    def _why(self, options: ValidateOptions) -> str:
        """Why an accepted config makes the exit code 1."""
        from opdb.judge.errata.policy import AVOID

        avoided = [erratum for erratum, policy in self.policies.items() if policy == AVOID]
        if avoided and not options.lenient:
            ignore = " ".join(f"--ignore-erratum {erratum}" for erratum in avoided)
            return f"exit 1: accepted, but {', '.join(avoided)} makes it fail or compute wrong results; --lenient or {ignore} lets it pass"
        return "exit 1: accepted, but --strict counts warnings"


def _judged(
    verdict: Verdict, target: Target, options: ValidateOptions, worker: VendorWorker | None
) -> _Judged:
    from opdb.judge.errata.policy import policy
    from opdb.judge.nearest import nearest

    answer = None if worker is None else worker.validate(verdict.config)
    search = verdict.verdict != "accept" and not options.no_nearest
    variant = nearest(verdict.config, target) if search else None
    policies = {v.rule: policy(v.erratum, target) for v in verdict.violations if v.erratum}
    return _Judged(verdict, policies, variant, answer)


def _print_invalid(place: str, ident: str | None, error: OpdbError, json: bool) -> None:
    """Prints the row of an invalid op config."""
    if json:
        print_json_line({"place": place, "id": ident, "verdict": "invalid", "error": str(error)})
    else:
        print(f"{place}:{f' {ident}' if ident else ''} invalid: {error}")


def _askable() -> list[str]:
    """The options for each library that can be asked."""
    return [f"--backend {b.name}{' and --soc' if b.per_soc else ''}" for b in ASKED]


def _vendor(target: Target) -> VendorWorker:
    from opdb.execute.libraries.client import VendorWorker

    return VendorWorker(str(target.backend), target.soc)


def _vendor_json(answer: Any) -> dict[str, Any]:
    return {
        "verdict": answer.verdict,
        "code": answer.code,
        "code_name": answer.code_name,
        "log": list(answer.log),
    }


def print_verdict(
    place: str, verdict: Verdict, variant: Variant | None, answer: Any, verbose: bool = False
) -> None:
    """Prints the verdict, the broken rules, and the library's answer."""
    from opdb.execute.libraries.results import HUNG
    from opdb.runtime.qnn.errors import explained

    ident = f" {verdict.config.id}" if verdict.config.id else ""
    print(f"{place}:{ident} {verdict.config.op} on {verdict.target}: {verdict.verdict}")
    for v in sorted(verdict.violations, key=lambda v: v.warning):
        print(f"  {'warning: ' if v.warning else ''}{v.message if verbose else v.brief} ({v.rule})")
    if variant is not None:
        print(f"  nearest accepted: {variant.text}")
    if answer is not None:
        code = "" if answer.verdict == "accept" else f" {explained(answer.code, answer.code_name)}".rstrip()
        code = f": {HUNG}" if answer.verdict == "hung" else code
        print(f"  vendor: {answer.verdict}{code}")
        for line in answer.log:
            if line.startswith(("error", "warning")):  # --json has the whole log
                print(f"    {line}")
