/* Values between the pixels of an image. */
#ifndef OPDB_PIXELS_H
#define OPDB_PIXELS_H

#include <math.h>

#include "kernel.h"

/* One pixel of an image [batch, height, width, channels] between four, or the nearest one.  `x` is its first
 * channel; row and column lie in the image. */
static inline double pixel_at(const float *x, double row, double column, const opdb_tensor *image,
                              bool near) {
    int64_t width = image->dims[2], channels = image->dims[3];
    if (near)
        return x[((int64_t)floor(row + 0.5) * width + (int64_t)floor(column + 0.5)) * channels];
    int64_t top = (int64_t)floor(row), left = (int64_t)floor(column);
    int64_t bottom = (int64_t)ceil(row), right = (int64_t)ceil(column);
    double down = row - (double)top, along = column - (double)left;
    double upper =
        x[(top * width + left) * channels] * (1 - along) + x[(top * width + right) * channels] * along;
    double lower =
        x[(bottom * width + left) * channels] * (1 - along) + x[(bottom * width + right) * channels] * along;
    return upper * (1 - down) + lower * down;
}

#endif
