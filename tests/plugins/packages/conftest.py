"""Op packages built by tests: the specs' own, one of an op with every kind of argument, and broken ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import opdb.specs
from opdb.catalog.store import read_catalog
from opdb.codegen import c_sources, package_folder
from opdb.core import c_compiler
from opdb.core.c_compiler import compiler_command
from opdb.execute.packages import package
from opdb.execute.packages.package import PackageFolder
from opdb.plugins.cloud_ai import aic_package
from opdb.plugins.cloud_ai.codegen import aic
from opdb.spec.catalog import Catalog

MIX = """\
op: Mix
package: OpdbTest
summary: Everything that an op can be given, in one number for each element.
inputs:
  x: [S...]
  a: {shape: [S...], optional: true}
  b: {shape: [S...], optional: true}
params:
  list: u32[]
  rows: i32[][2]
  mode: "enum {ONE: 1, TWO: 2}"
  flag: bool8
  whole: i32
  real: f32 = 0.5
outputs:
  y: [S...]
kernel: {function: opdb_mix, dtypes: [f32, uq8]}
"""
MIX_C = """\
#include "kernel.h"

/* f32: all arguments in one sum; uq8: the stored integers are copied. */
opdb_status opdb_mix(const opdb_tensor *x, const opdb_tensor *a, const opdb_tensor *b, opdb_ints list,
                     opdb_rows rows, int64_t mode, bool flag, int64_t whole, double real, const opdb_tensor *y) {
    double sum = real + (double)whole + (flag ? 1000 : 0) + (double)mode * 100;
    for (int64_t i = 0; i < list.n; i++)
        sum += (double)list.v[i];
    for (int64_t i = 0; i < rows.n * rows.width; i++)
        sum += (double)rows.v[i];
    for (int64_t i = 0; i < size_of(y); i++)
        if (x->dtype == OPDB_UQ8)
            ((uint8_t *)y->data)[i] = ((const uint8_t *)x->data)[i];
        else
            ((float *)y->data)[i] = (float)(sum + ((const float *)x->data)[i] +
                                            (a != NULL ? 2 * ((const float *)a->data)[i] : 0) +
                                            (b != NULL ? 4 * ((const float *)b->data)[i] : 0));
    return OPDB_OK;
}
"""
BLUR = """\
op: Blur
package: OpdbTest
summary: The mean of three rows, the middle one twice, of stored values.
inputs:
  x: [N, H, W, C]
outputs:
  y: [N, H - 2, W, C]
kernel:
  function: opdb_blur
  tiling:
    axes: [any, any, any, {multiple: 4}]
    inputs:
      x: [same, {after: 2}, same, same]
  dtypes: [uq8, sq8]
"""
BLUR_C = """\
#include "kernel.h"

opdb_status opdb_blur(const opdb_tensor *x, const opdb_tensor *y) {
    const int64_t row = x->dims[2] * x->dims[3], h = y->dims[1];
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t i = 0; i < h * row; i++) {
            const int64_t at = n * (h + 2) * row + i;
            if (x->dtype == OPDB_UQ8) {
                const uint8_t *in = x->data;
                ((uint8_t *)y->data)[n * h * row + i] =
                    (uint8_t)((in[at] + 2 * in[at + row] + in[at + 2 * row] + 2) / 4);
            } else {
                const int8_t *in = x->data;
                ((int8_t *)y->data)[n * h * row + i] =
                    (int8_t)((in[at] + 2 * in[at + row] + in[at + 2 * row]) / 4);
            }
        }
    return OPDB_OK;
}
"""
#: Interface providers that go wrong, in a library beside the package's own.
BROKEN_C = """\
#include <string.h>

#include "opdb/op_package.h"

#define EXPORT __attribute__((visibility("default")))
#define PROVIDER(name, change)                                                                                \\
    EXPORT Qnn_ErrorHandle_t name(QnnOpPackage_Interface_t *out);                                             \\
    Qnn_ErrorHandle_t name(QnnOpPackage_Interface_t *out) {                                                   \\
        Qnn_ErrorHandle_t code = opdb_package_interface(out);                                                 \\
        change;                                                                                               \\
        return code;                                                                                          \\
    }
#define WITHOUT(member) PROVIDER(Without_##member, out->u.v1_4.member = NULL)

static Qnn_ErrorHandle_t no_init(QnnOpPackage_GlobalInfrastructure_t infrastructure) {
    (void)infrastructure;
    return 3100;
}
static Qnn_ErrorHandle_t no_info(const QnnOpPackage_Info_t **out) {
    (void)out;
    return 3101;
}
static Qnn_ErrorHandle_t all_is_well(Qnn_OpConfig_t config) {
    (void)config;
    return 0;
}
PROVIDER(Major2, out->interfaceVersion.major = 2)
PROVIDER(Minor9, out->interfaceVersion.minor = 9)
PROVIDER(Answers7, code = 7)
PROVIDER(NoInit, out->u.v1_4.init = no_init)
PROVIDER(NoInfo, out->u.v1_4.getInfo = no_info)
PROVIDER(PermissiveInterfaceProvider, out->u.v1_4.validateOpConfig = all_is_well)
WITHOUT(init)
WITHOUT(terminate)
WITHOUT(getInfo)
WITHOUT(validateOpConfig)
WITHOUT(createOpImpl)
WITHOUT(freeOpImpl)
WITHOUT(logInitialize)
WITHOUT(logSetLevel)
WITHOUT(logTerminate)
"""


@pytest.fixture(scope="session")
def custom(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    """The package of specs/ops/DequantizeAdd.yaml, built."""
    made = package.write(catalog, ["DequantizeAdd"], tmp_path_factory.mktemp("custom"))
    package.build(made)
    return made


@pytest.fixture(scope="session")
def mix_specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of specs with only the op Mix, and its kernel mix.c."""
    folder = tmp_path_factory.mktemp("mix")
    (folder / "ops").mkdir()
    (folder / "ops" / "Mix.yaml").write_text(MIX)
    (folder / "mix.c").write_text(MIX_C)
    own = Path(opdb.specs.__file__).parent
    shutil.copytree(own / "backends", folder / "backends")
    shutil.copy(own / "socs.yaml", folder)
    return folder


@pytest.fixture(scope="session")
def mix(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    made = package.write(
        read_catalog(mix_specs), ["Mix"], tmp_path_factory.mktemp("built"), kernels=[mix_specs / "mix.c"]
    )
    package.build(made)
    return made


@pytest.fixture(scope="session")
def broken(mix: PackageFolder) -> Path:
    """A library with the providers of BROKEN_C, over the ops of ``mix``."""
    (mix.folder / "broken.c").write_text(BROKEN_C)
    library = mix.folder / "libQnnPermissive.so"
    command = [*compiler_command(), *c_sources.CFLAGS, *package_folder.INCLUDES]
    command += [*c_sources.sources(mix.files), "broken.c", *package_folder.LDFLAGS, "-o", str(library)]
    subprocess.run(command, cwd=mix.folder, check=True)
    return library


@pytest.fixture(scope="session")
def custom_htp(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    """The package of specs/ops/DequantizeAdd.yaml for HTP, built."""
    made = package.write(catalog, ["DequantizeAdd"], tmp_path_factory.mktemp("custom"), backend="HTP")
    package.build(made)
    return made


@pytest.fixture(scope="session")
def mix_htp(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    made = package.write(
        read_catalog(mix_specs),
        ["Mix"],
        tmp_path_factory.mktemp("built"),
        kernels=[mix_specs / "mix.c"],
        backend="HTP",
    )
    package.build(made)
    return made


def _blur(folder: Path, mix_specs: Path, text: str) -> PackageFolder:
    shutil.copytree(mix_specs, folder, dirs_exist_ok=True)
    (folder / "ops" / "Mix.yaml").unlink()
    (folder / "ops" / "Blur.yaml").write_text(text)
    (folder / "blur.c").write_text(BLUR_C)
    made = package.write(
        read_catalog(folder), ["Blur"], folder / "made", kernels=[folder / "blur.c"], backend="HTP"
    )
    package.build(made)
    return made


@pytest.fixture(scope="session")
def blur_htp(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    """The package of Blur, whose tiles overlap, for HTP."""
    return _blur(tmp_path_factory.mktemp("blur"), mix_specs, BLUR)


@pytest.fixture(scope="session")
def untiled_htp(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> PackageFolder:
    """The package of Blur without a tiling."""
    text = BLUR[: BLUR.index("  tiling:")] + BLUR[BLUR.index("  dtypes:") :]
    return _blur(tmp_path_factory.mktemp("untiled"), mix_specs, text)


#: Kernels of tests need no clones.
QUICK = "CFLAGS=" + " ".join((*(f for f in aic.CFLAGS if f != "-O3"), "-O1", "-DOPDB_NO_CLONES"))


@pytest.fixture(scope="session")
def aic_specs(mix_specs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Specs of Mix, which has every kind of argument, and of Blur, whose tiles overlap."""
    folder = tmp_path_factory.mktemp("cloud_ai") / "specs"
    shutil.copytree(mix_specs, folder)
    (folder / "ops" / "Blur.yaml").write_text(BLUR)
    (folder / "blur.c").write_text(BLUR_C)
    return folder


@pytest.fixture(scope="session", params=tuple(aic.GENERATIONS))
def aic_made(
    request: pytest.FixtureRequest, aic_specs: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """An interface generation, and the folder of its package with Mix and Blur, built."""
    choice = aic.Choice(request.param, scratch=4096)
    folder = tmp_path_factory.mktemp("aic")
    aic_package.write(
        read_catalog(aic_specs),
        ["Mix", "Blur"],
        choice,
        folder,
        kernels=[aic_specs / "mix.c", aic_specs / "blur.c"],
    )
    c_compiler.make(folder, "the package", QUICK, "all", "card")
    return request.param, folder


@pytest.fixture(scope="session")
def aic_real(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DequantizeAdd, Softmax and MatMul for 1.21, as built by a user."""
    written = aic_package.write(
        catalog,
        ["DequantizeAdd", "MatMul", "Softmax"],
        aic.Choice("1.21", scratch=65536),
        tmp_path_factory.mktemp("real"),
    )
    aic_package.build(written, card=True)
    return written.folder
