"""Twenty networks, `compile --quantize` to a context, on four chips: the vendor's emulation against PyTorch.

    python benchmarks/quantized_networks.py [--only NAME] [--soc SOC] [--recipe NAME] [--no-pt2e] [--out FILE.json] [--page]

Networks of timm and transformers with random weights, at small sizes (emulation computes some 1e8 multiplications a second),
calibrated on 16 random samples.  The signal-to-noise ratio is that of the worst result, on a sample of the calibration: against
PyTorch in floats, and against the module of PyTorch's own quantization (PT2E, by ExecuTorch's quantizer, with the same recipe
and samples).  The third column, that module against floats, is the cost of the quantization itself.
Needs the extra suite.  Results go to docs/results/quantized-networks.json; with --page to quantized-networks.md, too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results"
SOCS = ("QCM6490", "SM8635", "SM8550", "SM8750")
RECIPES = ("8a8w", "16a8w")
#: The least signal to noise, in dB.
LEAST = {"8a8w": 25.0, "16a8w": 40.0}
SAMPLES = 16
NETWORKS = (
    "timm.mobilenetv2_050", "timm.mobilenetv3_small_050", "timm.efficientnet_b0", "timm.resnet18", "timm.regnetx_002",
    "timm.ghostnet_050", "transformers.vit", "timm.densenet121", "timm.convnext_atto", "timm.mobilevit_xxs",
    "timm.edgenext_xx_small", "timm.poolformer_s12", "timm.vit_tiny_patch16_224",
    "timm.swin_tiny_patch4_window7_224", "transformers.bert", "transformers.clip_vision", "transformers.distilbert", "transformers.gpt2",
    "transformers.llama", "transformers.whisper_encoder",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append")
    parser.add_argument("--soc", action="append")
    parser.add_argument("--recipe", action="append")
    parser.add_argument("--out", type=Path, default=RESULTS / "quantized-networks.json")
    parser.add_argument("--page", action="store_true")
    parser.add_argument(
        "--no-pt2e",
        action="store_true",
        help="leave PyTorch's quantized modules out, which take most of the time",
    )
    args = parser.parse_args()
    found: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in args.only or NETWORKS:
        for recipe in args.recipe or RECIPES:
            _measure(name, recipe, args.soc or SOCS, found, args.out, not args.no_pt2e)
    if args.page:
        (RESULTS / "quantized-networks.md").write_text(page(found), encoding="utf-8")
    return 0


def _measure(
    name: str, recipe: str, socs: Sequence[str], found: dict[str, Any], out: Path, pt2e: bool
) -> None:
    """Adds the lines of one network and recipe that are not there yet, and writes them."""
    missing = [s for s in socs if f"{name} {recipe} {s}" not in found]
    if not missing:
        return
    program, calibration, wanted = network(name)
    own = f"{name} {recipe}"
    if pt2e and own not in found:
        found[own] = _of_pt2e(name, recipe)
    simulated = found.get(own, {}).pop("results", None)
    for soc in missing:
        began = time.perf_counter()
        line = _compiled(program, calibration, wanted, simulated, recipe, soc)
        found[f"{name} {recipe} {soc}"] = line
        print(f"{name} {recipe} {soc}: {line} {time.perf_counter() - began:.0f} s", flush=True)
    out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def network(name: str) -> tuple[Any, list[tuple[Any, ...]], list[Any]]:
    """The exported program, the samples (tensors), and the results of the last one in floats."""
    import torch
    from _check_models import MODELS
    from torch.utils._pytree import tree_leaves

    from opdb.programs.torch.export import export

    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    _settle(module, inputs)
    module.eval()
    calibration = samples(inputs)
    with torch.no_grad():
        wanted = [o.numpy() for o in tree_leaves(module(*calibration[-1]))]
    return export(module, calibration[-1], name=name), calibration, wanted


def samples(inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Draws samples like ``inputs``: normally distributed numbers, and token ids in their range."""
    import torch

    torch.manual_seed(1)
    return [
        tuple(
            torch.randn_like(x) if x.is_floating_point() else torch.randint(1, 60, x.shape).to(x.dtype)
            for x in inputs
        )
        for _ in range(SAMPLES)
    ]


def _settle(module: Any, inputs: Sequence[Any]) -> None:
    """Gives batch norms the statistics that they would have after training on such inputs."""
    import torch
    from torch import nn

    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None  # the average of all
    if norms:
        module.train()
        with torch.no_grad():
            for _ in range(3):
                module(*(torch.randn(4, *x.shape[1:]) for x in inputs))
    module.eval()


def _of_pt2e(name: str, recipe: str) -> dict[str, Any]:
    """Returns the results of PyTorch's quantized module and their signal to noise against floats."""
    from opdb.core.errors import OpdbError
    from opdb.plugins.executorch import env, process

    try:
        results, wanted = process.call(
            "quantized_networks:simulated",
            name,
            recipe,
            environment=env.prepare(),
            timeout=900.0,
            path=[HERE],
        )
    except OpdbError as error:
        return {"pt2e": str(error).strip().splitlines()[-1][:200]}
    return {"pt2e": worst(results, wanted), "results": results}


def simulated(name: str, recipe: str) -> tuple[list[Any], list[Any]]:
    """The child's side of ``_of_pt2e``."""
    import torch
    from torch.utils._pytree import tree_leaves

    from opdb.plugins.executorch import quantize

    program, calibration, wanted = network(name)
    made = quantize.quantize(
        program.module(check_guards=False), calibration[-1], "SM8550", recipe, calibration
    )
    with torch.no_grad():
        return [o.detach().numpy() for o in tree_leaves(made(*calibration[-1]))], wanted


def _compiled(
    program: Any, calibration: Sequence[Any], wanted: Sequence[Any], simulated: Any, recipe: str, soc: str
) -> dict[str, Any]:
    from opdb.catalog.targets.target import Target
    from opdb.core.errors import OpdbError
    from opdb.execute.compile.model import lowered
    from opdb.execute.compile.sources import sources_of
    from opdb.execute.libraries.client import VendorWorker
    from opdb.lower.quantize import quantize
    from opdb.runtime.qnn.real_numbers import to_real, to_stored

    target = Target("HTP", soc, execution="emulator")
    coverage, graph = lowered(program, target, "g", to_quantize=True)
    if graph is None:
        rows = [f"{r.node} ({r.target})" for r in coverage.rows if r.verdict != "supported"]
        return {"failed": f"check: {', '.join(rows)[:200]}"}
    given = [dict(zip([t.name for t in graph.inputs], map(_array, s), strict=True)) for s in calibration]
    told: list[str] = []
    try:
        made = quantize(
            graph, given, target=target, recipe=recipe, sources=sources_of(coverage.rows), told=told
        )
    except OpdbError as error:
        return {"failed": f"quantize: {str(error)[:300]}"}
    with VendorWorker("HTP", soc, timeout=900) as worker:
        said = worker.run(made, {t.name: to_stored(t, given[-1][t.name]) for t in made.inputs})
    if said.verdict != "yes":
        return {"failed": f"{said.stage}: {said.verdict} {said.code_name} {said.node}".strip()}
    results = [to_real(t, said.outputs[t.name]) for t in made.outputs]
    floats = [line for line in told if line.startswith("in floats")]
    line = {"float": worst(results, wanted), "ops": len(made.ops), "in floats": floats}
    return line | ({"against pt2e": worst(results, simulated)} if simulated else {})


def _array(x: Any) -> Any:
    return x.to("cpu").numpy().astype(np.float32 if x.is_floating_point() else np.int32)


def worst(results: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The lowest signal-to-noise ratio of the results, in dB; integers that differ count as noise."""
    ratios = []
    for got, want in zip(results, wanted, strict=True):
        w = np.asarray(want, np.float64)
        noise = float(((np.asarray(got, np.float64).reshape(w.shape) - w) ** 2).sum())
        ratios.append(10 * np.log10(float((w**2).sum()) / noise) if noise else 200.0)
    return round(float(min(ratios)), 1)


def page(found: Mapping[str, Any]) -> str:
    """docs/results/quantized-networks.md."""
    lines = [HEAD]
    for recipe in RECIPES:
        lines += [
            f"\n## {recipe}\n",
            f"| network | PT2E in PyTorch | {' | '.join(SOCS)} |",
            "|---|---|" + "---|" * len(SOCS),
        ]
        for name in NETWORKS:
            own = found.get(f"{name} {recipe}", {})
            cells = [_cell(found.get(f"{name} {recipe} {soc}", {}), recipe) for soc in SOCS]
            lines.append(f"| {name} | {own.get('pt2e', '')} | {' | '.join(cells)} |")
    lines += ["", *_sums(found), ""]
    failed = [f"- {k}: {v['failed']}" for k, v in sorted(found.items()) if "failed" in v]
    return "\n".join([*lines, *failed]).rstrip() + "\n"


def _sums(found: Mapping[str, Any]) -> Iterator[str]:
    """Counts over all chips."""
    ran = {tuple(k.split()): v for k, v in found.items() if len(k.split()) == 3}
    lines = {k: v for k, v in ran.items() if "failed" not in v}
    yield f"- {len(lines)} of {len(ran)} compile and run."
    reached = sum(v["float"] >= LEAST[recipe] for (_, recipe, _), v in lines.items())
    both = sum(v.get("against pt2e", 0.0) >= LEAST[recipe] for (_, recipe, _), v in lines.items())
    yield f"- {reached} reach the aim against PyTorch in floats, {both} against PyTorch's quantized module."
    apart = [
        v["float"] - found[f"{name} {recipe}"]["pt2e"]
        for (name, recipe, _), v in lines.items()
        if isinstance(found.get(f"{name} {recipe}", {}).get("pt2e"), float)
    ]
    if apart:
        yield (
            f"- {sum(d >= 0 for d in apart)} of {len(apart)} are at least as near to floats as PyTorch's quantized module is; the others "
            f"are up to {-min(apart):.1f} dB farther."
        )


def _cell(line: Mapping[str, Any], recipe: str) -> str:
    if not line:
        return ""
    if "failed" in line:
        return "failed"
    said = f"{line['float']} ({line['against pt2e']})" if "against pt2e" in line else f"{line['float']}"
    return said + (" *" if line["in floats"] else "")


HEAD = """# Quantized networks

Twenty networks of timm and transformers with random weights, at small sizes, calibrated on 16 random samples, compiled to a context
by `opdb compile --quantize`, and run on the emulation of QNN 2.47 (`benchmarks/quantized_networks.py`). Each figure is the signal to noise
of the network's worst result, in dB.

- `PT2E`: PyTorch's own quantized module (by ExecuTorch's quantizer, same recipe and samples) against PyTorch in floats.
- A chip's column: the compiled context against PyTorch in floats, and in parentheses against PyTorch's quantized module.
- `*`: some nodes compute in floats. Each network is one graph on every chip.

The aim is 25 dB in 8a8w and 40 dB in 16a8w. A context cannot be much nearer to PyTorch's quantized module than that module is to
floats (the first column), so the figure in parentheses is low wherever the first column is. Convolutional networks with random weights
do not reach the aim: each ReLU adds a mean that the next normalization takes away, so the signal loses about 1.7 dB in every layer while
the noise stays. Such networks are right if they are as near to floats as PyTorch's quantized module is."""


if __name__ == "__main__":
    sys.exit(main())
