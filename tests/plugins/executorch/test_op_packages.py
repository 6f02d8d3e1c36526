"""Op packages in the whole flow of the installed ExecuTorch: rows without the SDK, builders, the emulated HTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.execute.packages import package
from opdb.plugins.executorch import env, process
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.native, pytest.mark.slow]


@pytest.fixture(scope="module")
def custom(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("custom")
    return package.build(package.write(catalog, ["DequantizeAdd"], folder, backend="HTP"))


def called(environment: env.Environment, case: str, *arguments: Any) -> Any:
    here = [Path(__file__).parent]
    return process.call(f"package_cases:{case}", *arguments, environment=environment, path=here)


def test_a_custom_op_is_delegated(custom: Path, environment: env.Environment) -> None:
    """Its torch operator is generated; opdb's builder is found without action by the caller."""
    found = called(environment, "custom", custom)
    assert found["delegated"] == ("opdb_custom_dequantize_add_default", "aten_relu_default")
    assert found["rest"] == ()
    assert found["error"] <= 2e-2  # the Relu after it is computed in fp16


def test_string_and_list_parameters_are_passed(
    catalog: Catalog, tmp_path: Path, environment: env.Environment
) -> None:
    """ExecuTorch's own builder writes a list as int64 and fails on a string."""
    made = package.write(catalog, ["Pad"], tmp_path, package="OpdbTest", backend="HTP")
    found = called(environment, "padded", package.build(made), "OpdbTest")
    assert found["rest"] == () and found["error"] == 0.0


def test_rows_match_the_sdks_generator(custom: Path, environment: env.Environment) -> None:
    here, phone = called(environment, "rows", custom)
    assert here == {
        "op_package_name": "OpdbCustom",
        "op_package_path": str(custom),
        "interface_provider": "OpdbCustomInterfaceProvider",
        "target": "CPU",
        "custom_op_name": "OpdbCustom.DequantizeAdd.default",
        "qnn_op_type_name": "DequantizeAdd",
        "platform": "X86_64",
    }
    assert (phone["target"], phone["platform"]) == ("HTP", "AARCH64_ANDROID")
