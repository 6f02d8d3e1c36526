"""Runs every kernel case under AddressSanitizer, without checking the numbers.  Argument: a library."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
from c_library import call
from kernel_cases import all_cases


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    count = 0
    for case in all_cases():
        outputs = [np.empty(shape, kind) for shape, kind in case.outputs]
        status = call(library, case.kernel, *case.arguments, *([outputs] if case.variadic else outputs))
        if status != "OK":
            sys.exit(f"{case.kernel} {case.name}: {status}")
        count += 1
    sys.stdout.write(f"{count} cases\n")


if __name__ == "__main__":
    main()
