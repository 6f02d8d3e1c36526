"""Runs a .pte with a kernel library in a separate process, since registrations are permanent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from opdb.plugins.executorch.portable_kernels import kernels


def main(program: str, inputs: str, results: str, *libraries: str) -> None:
    """Writes the results with torch.save, and prints how often each kernel ran and who owns the omitted ones."""
    loaded = [kernels.load(Path(library)) for library in libraries]
    from executorch.extension.pybindings import portable_lib

    method = portable_lib._load_for_executorch(program)
    given: list[Any] = torch.load(inputs)
    torch.save([t.clone() for t in method.forward(given)], results)
    runs = [[op, key, *counts] for one in loaded for (op, key), counts in one.runs().items()]
    owners = [[k.op, k.key, k.owner] for one in loaded for k in one.kernels]
    sys.stdout.write(json.dumps({"runs": runs, "owners": owners}))


if __name__ == "__main__":
    main(*sys.argv[1:])
