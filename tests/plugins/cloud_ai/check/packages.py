"""Packages of custom ops for Cloud AI as third parties write them: a correct one, and ones with the faults of public packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

from opdb.plugins.cloud_ai.check.host import INTERFACES, ROOT

STAND_IN = ROOT / "stand_in"

SHARE_YAML = """\
version: 1.0.0
CustomOps:
  - type: Share
    package: com.example
    inputs:
      - {name: x, maxDims: 4}
    outputs:
      - {name: y, maxDims: 4}
    parameters:
      - {name: eps, dataType: float, scalar: true}
    scratchBuffers:
      - {name: sums, size: 16}
    functionsLibrary: lib/share.so
    implementations:
      - {backend: Interpreter, type: ShareInterpreter, impl: lib/share.so}
      - backend: AIC
        type: ShareAIC
        impl: src/share_aic.c
        memoryConfig:
          VTCM: [x, y]
          DDR:
          requiredFor: [sums]
"""
SHARE_FUNCTIONS = """\
#include "CustomOpFunctions.h"
#include "CustomOpInterpreterInterface.h"

#include <math.h>
#include <string.h>

bool customOpVerify(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,
                    CustomOpParam *params, int32_t numParams) {
    if (numInputs != 1 || numOutputs != 1 || numParams != 1 || strcmp(params[0].name, "eps") != 0)
        return false;
    return inputs[0].dtype == DTFloat32 && outputs[0].dtype == DTFloat32;
}

bool customOpInferShape(CustomOpIOTensor *outputs, const int32_t numOutputs, const CustomOpIOTensor *inputs,
                        const int32_t numInputs, const CustomOpParam *params, const int32_t numParams) {
    if (numInputs != 1 || numOutputs != 1)
        return false;
    outputs[0].rank = inputs[0].rank;
    outputs[0].dtype = inputs[0].dtype;
    memcpy(outputs[0].dims, inputs[0].dims, sizeof(int32_t) * (size_t)inputs[0].rank);
    return true;
}

const char *customOpSelectImpl(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                               int32_t numOutputs, CustomOpParam *params, int32_t numParams, const char *backend) {
    if (strcmp(backend, "AIC") == 0)
        return "ShareAIC";
    return strcmp(backend, "Interpreter") == 0 ? "ShareInterpreter" : NULL;
}

void ShareInterpreter(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,
                      CustomOpParam *params, int32_t numParams, CustomOpContext *ctx) {
    const float *x = inputs[0].data;
    float *y = outputs[0].data, sum = *(const float *)params[0].data;
    int32_t n = 1;
    for (int32_t d = 0; d < inputs[0].rank; d++)
        n *= inputs[0].dims[d];
    for (int32_t i = 0; i < n; i++)
        sum += fabsf(x[i]);
    for (int32_t i = 0; i < n; i++)
        y[i] = x[i] / sum;
}
"""
SHARE_AIC = """\
#include "CustomOpAICInterface.h"
#include "CustomOpLog.h"

/* y = x / (eps + the sum of |x|): each thread adds its part, then all need all. */
void ShareAIC(const CustomOpIOTensor *inputs, const int32_t numInputs, const CustomOpIOTensor *outputs,
              const int32_t numOutputs, const CustomOpParam *params, const int32_t numParams,
              const CustomOpContext *ctx, const int32_t threadID) {
    const float *x = inputs[0].data;
    float *y = outputs[0].data, *sums = ctx->scratchBuffers[0].buf;
    int32_t n = 1;
    for (int32_t d = 0; d < inputs[0].rank; d++)
        n *= inputs[0].dims[d];
    const int32_t part = (n + 3) / 4, begin = part * threadID, end = begin + part < n ? begin + part : n;
    float sum = 0;
    for (int32_t i = begin; i < end; i++)
        sum += x[i] < 0 ? -x[i] : x[i];
    sums[threadID] = sum;
    ctx->syncThread(threadID);
    const float all = *(const float *)params[0].data + sums[0] + sums[1] + sums[2] + sums[3];
    for (int32_t i = begin; i < end; i++)
        y[i] = x[i] / all;
}
"""
NORM_YAML = """\
# A comment before the document.

---
version: 5.0.0
CustomOps:
  - type: CustomNorm
    package: QAic
    inputs:
    - name: x
      maxDims: 3
    - name: weight
      maxDims: 1
    parameters:
    - name: eps
      dataType: float
      scalar: true
    outputs:
    - name: y
      maxDims: 3
    functionsLibrary: CustomNorm/src/norm_lib.so
    implementations:
    - backend: AIC
      type: CustomNormAIC
      impl: CustomNorm/src/norm_aic.cpp
      memoryConfig:
        DDR:
        CacheableDDR:
        VTCM: [x, weight, y]
        requiredFor:
...
"""
NORM_FUNCTIONS = """\
/* Interface version: 5.0.0 */
#include "CustomOpFunctions.h"
#include "CustomOpInterpreterInterface.h"
#include "CustomOpTypes.h"
#include <string.h>

extern "C" {
bool customOpVerify(const CustomOpProperties *const node) {
    if (node->params.size() != 1 || strcmp(node->params[0].name, "epsilon") != 0)
        return false;
    if (node->inputs.size() != 2 || node->outputs.size() != 1 || node->inputs[0].rank != 3)
        return false;
    return node->inputs[0].dtype == node->outputs[0].dtype;
}

const char *customOpSelectImpl(const CustomOpProperties *const node, const CustomOpKernelInfo *const kernels,
                               const int32_t count, const char *backend) {
    if (strcmp(backend, "AIC") == 0)
        return "CustomNormAIC";
    else if (strcmp(backend, "Interpreter") == 0)
        return "CustomReluInterpreter";
}

bool customOpInferShape(CustomOpProperties *const node) {
    CustomOpIOTensor &y = node->outputs[0];
    const CustomOpIOTensor &x = node->inputs[0];
    y.rank = x.rank;
    y.dtype = x.dtype;
    for (int i = 0; i < x.rank; i++)
        y.sizes[i] = x.sizes[i];
    return true;
}

bool customOpSetProperties(CustomOpProperties *const node) { return false; }
bool customOpMapTiles(CustomOpProperties *const node) { return false; }
}
"""
NORM_AIC = """\
/* Interface version: 5.0.0 */
#include "CustomOpAICInterface.h"
#include "CustomOpLog.h"
#include <cmath>
#include <hexagon_protos.h>
#include <hexagon_types.h>

extern "C" {
void CustomNormAIC(const CustomOpContext *ctx, const int32_t threadId) {
    const int32_t rows = ctx->inputs[0].sizes[1], width = ctx->inputs[0].sizes[2];
    const float16_ty *x = (const float16_ty *)ctx->inputs[0].data;
    const float16_ty *weight = (const float16_ty *)ctx->inputs[1].data;
    float16_ty *y = (float16_ty *)ctx->outputs[0].data;
    const float eps = *(const float *)ctx->params[0].data;
    for (int32_t r = threadId; r < rows; r += 4) {
        float sum = 0;
        for (int32_t i = 0; i < width; i++)
            sum += x[r * width + i] * x[r * width + i];
        const float scale = 1.0f / sqrtf(sum / width + eps);
        for (int32_t i = 0; i < width; i++)
            y[r * width + i] = x[r * width + i] * scale * weight[i];
    }
}
}
"""
#: The unfinished output of the package generator of SDK 1.21.
GELU_YAML = """\
---
version: Major.Minor.Patch
CustomOps:
# CustomGelu
  - type: CustomGelu
    package: com.example.onnx
    inputs:
      - name: in1
        maxDims: 5
    parameters: []
    outputs:
      - name: out1
        maxDims: 5
    functionsLibrary: ./CustomGelu/src/customgelu_lib.so
    implementations:
      - backend: Interpreter
        type: CustomGeluInterpreter
        impl: ./CustomGelu/src/customgelu_lib.so
      - backend: AIC
        type: CustomGeluAIC
        impl: ./CustomGelu/src/customgelu_aic.cpp
        memoryConfig:
            DDR:
            CacheableDDR:
            VTCM: [in1, out1]
            requiredFor:
...
"""
GELU_FUNCTIONS = """\
#include "CustomOpFunctions.h"
#include "CustomOpTileConfigHelpers.h"
#include <string.h>

extern "C" {
bool customOpVerify(const CustomOpPropertiesHandle *const) { return true; }
const char *customOpSelectImpl(const CustomOpPropertiesHandle *const, const CustomOpKernelInfo *const, const int32_t,
                               const char *backend) {
    if (strcmp(backend, "AIC") == 0)
        return "";
    else if (strcmp(backend, "Interpreter") == 0)
        return "";
    return nullptr;
}
bool customOpInferShape(CustomOpPropertiesHandle *const node) {
    /* How outputs are set: see CustomOpFunctions.h. */
    return false;
}
bool customOpSetProperties(CustomOpPropertiesHandle *) { return false; }
bool customOpMapTiles(CustomOpPropertiesHandle *) { return false; }
void customOpDeallocateMemory(CustomOpPropertiesHandle *node) {
    CustomOpTileConfigHelpers::destroyTileConfigsAndMergeConfigs(node);
}
}
"""
GELU_INTERPRETER = """\
#include "CustomOpInterpreterInterface.h"

extern "C" {
void CustomGeluInterpreter(CustomOpContext *ctx) {
}
}
"""
GELU_AIC = """\
/* Interface version: Major.Minor.Patch */
#include "CustomOpAICInterface.h"
#include "stddef.h"

extern "C" {
void CustomGeluAIC(const CustomOpContext *ctx, const int32_t threadId) {
}
}
"""
#: The first form: a document for each op, for the host alone.
FIRST_YAML = """\
---
type: Reverse
package: Test
inputs:
  - {name: x, maxDims: 2}
outputs:
  - {name: y, maxDims: 2}
parameters:
  - {name: order, dataType: string, scalar: true}
functionsLibrary: reverse.so
implementations:
  - {backend: Interpreter, type: reverse, impl: reverse.so}
...
---
type: Add
package: Test
inputs:
  - {name: x, maxDims: 4}
outputs:
  - {name: y, maxDims: 4}
parameters:
  - {name: bias, dataType: float, size: 8}
functionsLibrary: add.so
implementations:
  - {backend: Interpreter, type: add, impl: add.so}
...
"""
FIRST_COMMON = """\
#include "CustomOpFunctions.h"
#include "CustomOpInterpreterInterface.h"

#include <string.h>

bool customOpInferShape(CustomOpIOTensor *outputs, const int32_t numOutputs, const CustomOpIOTensor *inputs,
                        const int32_t numInputs, const CustomOpParam *params, const int32_t numParams) {
    outputs[0].rank = inputs[0].rank;
    outputs[0].dtype = inputs[0].dtype;
    for (int i = 0; i < inputs[0].rank; i++)
        outputs[0].dims[i] = inputs[0].dims[i];
    return numInputs == 1 && numOutputs == 1;
}
const char *customOpSelectImpl(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs,
                               int32_t numOutputs, CustomOpParam *params, int32_t numParams, const char *backend) {
    return "NAME";
}
bool customOpVerify(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,
                    CustomOpParam *params, int32_t numParams) {
    VERIFY
}
void NAME(CustomOpIOTensor *inputs, int32_t numInputs, CustomOpIOTensor *outputs, int32_t numOutputs,
          CustomOpParam *params, int32_t numParams) {
    int32_t n = 1;
    for (int32_t d = 0; d < inputs[0].rank; d++)
        n *= inputs[0].dims[d];
    const float *x = inputs[0].data;
    float *y = outputs[0].data;
    KERNEL
}
"""
FIRST_REVERSE = (
    FIRST_COMMON.replace("NAME", "reverse")
    .replace(
        "VERIFY",
        "const char *order = params[0].data;\n    return inputs[0].dtype == DTFloat32 && inputs[0].rank == 2 && "
        '(strcmp(order, "rows") == 0 || strcmp(order, "columns") == 0);',
    )
    .replace("KERNEL", "for (int32_t i = 0; i < n; i++)\n        y[i] = x[n - 1 - i];")
)
FIRST_ADD = (
    FIRST_COMMON.replace("NAME", "add")
    .replace(
        "VERIFY",
        "return inputs[0].dtype == DTFloat32 && params[0].size == outputs[0].dims[outputs[0].rank - 1];",
    )
    .replace(
        "KERNEL",
        "for (int32_t i = 0; i < n; i++)\n        y[i] = x[i] + ((const float *)params[0].data)[i % params[0].size];",
    )
)


def built(library: Path, *sources: Path, api: str = "1.17") -> None:
    """Compiles a library as a package's author would: with the headers of an interface."""
    library.parent.mkdir(parents=True, exist_ok=True)
    compiler = ["gcc", "-std=gnu11"] if sources[0].suffix == ".c" else ["g++"]
    include = [f"-I{STAND_IN / INTERFACES[api][0]}", f"-I{STAND_IN / 'all'}"]
    subprocess.run(
        [*compiler, "-O1", "-w", "-shared", "-fPIC", *include, *map(str, sources), "-lm", "-o", str(library)],
        check=True,
    )


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def share(
    root: Path, *, yaml: str = SHARE_YAML, functions: str = SHARE_FUNCTIONS, aic: str = SHARE_AIC
) -> Path:
    """The correct package, optionally with parts replaced; its library is built, its sources are next to it."""
    write(root, {"op.yaml": yaml, "src/share_functions.c": functions, "src/share_aic.c": aic})
    built(root / "lib" / "share.so", root / "src" / "share_functions.c")
    return root


def host_only(root: Path, functions: str) -> Path:
    """The correct package without the AIC kernel: a library without its sources."""
    aic = SHARE_YAML[SHARE_YAML.index("      - backend: AIC") :]
    functions = functions.replace('return "ShareAIC"', "return NULL")
    write(root, {"op.yaml": SHARE_YAML.replace(aic, ""), "build/share_functions.c": functions})
    built(root / "lib" / "share.so", root / "build" / "share_functions.c")
    (root / "build" / "share_functions.c").unlink()
    return root


def norm(root: Path) -> Path:
    return write(
        root,
        {
            "op.yaml": NORM_YAML,
            "CustomNorm/src/norm_functions.cpp": NORM_FUNCTIONS,
            "CustomNorm/src/norm_aic.cpp": NORM_AIC,
        },
    )


def gelu(root: Path) -> Path:
    folder = "CustomGelu/src/customgelu"
    write(
        root,
        {
            "custom_op_config.yaml": GELU_YAML,
            f"{folder}_functions.cpp": GELU_FUNCTIONS,
            f"{folder}_interpreter.cpp": GELU_INTERPRETER,
            f"{folder}_aic.cpp": GELU_AIC,
        },
    )
    sources = (root / f"{folder}_functions.cpp", root / f"{folder}_interpreter.cpp")
    built(root / "CustomGelu" / "src" / "customop_lib.so", *sources, api="1.21")
    return root


def first(root: Path) -> Path:
    """A package in the first format, with libraries but not their sources."""
    write(root, {"ops.yaml": FIRST_YAML})
    for name, text in (("reverse", FIRST_REVERSE), ("add", FIRST_ADD)):
        source = write(root / "build", {f"{name}.c": text}) / f"{name}.c"
        built(root / f"{name}.so", source)
        source.unlink()
    return root
