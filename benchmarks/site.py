"""The site: how long it takes to write, its size, and how fast a search and a verdict are in Chromium.

tools/with-chromium tools/with-wasm .venv/bin/python benchmarks/site.py
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "core" / "pages")]

import browser  # noqa: E402

from opdb.cli.options import brought_up_to_date  # noqa: E402
from opdb.plugins.site.write import Written, write  # noqa: E402

#: What people look for; "a" is in nearly every page.
ASKED = (
    "LayerNorm",
    "softmax",
    "8 Gen 3",
    "3110",
    "a",
    "must be in",
    "None of the combinations match the provided case",
)
ROUNDS = 20
SEARCH = """
const [asked, rounds] = arguments, begun = performance.now();
for (let i = 0; i < rounds; i++) find(asked);
return (performance.now() - begun) / rounds;
"""
VERDICT = """
const [rounds] = arguments, aim = asked(), begun = performance.now();
for (let i = 0; i < rounds; i++) validator.verdict(config, aim);
return 1000 * (performance.now() - begun) / rounds;
"""


def main() -> None:
    store = brought_up_to_date(None)
    with tempfile.TemporaryDirectory() as folder, browser.opened() as driver:
        begun, cpu = time.perf_counter(), time.process_time()
        done = write(store, Path(folder) / "site")
        print(
            f"written in {time.perf_counter() - begun:.1f} s, {time.process_time() - cpu:.1f} s of them Python's own"
        )
        tell(done)
        searches(driver, done.folder)
        verdicts(driver, done.folder)


def tell(done: Written) -> None:
    print(f"{sum(done.pages.values())} pages ({', '.join(f'{n} {kind}' for kind, n in done.pages.items())})")
    size, path = done.largest
    print(f"{done.files} files, {done.size / 1e6:.1f} MB; the largest page is {path}, {size / 1e3:.1f} kB")
    modules = [p.stat().st_size for p in (done.folder / "assets" / "wasm").glob("*.js")]
    if modules:
        each = f"{min(modules) / 1e3:.0f} to {max(modules) / 1e3:.0f} kB each"
        print(f"{len(modules)} validators, {sum(modules) / 1e6:.2f} MB in base64, {each}")
    index = sum(p.stat().st_size for p in (done.folder / "assets" / "search").glob("*.js"))
    print(f"index of the search: {index / 1e3:.0f} kB")


def searches(driver: Any, site: Path) -> None:
    browser.show(driver, (site / "index.html").as_uri(), 1400, "light")
    loaded = driver.execute_async_script(
        "const done = arguments[0], begun = performance.now(); loadIndex().then(() => done(performance.now() - begun))"
    )
    print(f"index loaded in {loaded:.0f} ms")
    for asked in ASKED:
        count = driver.execute_script("return find(arguments[0]).count", asked)
        print(f"search for {asked!r}: {driver.execute_script(SEARCH, asked, ROUNDS):.1f} ms, {count} pages")


def verdicts(driver: Any, site: Path) -> None:
    for op in ("Relu", "LayerNorm", "Conv2d"):
        browser.show(driver, (site / "op" / f"{op}.html").as_uri(), 1400, "light")
        driver.execute_async_script("const done = arguments[0]; ready.then(() => done())")
        print(f"verdict on a {op}: {driver.execute_script(VERDICT, 500):.0f} us")


if __name__ == "__main__":
    main()
