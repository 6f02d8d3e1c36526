// ${generated_comment}
#pragma once

#include <executorch/runtime/core/error.h>

executorch::runtime::Error register_all_kernels();
