/* Stand-in, opdb's own text: data types and parameters of Cloud AI's custom ops, in all generations.
 *
 * Names and numbers are those of pytorch/glow PR 5208 (Apache-2.0).  It is not public if later generations
 * kept the numbers. */
#ifndef CUSTOM_OP_STAND_IN_H
#define CUSTOM_OP_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Qualcomm's headers do not have it. */
#define OPDB_CLOUD_AI_STAND_IN 1

typedef enum {
    DTFloat32 = 0,
    DTFloat16 = 1,
    DTBFloat16 = 2,
    DTQInt8 = 3, /* quantized: real = (stored - offset) * scale */
    DTQUInt8 = 4,
    DTQInt16 = 5,
    DTQInt32 = 6,
    DTIInt32 = 7, /* indices */
    DTIInt64 = 8,
    DTBool = 9,
    DTString = 10
} CustomOpDataType;

#if defined(__hexagon__) || defined(__aarch64__)
typedef __fp16 float16_ty;
#endif

typedef struct {
    void *data; /* one value, or an array for a vector: float, int32_t, bool, or text */
    CustomOpDataType dtype;
    const char *name; /* as the configuration has it */
    int32_t size;     /* 0: a scalar; else the number of values */
} CustomOpParam;

#endif
