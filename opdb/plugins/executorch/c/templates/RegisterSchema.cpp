// ${generated_comment}
// For PyTorch: the schemas of the custom ops.
#include <torch/library.h>

namespace at {
TORCH_LIBRARY_FRAGMENT(aten, m) {
    ${aten_schema_registrations}
}
${schema_registrations}
} // namespace at
