"""Tests that the checks of op packages find faults: each is put into a package, which then has to fail.

    python benchmarks/package_mutants [--kind HTP|CPU|ORT|AIC] [--only TEXT] [--keep DIR] [--sanitize]

A package of ops whose results depend on everything passed to a kernel is written and built, and passes ``battery.py`` on Qualcomm's
library, or in ONNX Runtime; the package for Cloud AI (AIC) passes ``cloud_ai_battery.py`` on this machine, in four threads.  Then one
text of one file at a time is changed (``mutants.py``), the package is built again, and the battery has to fail.  Prints a line for each,
and the count; exit 1 where a fault survives.

With ``--sanitize`` the package is built with AddressSanitizer and UBSan.  The battery has to pass without a sanitizer's report, including
memory that the package allocated and lost; only such a report shows these faults.  For AIC, `opdb aic check`, which uses
ThreadSanitizer and AddressSanitizer, must not find an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    from built import Package
    from cloud_ai_built import Package as CloudAiPackage
    from mutants import MUTANTS, UNSEEN

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kind", action="append", choices=tuple(MUTANTS), help="all by default")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants with this in what they are")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UBSan")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder of the packages; a temporary one by default"
    )
    asked = parser.parse_args()
    killed = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        for kind in asked.kind or MUTANTS:
            made = CloudAiPackage if kind == "AIC" else Package
            package = made(kind, (asked.keep or Path(temporary)) / kind, asked.sanitize)
            if why := package.fails():
                sys.exit(f"{kind}: the package fails without a fault: {why}")
            for mutant in (UNSEEN if asked.sanitize else MUTANTS)[kind]:
                if asked.only in mutant.what:
                    why = package.with_fault(mutant)
                    killed, total = killed + bool(why), total + 1
                    print(f"{kind} {mutant.file:28} {mutant.what:44} {why or 'SURVIVED'}", flush=True)
    print(f"{killed} of {total} faults are found")
    return int(killed < total)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
