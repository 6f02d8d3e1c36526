"""validate and check."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdb.cli.options import Backend, Json, Sdk, Soc
from opdb.cli.output import print_json, print_json_line
from opdb.errors import OpdbError

if TYPE_CHECKING:
    from opdb.nearest import Variant
    from opdb.op_config import OpConfig
    from opdb.validate import Verdict


def add_to(app: typer.Typer) -> None:
    app.command()(validate)
    app.command()(check)


def _configs(file: str) -> Iterator[tuple[str, OpConfig]]:
    """(place, op config) for each one in the file: a JSON document, a list of them, or JSON lines."""
    import json

    from opdb.op_config import ConfigError, from_json

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OpdbError(f"{file}: cannot read: {error}") from None
    name = "standard input" if file == "-" else file
    try:
        document = json.loads(text)
        items = [(name if not isinstance(document, list) else f"{name}[{i}]", d)
                 for i, d in enumerate(document if isinstance(document, list) else [document])]  # fmt: skip
    except json.JSONDecodeError:
        items = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                items.append((f"{name}:{number}", json.loads(line)))
            except json.JSONDecodeError as error:
                raise OpdbError(f"{name}:{number}:{error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise OpdbError(f"{name}: nested too deeply") from None
    if not items:
        raise OpdbError(
            f'{name}: no op config in it; ex) {{"op": "Relu", "inputs": [...], "outputs": [...]}}'
        )
    for place, item in items:
        try:
            yield place, from_json(item)
        except ConfigError as error:
            raise OpdbError(f"{place}: {error}") from None


def validate(
    file: Annotated[str, typer.Argument(help="Op configs: JSON, JSON lines, or - for standard input.")],
    backend: Backend = None,
    soc: Soc = None,
    sdk: Sdk = None,
    against: Annotated[
        str | None, typer.Option("--against", help="'vendor': ask the real library too.")
    ] = None,
    json: Json = False,
) -> None:
    """Judge op configs: every broken rule with its values, and what to change; exit 1 if one is not accepted."""
    from opdb.nearest import nearest
    from opdb.validate import Target
    from opdb.validate import check as judge

    target = Target(backend.upper() if backend else None, soc.upper() if soc else None, sdk)
    if against not in (None, "vendor"):
        raise OpdbError(f"--against {against}: only 'vendor' is known")
    if against and backend is None:
        raise OpdbError("--against vendor needs --backend CPU, or --backend HTP and --soc")
    rejected = False
    worker = _vendor(target.backend, target.soc) if against else None
    try:
        for place, config in _configs(file):
            try:
                verdict = judge(config, target)
            except OpdbError as error:
                raise OpdbError(f"{place}: {error}") from None
            answer = None if worker is None else worker.validate(config)
            variant = None if verdict.verdict == "accept" else nearest(config, target)
            rejected |= verdict.verdict != "accept"
            if json:
                near = {"nearest": None if variant is None else variant.json()}
                vendor = {} if answer is None else {"vendor": _vendor_json(answer)}
                print_json_line(verdict.json() | near | vendor)
            else:
                _print_verdict(place, verdict, variant, answer)
    finally:
        if worker is not None:
            worker.close()
    if rejected:
        raise typer.Exit(1)


def _vendor(backend: str | None, soc: str | None) -> Any:
    from opdb.probe.client import VendorWorker

    assert backend is not None
    return VendorWorker(backend, soc)


def _vendor_json(answer: Any) -> dict[str, Any]:
    return {
        "verdict": answer.verdict,
        "code": answer.code,
        "code_name": answer.code_name,
        "log": list(answer.log),
    }


def _print_verdict(place: str, verdict: Verdict, variant: Variant | None, answer: Any) -> None:
    ident = f" {verdict.config.id}" if verdict.config.id else ""
    print(f"{place}:{ident} {verdict.config.op} on {verdict.target}: {verdict.verdict}")
    for v in verdict.violations:
        print(f"  {'warning ' if v.expected else ''}{v.rule}: {v.message}")
    if variant is not None:
        print(f"  nearest accepted: {variant.text}")
    if answer is not None:
        code = "" if answer.verdict == "accept" else f" {answer.code} {answer.code_name}"
        print(f"  vendor: {answer.verdict}{code}")
        for line in answer.log:
            if line.startswith(("error", "warning")):  # --json has the whole log
                print(f"    {line}")


def check(
    model: Annotated[
        str, typer.Argument(help="A .pt2 file, or module:callable that returns (module, inputs).")
    ],
    backend: Annotated[str, typer.Option("--backend", metavar="NAME", help="QNN backend.")] = "HTP",
    soc: Soc = None,
    sdk: Sdk = None,
    dtype: Annotated[str, typer.Option("--dtype", help="What float32 tensors become: f32 or f16.")] = "f32",
    decompose: Annotated[
        bool,
        typer.Option("--decompose", help="Break the program down to core ATen where a node has no mapping."),
    ] = False,
    json: Json = False,
) -> None:
    """Say which nodes of a PyTorch model a target takes, and why not the others; exit 1 if some are left."""
    from opdb.coverage.check import check_program
    from opdb.coverage.load import load_program
    from opdb.validate import Target

    if dtype not in ("f32", "f16"):
        raise OpdbError(f"--dtype {dtype}: one of f32, f16")
    target = Target(backend.upper(), soc.upper() if soc else None, sdk)
    target.context()  # an unknown backend or SoC is said before the model is loaded
    sys.path.insert(0, "")
    coverage = check_program(load_program(model), target, float_dtype=dtype, decompose=decompose)
    if json:
        print_json(coverage.to_json())
    else:
        print_coverage(coverage)
    if not coverage.complete:
        raise typer.Exit(1)


def print_coverage(coverage: Any) -> None:
    """One line for each node, and below a rejected one its reasons."""
    width = max((len(r.node) for r in coverage.rows), default=4)
    for r in coverage.rows:
        taken = f"{r.form}: {' -> '.join(r.ops)}" if len(r.ops) > 1 else ", ".join(r.ops)
        print(f"{r.verdict:10} {r.node:{width}}  {r.target}{'  ' + taken if taken else ''}")
        if r.verdict != "supported":
            for reason in r.reasons:
                print(f"{'':10}   {reason['rule']}: {reason['message']}")
            for near in r.nearest:
                print(f"{'':10}   nearest accepted {near['op']}: {near['text']}")
            if r.module or r.line:
                print(f"{'':10}   at {' '.join(p for p in (r.module, r.line) if p)}")
    counts = ", ".join(f"{coverage.count(v)} {v}" for v in ("supported", "rejected", "host"))
    graphs = f"{coverage.partitions} graph{'s' * (coverage.partitions != 1)}"
    print(
        f"{len(coverage.rows)} nodes: {counts}; {graphs} on {coverage.backend} {coverage.soc or ''}".rstrip()
    )
