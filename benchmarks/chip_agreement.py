"""opdb's verdict beside the library's validator, on random op configs, for every chip that the HTP library opens.

    python benchmarks/chip_agreement.py [--count N] [--qnn VERSION] [--soc NAME ...] [--op OP ...] [--seed N] [--floor PERCENT]

The generator is independent of those from which rules were learned (opdb/measure/sweeps/generate.py,
tests/measure/agreement/blind.py).
It draws an op, one of its samples, data types without looking at type rows, sizes, encodings and, of
every third config, a mistake.  Every chip validates the same configs, in a separate child process, and a table is printed.
The exit status is 1 if a chip agrees on less than ``--floor`` percent.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target, soc_name
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.core.sdk import sdk_number
from opdb.core.settings import specs_folder
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.socs import SOCS
from opdb.judge.samples import kernel_types, sample_config, with_outputs
from opdb.judge.validate import check, infer
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries, find, installed
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

TYPES = ("f32", "f16", "uq8", "sq8", "uq16", "sq16", "i32", "bf16", "bool8", "u8")
WEIGHTS = (6, 4, 6, 3, 4, 2, 2, 1, 1, 1)
#: A slot keeps the type that goes with the first one so often, of ten times.
USUAL = 9


class Generator:
    """Random op configs of a backend's ops; the same seed gives the same configs."""

    def __init__(self, catalog: Catalog, ops: Sequence[str], seed: int) -> None:
        self.ops = [catalog.compiled(op) for op in ops if catalog.ops[op].samples]
        self.rng = random.Random(seed)

    def configs(self, count: int) -> list[OpConfig]:
        found: list[OpConfig] = []
        while len(found) < count:
            op = (
                self.ops[len(found) % len(self.ops)]
                if len(found) < len(self.ops)
                else self.rng.choice(self.ops)
            )
            made = self._config(op)
            if made is not None:
                found.append(made)
        self.rng.shuffle(found)
        return found

    def _config(self, op: CompiledOp) -> OpConfig | None:
        rng = self.rng
        main = rng.choices(TYPES, WEIGHTS)[0]
        usual = kernel_types(op, main)
        dtypes = {slot: d if rng.randrange(10) < USUAL else rng.choice(TYPES) for slot, d in usual.items()}
        try:
            made = sample_config(op, rng.randrange(len(op.definition.samples)), dtypes)
        except OpdbError:
            return None
        if rng.random() < 0.5:
            made = self._resized(op, made, dtypes) or made
        made = self._encoded(made)
        return self._slip(made) if rng.random() < 1 / 3 else made

    def _resized(self, op: CompiledOp, config: OpConfig, dtypes: dict[str, str]) -> OpConfig | None:
        """Changes sizes; equal sizes stay equal."""
        sizes: dict[int, int] = {}

        def other(t: TensorConfig) -> TensorConfig:
            shape = [sizes.setdefault(d, self.rng.choice((d, d, 2 * d, d + 1, 8))) for d in t.shape]
            return replace(t, shape=tuple(shape), data=None)

        return with_outputs(replace(config, inputs=tuple(map(other, config.inputs))), op, dtypes, infer)

    def _encoded(self, config: OpConfig) -> OpConfig:
        """Changes scales and offsets of whole tensors, sometimes one for all."""
        shared = self.rng.random() < 0.5
        scale = round(self.rng.uniform(0.001, 0.4), 4)
        offset = -self.rng.randrange(200)

        def other(t: TensorConfig) -> TensorConfig:
            if (
                t.quant is None
                or t.quant.encoding != "SCALE_OFFSET"
                or not (shared or self.rng.random() < 0.3)
            ):
                return t
            zero = t.quant.offset if t.dtype.startswith("sq") or t.type == "STATIC" else (offset,)
            return replace(t, quant=replace(t.quant, scale=(scale,), offset=zero))

        outputs = tuple(map(other, config.outputs))
        return replace(config, inputs=tuple(map(other, config.inputs)), outputs=outputs)

    def _slip(self, config: OpConfig) -> OpConfig:
        """Makes one mistake: a type, a rank, a size, a parameter or a tensor."""
        rng = self.rng
        kind = rng.choice(("type", "rank", "size", "param", "drop"))
        if kind == "param" and config.params:
            return replace(
                config, params=tuple(p for p in config.params if p is not rng.choice(config.params))
            )
        if kind == "drop" and len(config.inputs) > 1:
            return replace(config, inputs=config.inputs[:-1])
        tensors = [*config.inputs, *config.outputs]
        place = rng.randrange(len(tensors))
        t = tensors[place]
        if kind == "rank":
            t = replace(t, shape=(1, *t.shape), data=None)
        elif kind == "size" and t.shape:
            at = rng.randrange(len(t.shape))
            t = replace(t, shape=(*t.shape[:at], t.shape[at] + 1, *t.shape[at + 1 :]), data=None)
        else:
            t = replace(t, dtype=rng.choice(TYPES), data=None, quant=None)
        tensors[place] = t
        n = len(config.inputs)
        return replace(config, inputs=tuple(tensors[:n]), outputs=tuple(tensors[n:]))


@dataclass
class Agreement:
    """The verdicts of opdb and of the library on the same configs, on one chip."""

    soc: str
    counts: Counter[tuple[str, str]]
    differing: Counter[str]

    @property
    def n(self) -> int:
        return sum(n for (_, said), n in self.counts.items() if said in ("accept", "reject"))

    @property
    def percent(self) -> float:
        both = self.counts["accept", "accept"] + self.counts["reject", "reject"]
        return 100 * both / self.n if self.n else 0.0


def measure(soc: str, configs: Sequence[OpConfig], libraries: Libraries, sdk: str) -> Agreement | None:
    """Measures one chip; None if the library does not open it."""
    target = Target("HTP", soc, sdk)
    with VendorWorker("HTP", soc, libraries=libraries.folder, log_level="error", timeout=30) as worker:
        try:
            said = worker.validate_many(configs)
        except QnnError:
            return None
    agreement = Agreement(soc, Counter(), Counter())
    for config, verdict in zip(configs, said, strict=True):
        ours = check(config, target).verdict
        agreement.counts[ours, verdict.verdict] += 1
        if verdict.verdict in ("accept", "reject") and ours != verdict.verdict:
            agreement.differing[f"{config.op} ({ours}, the library: {verdict.verdict})"] += 1
    return agreement


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400, help="configs for each chip")
    parser.add_argument("--qnn", help="the version of the library; default the installed wheel")
    parser.add_argument("--soc", action="append", help="default: every chip of specs/socs.yaml")
    parser.add_argument("--op", action="append", help="default: every op that specs document for HTP")
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--floor", type=float, default=99.5)
    args = parser.parse_args()
    libraries = installed() if args.qnn is None else find(args.qnn)
    sdk = ".".join(libraries.qnn_version().split(".")[:2])
    catalog = read_catalog(specs_folder(None))
    ops = args.op or [name for name, op in catalog.ops.items() if "HTP" in op.backends]
    configs = Generator(catalog, ops, args.seed).configs(args.count)
    found = []
    print("| chip | version | fp16 | bf16 | configs | both accept | both reject | differ | agreement |")
    print("|---|---|---|---|---|---|---|---|---|")
    for soc in [soc_name(s) for s in args.soc] if args.soc else SOCS:
        entry = catalog.socs[soc].more.get("libraries") or {}
        if entry == "none" or ("since" in entry and sdk_number(entry["since"]) > sdk_number(sdk)):
            continue  # a number without a name there, if it is opened at all
        made = measure(soc, configs, libraries, sdk)
        if made is not None:
            found.append(made)
            print(_row(made), flush=True)
    differing: Counter[str] = sum((a.differing for a in found), Counter())
    for what, n in differing.most_common():
        print(f"{n} of all chips: {what}")
    low = [a.soc for a in found if a.percent < args.floor]
    print(
        f"{len(found)} chips, {len(configs)} configs each, {len(ops)} ops; below {args.floor} %: {', '.join(low) or 'none'}"
    )
    return 1 if low else 0


def _row(a: Agreement) -> str:
    chip = SOCS[a.soc]
    yes = ["yes" if has else "" for has in (chip.fp16, chip.bf16)]
    counts = (a.n, a.counts["accept", "accept"], a.counts["reject", "reject"], sum(a.differing.values()))
    version = f"v{chip.htp_arch}" if chip.htp_arch else ""
    return "| " + " | ".join(map(str, (a.soc, version, *yes, *counts, f"{a.percent:.2f} %"))) + " |"


if __name__ == "__main__":
    sys.exit(main())
