"""Counts the packets, instructions and HVX instructions that the C kernels execute on Hexagon v68 per element of the results.

Counts kernel and shim as compiled by clang-19, under QEMU, without the validator: code, not cycles.  The counts are the
same in every run.  By default the cases of benchmarks/kernels.py in their smallest size, float32; --samples: the samples of
all ops in the types of their kernels, which are small, so that the code around the kernel counts more.

    tools/with-hexagon python benchmarks/hexagon.py [--only OP]... [--samples]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from _kernel_cases import IMAGES, ROWS, of_elements, of_images, of_rows

from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig
from opdb.core.settings import specs_folder
from opdb.judge.samples import kernel_configs
from opdb.measure.conformance import data
from opdb.plugins.hexagon import Counted, Server, check_compiler, emulator
from opdb.plugins.packages.hexagon_executor import program
from opdb.runtime.native import KernelError
from opdb.spec.catalog import Catalog

Call = tuple[str, OpConfig, list[Any]]
SMALLEST = (IMAGES[0], ROWS[0])


def of_cases() -> Iterator[Call]:
    for case in chain(of_images(), of_rows(), of_elements()):
        if case.inputs[0].shape in SMALLEST:
            yield case.size, case.config, list(case.inputs)


def of_samples(catalog: Catalog) -> Iterator[Call]:
    for name, op in catalog.ops.items():
        for i, config in enumerate(kernel_configs(catalog.compiled(name)) if op.kernel else ()):
            yield config.inputs[0].dtype, config, data.inputs(f"{name}-{i}", config)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="OP", help="these ops; by default all")
    parser.add_argument("--samples", action="store_true", help="all ops, their samples")
    options = parser.parse_args()
    try:
        check_compiler()
        command = [emulator()]
    except OpdbError as error:
        print(f"hexagon: left out: {error}")
        return 0
    catalog = read_catalog(specs_folder())
    found: dict[tuple[str, str], tuple[Counted, int, int]] = {}
    with Server([*command, str(program(catalog))]) as server:
        for label, config, inputs in of_samples(catalog) if options.samples else of_cases():
            if options.only and config.op not in options.only:
                continue
            try:
                results = server.run(config, inputs)
            except KernelError:
                continue  # no kernel for these types
            counted, elements, calls = found.get((config.op, label), (Counted(), 0, 0))
            elements += sum(int(np.size(r)) for r in results)
            found[config.op, label] = counted + server.last, elements, calls + 1
    if not found:
        sys.stderr.write("hexagon: nothing has one of these ops\n")
        return 2
    print(
        f"{'op':28} {'':20} {'calls':>5} {'elements':>9}  for each: {'packets':>8} {'instr.':>9} {'HVX':>7}"
    )
    for (op, label), (c, n, calls) in found.items():
        each = (c.packets / n, c.instructions / n, c.vector / n) if n else (0.0, 0.0, 0.0)
        print(f"{op:28} {label:20} {calls:5} {n:9,}  {each[0]:18.2f} {each[1]:9.2f} {each[2]:7.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
