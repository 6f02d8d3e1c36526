"""The forwarding library against the vendor's: the same table, but the device can be configured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from opdb.plugins.executorch import env, flow

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

#: Creates a device for one SoC the way a program of old headers does: union at byte 4.
CREATE = r"""
import ctypes as c, sys

library = c.CDLL(sys.argv[1])
providers, n = c.POINTER(c.c_void_p)(), c.c_uint32()
code = library.QnnInterface_getProviders(c.byref(providers), c.byref(n))
print("providers", code & 0xFFFF, n.value)
if code:
    sys.exit()
interface = providers[0]
functions = (c.c_void_p * 62).from_address(interface + 40)  # QnnInterface_t, API 2.18


def call(index, *types):
    return c.CFUNCTYPE(c.c_uint64, *types)(functions[index])


class Custom(c.Structure):  # QnnHtpDevice_CustomConfig_t, headers up to 2.43
    _fields_ = [("option", c.c_uint32), ("soc", c.c_uint32), ("rest", c.c_uint32)]


class Config(c.Structure):  # QnnDevice_Config_t
    _fields_ = [("option", c.c_uint32), ("custom", c.POINTER(Custom))]


backend = c.c_void_p()
print("backend", call(1, c.c_void_p, c.c_void_p, c.c_void_p)(None, None, c.byref(backend)) & 0xFFFF)
configs = [Config(0, c.pointer(Custom(0, int(soc)))) for soc in sys.argv[2:]]
array = (c.POINTER(Config) * (len(configs) + 1))(*map(c.pointer, configs))
device = c.c_void_p()
create = call(40, c.c_void_p, c.c_void_p, c.c_void_p)
print("device", create(None, array if configs else None, c.byref(device)) & 0xFFFF)
print("untouched", all(f.custom.contents.soc == int(s) for f, s in zip(configs, sys.argv[2:])))
"""


def run(
    environment: env.Environment, library: Path, *socs: int, **changed: str
) -> tuple[dict[str, list[str]], str]:
    done = subprocess.run(
        [sys.executable, "-c", CREATE, str(library), *map(str, socs)],
        env=environment.child() | changed,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {words[0]: words[1:] for words in lines if words}, done.stderr


def forwarding_copy(environment: env.Environment) -> Path:
    return environment.root / "lib" / env.HOST / env.HTP


@pytest.mark.parametrize("soc", [43, 57, 69, 87])  # SM8550, SM8650, SM8750, SM8850
def test_an_old_programs_device_needs_the_forwarding_library(environment: env.Environment, soc: int) -> None:
    seen, _ = run(environment, forwarding_copy(environment), soc)
    assert seen["providers"] == ["0", "1"] and seen["backend"] == ["0"] and seen["device"] == ["0"]
    assert seen["untouched"] == ["True"]
    direct, _ = run(environment, environment.htp, soc)
    assert direct["providers"] == ["0", "1"] and direct["device"] == ["14001"]


def test_the_vendor_still_refuses_a_wrong_soc(environment: env.Environment) -> None:
    seen, _ = run(environment, forwarding_copy(environment), 60000)
    assert seen["device"] == ["14001"]


def test_a_call_without_configuration_passes(environment: env.Environment) -> None:
    seen, _ = run(environment, forwarding_copy(environment))
    assert seen["device"] == ["0"]


@pytest.mark.parametrize(
    ("real", "message"),
    [
        ("", "OPDB_QNN_HTP_REAL is not the absolute path"),
        ("libQnnHtp.so", "OPDB_QNN_HTP_REAL is not the absolute path"),
        ("/nowhere/libQnnHtp.so", "cannot open shared object file"),
        ("/lib/x86_64-linux-gnu/libm.so.6", "undefined symbol: QnnInterface_getProviders"),
    ],
)
def test_a_wrong_real_library_is_one_clear_line(
    environment: env.Environment, real: str, message: str
) -> None:
    seen, err = run(environment, forwarding_copy(environment), 57, OPDB_QNN_HTP_REAL=real)
    assert seen["providers"][0] != "0"
    (line,) = [e for e in err.splitlines() if e.startswith("opdb:")]
    assert message in line


def test_forwarding_to_itself_is_refused(environment: env.Environment) -> None:
    library = forwarding_copy(environment)
    seen, err = run(environment, library, 57, OPDB_QNN_HTP_REAL=str(library))
    assert seen["providers"][0] != "0" and "names the forwarding library itself" in err


def test_the_forwarding_library_stays_loaded_after_close(environment: env.Environment) -> None:
    """The vendor's library has the same name; it must not serve the next program that loads it."""
    code = (
        "import ctypes as c, _ctypes\n"
        "def ask():\n"
        "    a = c.CDLL('libQnnHtp.so'); p, n = c.POINTER(c.c_void_p)(), c.c_uint32()\n"
        "    a.QnnInterface_getProviders(c.byref(p), c.byref(n))\n"
        "    return a._handle, c.c_void_p.from_address(p[0] + 40 + 8 * 40).value\n"
        "h, first = ask(); _ctypes.dlclose(h); print(first == ask()[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment.child(), capture_output=True, text=True
    )
    assert done.stdout.strip() == "True", done.stderr


def test_estimates_of_finalized_graphs_are_written(
    environment: env.Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate is the same each time, for the same ops; there is none without the variable."""
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)).eval()
    program = torch.export.export(module, (torch.randn(1, 3, 32, 32),))
    lines = []
    for i in range(2):
        monkeypatch.setenv("OPDB_QNN_ESTIMATES", str(tmp_path / f"{i}"))
        flow.compile_program(program, "SA8255", environment=environment)
        lines += [json.loads(line) for line in (tmp_path / f"{i}").read_text().splitlines()]
    first, second = lines
    assert first == second and first["code"] == 0 and first["ops"]["Conv2d"] == 2
    lower, upper = (
        first["events"]["2007"],
        first["events"]["2008"],
    )  # ..._SIM_EXEC_LOWER_CYCLES, _UPPER_CYCLES
    assert 1_000 < lower <= first["events"]["2006"] <= upper
