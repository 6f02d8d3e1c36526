/* The kernels under test; tests include this name, so that they can be compiled for another library of
 * kernels. */
#pragma once

#include "NativeFunctions.h"
