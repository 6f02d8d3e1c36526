"""Malformed bytes of a trace, and names of nodes in the schematic."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.measure.cost.trace import HEADER, chip_of, node_names, text_of

JSON = b'{"traceEvents": [], "Hextimate Configuration": {"soc_type": "SA8255", "sim_core_freq": 1497.6}}\n'


def test_the_json_is_between_header_and_name() -> None:
    assert text_of(HEADER.pack(1, 0, 0, 3, 0, len(JSON), 1) + JSON + b"net") == JSON.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        JSON,
        HEADER.pack(1, 0, 0, 3, 0, len(JSON), 1),
        HEADER.pack(1, 0, 0, 3, 0, len(JSON) + 9, 1) + JSON,
        HEADER.pack(1, 0, 0, 3, 0, 9, 1) + b"x" * 9,
    ],
    ids=["nothing", "no header", "no text", "too short", "no JSON"],
)
def test_an_unknown_trace_format_is_refused(data: bytes) -> None:
    with pytest.raises(
        OpdbError, match=rf"the library's trace \({len(data)} bytes\) has a form that opdb does not know"
    ):
        text_of(data)


def test_the_chip_is_read_from_the_trace() -> None:
    chip = chip_of(JSON.decode())
    assert (chip.name, chip.mhz, chip.hvx_threads) == ("SA8255", 1497.6, 0)
    with pytest.raises(OpdbError, match="does not say which chip"):
        chip_of("{}")


def test_node_names_are_read_from_the_schematic(tmp_path: Path) -> None:
    assert node_names(tmp_path) == {}
    (tmp_path / "net_schematic.bin").write_text(
        "0x1: 'not here',\nqnn_name_translations = {\n0x0000000000000015: 'a/b.c:1 (x)',\n"
        "0x0000000000000018: 'it's',\n0x19: 'back\\\\slash',\n}\nqnn_graph_name = \"net\"\n0x20: 'nor here',\n"
    )
    assert node_names(tmp_path) == {0x15: "a/b.c:1 (x)", 0x18: "it's", 0x19: "back\\slash"}
    (tmp_path / "net_schematic.bin").write_text("another form")
    assert node_names(tmp_path) == {}
