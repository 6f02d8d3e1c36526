"""Op packages in ExecuTorch's Qualcomm flow: options that tell it which library has which operator.

ExecuTorch generates these rows from an op XML with the SDK's generator; here the package itself lists its ops.  opdb's
builders (opdb.plugins.executorch.register) pass the parameters in the types of the specs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.execute.libraries.onnx_runtime import HOST
from opdb.execute.packages import check, elf
from opdb.generated.constants.backends import DEFAULT
from opdb.runtime.direct import libraries

if TYPE_CHECKING:
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchOpPackageOptions

#: Machines of package_file -> ExecuTorch's platforms.
PLATFORMS = {"x86-64": "X86_64", "AArch64": "AARCH64_ANDROID", "Hexagon": "AARCH64_ANDROID"}


def options(op_packages: Sequence[Path], soc: str = "SM8650") -> QnnExecuTorchOpPackageOptions:
    """``op_package_options`` of generate_qnn_executorch_compiler_spec for libraries of `opdb package qnn`.

    One row per op: torch.ops.<package>.<op> is the operator (opdb.programs.torch_ops).
    Raises OpdbError for a library that QNN does not accept here; use ``rows`` for a device's libraries.
    """
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchOpPackageOptions

    found: list[Any] = []
    for path in op_packages:
        file = elf.read(path)
        said = check.ask(path, file, soc)
        if not said.ops:
            raise OpdbError(f"{path}: QNN does not take this op package: {said.why}")
        name = file.providers[0].removesuffix(elf.PROVIDER)
        found += rows(path.resolve(), name, said.ops, file.providers[0], file.machine)
    return QnnExecuTorchOpPackageOptions(op_package_infos=found)


def rows(path: Path | str, package: str, ops: Sequence[str], provider: str, machine: str) -> list[Any]:
    """The rows of one library.  ``machine``: x86-64, AArch64, or Hexagon; ``path``: on that machine."""
    from executorch.backends.qualcomm.serialization import qc_schema

    kind = machine.partition(" ")[0]
    if kind not in PLATFORMS:
        raise OpdbError(f"{path}: ExecuTorch has op packages for {', '.join(PLATFORMS)}, none for {machine}")
    target = qc_schema.QnnExecuTorchOpPackageTarget
    return [
        qc_schema.QnnExecuTorchOpPackageInfo(
            op_package_name=package,
            op_package_path=str(path),
            interface_provider=provider,
            # QNN calls the machine that prepares graphs CPU, both here and on the phone.
            target=target[DEFAULT if kind == "Hexagon" else HOST],
            custom_op_name=operator(package, op),
            qnn_op_type_name=op,
            platform=qc_schema.QnnExecuTorchOpPackagePlatform[PLATFORMS[kind]],
        )
        for op in ops
    ]


def operator(package: str, op: str) -> str:
    """The operator for an op of a package: the package's own, or QNN's if the package has a QNN op under another name."""
    own = op in libraries().get(package, ())
    return f"{package if own else 'qnn'}.{op}.default"
