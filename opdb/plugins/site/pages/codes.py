"""A page for each error code of QNN's headers, and for each kind of log line that opdb knows; as `opdb explain` has it."""

from __future__ import annotations

from collections.abc import Iterator

from opdb.generated.constants.qnn_errors import NAMES
from opdb.judge import error_codes
from opdb.plugins.site.page import Page, file_name


def pages() -> Iterator[Page]:
    for code in NAMES:
        if code:
            found = error_codes.of_code(code)
            names = (found["name"], *found["names"], found["hex"])
            explained = code in error_codes.known().codes
            yield Page(
                "code", str(code), f"{code} {found['name']}", "code.html.j2", {"line": None} | found, {"says": []}, names,
                found["means"] if explained else "not explained yet",
            )  # fmt: skip
    for entry in error_codes.known().lines:
        says = entry.says[0]
        found = {"code": None, "name": None, "hex": None, "names": [], "family": ""} | error_codes.of_line(
            says, entry
        )
        yield Page(
            "code", f"log-{file_name(says)[:60].strip('-')}", says, "code.html.j2", found, {}, entry.says, entry.means
        )  # fmt: skip
