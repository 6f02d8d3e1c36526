"""The site in Chromium, from files: every kind of page at two widths and in both schemes, the search, the editor, the keyboard alone."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import browser
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

pytestmark = [
    pytest.mark.native,
    pytest.mark.browser,
    pytest.mark.skipif("OPDB_TEST_CHROMIUM" not in os.environ, reason="tools/with-chromium sets it"),
    pytest.mark.slow,
]
LIVE = pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="clang and wasm-ld are not installed")
#: A page of each kind, and the largest ones.
PAGES = (
    "index", "op/index", "op/LayerNorm", "op/Conv2d", "op/Lstm", "torch/index", "torch/aten.mean.dim", "onnx/index",
    "onnx/com.microsoft.QLinearAdd", "onnx/NonMaxSuppression", "tflite/index", "tflite/CONV_2D", "chip/index", "chip/SM8650",
    "chip/SDM845", "sdk/index", "sdk/2.47", "sdk/2.51", "rule/index", "rule/Softmax.C1", "rule/Conv2d.TYPES_HTP", "erratum/index",
    "erratum/HTP-0002", "code/index", "code/3110", "code/1002",
)  # fmt: skip


#: Controls of the editor that stick out of their box or lie over another one.
OVERLAPS = """
const boxes = [...document.querySelectorAll('#editor fieldset')].flatMap(box => {
  const outer = box.getBoundingClientRect(), inner = [...box.querySelectorAll('input, select')].map(c => [c, c.getBoundingClientRect()]);
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return inner.filter(([c, r], i) => r.right > outer.right || r.left < outer.left || inner.some(([, o], k) => k !== i && over(r, o)))
    .map(([c]) => `${box.textContent.slice(0, 20)}: ${c.closest('label').textContent.slice(0, 30)}`);
});
return boxes;
"""


def opened(driver: Any, site: Path, page: str, width: int = 1400, scheme: str = "light") -> None:
    browser.show(driver, (site / f"{page}.html").as_uri(), width, scheme)


def waits(driver: Any, condition: Any) -> Any:
    return WebDriverWait(driver, 20).until(condition)


def keyed(driver: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


@pytest.mark.parametrize("scheme", browser.SCHEMES)
@pytest.mark.parametrize("width", browser.WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_every_kind_of_page_fits_and_is_readable(
    driver: Any, site: Path, page: str, width: int, scheme: str
) -> None:
    opened(driver, site, page, width, scheme)
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    if page.startswith("op/") and page != "op/index" and shutil.which("wasm-ld"):
        waits(driver, lambda d: d.find_element(By.ID, "verdict").text)
    driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.faults(driver) == []
    assert driver.execute_script(OVERLAPS) == []


@pytest.mark.parametrize("width", browser.WIDTHS)
@pytest.mark.parametrize("kind", ["op", "torch", "onnx", "tflite", "sdk", "code"])
def test_no_page_scrolls_sideways(driver: Any, site: Path, kind: str, width: int) -> None:
    """All pages of the kinds with wide tables and long names, in one browser window, one after the other."""
    wide = {}
    browser.show(driver, (site / "index.html").as_uri(), width, "light")
    for page in sorted((site / kind).glob("*.html")):
        driver.get(page.as_uri())
        if cut := driver.execute_script(browser.CUT):
            wide[page.stem] = cut
    assert wide == {}


@pytest.mark.parametrize("width", browser.WIDTHS)
def test_the_results_of_the_search_fit(driver: Any, site: Path, width: int) -> None:
    opened(driver, site, "op/LayerNorm", width, "dark")
    driver.find_element(By.ID, "q").send_keys("layer")
    waits(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#hits a"))
    assert browser.faults(driver) == []


FOUND = {
    "LayerNorm": "op/LayerNorm", "layernorm": "op/LayerNorm", "aten.mean.dim": "torch/aten.mean.dim", "SOFTMAX": "op/Softmax",
    "com.microsoft.QLinearAdd": "onnx/com.microsoft.QLinearAdd", "FULLY_CONNECTED": "tflite/FULLY_CONNECTED",
    "LayerNorm.C3": "rule/LayerNorm.C3", "htp-0002": "erratum/HTP-0002", "3110": "code/3110", "0xC26": "code/3110",
    "QNN_COMMON_ERROR_MEM_ALLOC": "code/1002", "sm8650": "chip/SM8650", "8 Gen 3": "chip/SM8650", "snapdragon 8 elite": "chip/SM8750",
    "QCS9075": "chip/QCS9100", "SA8775P": "chip/SA8255", "2.47": "sdk/2.47",
}  # fmt: skip


def test_the_search_finds_everything_by_any_name(driver: Any, site: Path) -> None:
    opened(driver, site, "index")
    driver.find_element(By.ID, "q").send_keys("x")
    waits(driver, lambda d: d.find_element(By.ID, "count").text)
    first = {
        asked: driver.execute_script(
            "const [h] = find(arguments[0]).hits; return h && `${h.kind}/${h.file}`", asked
        )
        for asked in FOUND
    }
    assert first == FOUND
    says = driver.execute_script(
        "return find('None of the combinations match the provided case').hits.map(h => h.kind)"
    )
    assert says and says[0] == "code"
    assert driver.execute_script("return find('no such thing at all').count") == 0


def test_the_list_of_ops_shows_any_chip_and_sdk(driver: Any, site: Path) -> None:
    opened(driver, site, "op/index")
    waits(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#matrix td"))

    def cell(op: str, kind: str) -> str:
        return str(driver.execute_script(
            "const row = [...document.querySelectorAll('#matrix tr')].find(r => r.cells[0].textContent === arguments[0]);"
            "return [...row.cells].find(c => c.dataset.l === arguments[1]).textContent", op, kind))  # fmt: skip

    assert cell("Concat", "FP16") == "yes, except" and cell("Relu", "FP16") == "yes"
    Select(driver.find_element(By.ID, "chip")).select_by_value("QCM6490")
    assert cell("Relu", "FP16") == "no" and cell("Relu", "INT8") == "yes"
    Select(driver.find_element(By.ID, "sdk")).select_by_value("2.49")
    address = driver.current_url
    assert "chip=QCM6490" in address and "sdk=2.49" in address
    driver.get("about:blank")
    driver.get(address)
    assert (
        Select(driver.find_element(By.ID, "chip")).first_selected_option.get_attribute("value") == "QCM6490"
    )


@LIVE
def test_by_keyboard_alone_from_the_search_to_a_config_that_works(driver: Any, site: Path) -> None:
    opened(driver, site, "index")
    keyed(driver, "/")
    assert driver.switch_to.active_element.get_attribute("id") == "q"
    keyed(driver, "softmax")
    waits(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#hits a"))
    keyed(driver, Keys.ARROW_DOWN, Keys.ENTER)
    waits(driver, lambda d: d.current_url.endswith("op/Softmax.html"))
    waits(driver, lambda d: d.find_element(By.ID, "verdict").text.startswith("yes"))
    for _ in range(300):
        keyed(driver, Keys.TAB)
        here = driver.switch_to.active_element
        label = driver.execute_script("return arguments[0].closest('label')?.textContent ?? ''", here)
        if here.tag_name == "input" and label.startswith("axis"):
            break
    else:
        raise AssertionError("Tab does not reach the parameter")
    keyed(driver, Keys.CONTROL, "a", Keys.NULL, "0", Keys.TAB)
    waits(driver, lambda d: d.find_element(By.ID, "verdict").text.startswith("no"))
    said = driver.find_element(By.ID, "verdict").text
    assert (
        "Softmax.H2: axis must be the rank of x - 1; got axis = 0, x.rank = 2" in said
        and "Nearest accepted: axis 1 instead of 0" in said
    )
    for _ in range(100):
        keyed(driver, Keys.TAB)
        if driver.switch_to.active_element.get_attribute("id") == "use":
            break
    keyed(driver, Keys.ENTER)
    waits(driver, lambda d: d.find_element(By.ID, "verdict").text.startswith("yes"))
    address = driver.current_url  # a permalink of the config
    driver.get("about:blank")
    driver.get(address)
    waits(driver, lambda d: d.find_element(By.ID, "verdict").text.startswith("yes"))
    assert '"value": 1' in driver.find_element(By.ID, "json").get_property("value")


@LIVE
def test_the_config_is_edited_as_json_too(driver: Any, site: Path) -> None:
    opened(driver, site, "op/Relu", 390)
    waits(driver, lambda d: d.find_element(By.ID, "verdict").text)
    driver.find_element(By.CSS_SELECTOR, "#raw summary").click()
    area = driver.find_element(By.ID, "json")
    for text, says in (
        (
            '{"inputs": [{"dtype": "f32", "shape": [4]}], "outputs": [{"dtype": "f32", "shape": [5]}]}',
            "Relu.SHAPE_y",
        ),
        (
            '{"inputs": [{"dtype": "f31", "shape": [4]}]}',
            'inputs[0].dtype: "f31" is not a QNN data type; e.g. FLOAT_32, UFIXED_POINT_8',
        ),
        ("{", "not JSON"),
    ):
        area.clear()
        area.send_keys(text, Keys.TAB)
        waits(driver, lambda d, says=says: says in d.find_element(By.ID, "verdict").text)
    assert [e for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *parts: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def test_a_static_host_below_any_path_serves_it(driver: Any, site: Path) -> None:
    with served(site.parent) as root:
        driver.get(f"{root}/{site.name}/op/Relu.html")
        driver.find_element(By.ID, "q").send_keys("softmax")
        waits(driver, lambda d: d.find_elements(By.CSS_SELECTOR, "#hits a"))
        assert (
            driver.find_element(By.CSS_SELECTOR, "#hits a").get_attribute("href")
            == f"{root}/{site.name}/op/Softmax.html"
        )
        if shutil.which("wasm-ld"):
            assert "QNN 2.47 takes it." in waits(driver, lambda d: d.find_element(By.ID, "verdict").text)
        assert [
            e for e in driver.get_log("browser") if e["level"] == "SEVERE" and "favicon" not in e["message"]
        ] == []
