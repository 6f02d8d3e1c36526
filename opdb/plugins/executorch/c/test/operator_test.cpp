/* Defines what the headers of ExecuTorch's wheel declare for tests but no library of the wheel defines, and a
 * registry for the kernels: a test has only the kernels that it calls. */
#include "operator_test.h"

#include <algorithm>
#include <ostream>
#include <type_traits>

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include "registration.h"

using executorch::aten::ArrayRef;
using executorch::aten::ScalarType;
using executorch::aten::SizesType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;

namespace opdb {

bool has_other(const char *) { return false; }

} // namespace opdb

namespace executorch {
namespace runtime {
namespace internal {

/* The function that TensorImpl lets resize it. */
class TensorResizerFriend final {
  public:
    static Error resize(TensorImpl *impl, ArrayRef<SizesType> sizes) {
        return impl->internal_resize_contiguous(sizes);
    }
};

/* Weak: a program that links all of ExecuTorch has its own. */
__attribute__((weak)) Error resize_tensor_impl(TensorImpl *impl, ArrayRef<SizesType> sizes) {
    return TensorResizerFriend::resize(impl, sizes);
}

} // namespace internal

namespace testing {

template <typename T> static double number(T value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<double>(static_cast<float>(value)); /* Half, BFloat16 */
}

template <typename T>
static bool values_are_close(const Tensor &a, const Tensor &b, double relative, double absolute) {
    const T *const got = a.const_data_ptr<T>(), *const want = b.const_data_ptr<T>();
    for (ssize_t i = 0; i < a.numel(); ++i) {
        if constexpr (std::is_integral_v<T>) {
            if (got[i] != want[i])
                return false;
        } else {
            const double x = number(got[i]), y = number(want[i]);
            if (x == y || (std::isnan(x) && std::isnan(y)))
                continue;
            if (!(std::isfinite(x) && std::fabs(x - y) <= absolute + relative * std::fabs(y)))
                return false;
        }
    }
    return true;
}

bool tensor_data_is_close(const Tensor &a, const Tensor &b, double relative, std::optional<double> absolute) {
    if (a.scalar_type() != b.scalar_type() || a.numel() != b.numel())
        return false;
    const double near = absolute.value_or(internal::kDefaultAtol);
    switch (a.scalar_type()) {
#define CASE(ctype, name)                                                                                    \
    case ScalarType::name:                                                                                   \
        return values_are_close<ctype>(a, b, relative, near);
        ET_FORALL_REALHBBF16_TYPES(CASE)
        CASE(uint16_t, UInt16)
        CASE(uint32_t, UInt32)
#undef CASE
    default:
        return false;
    }
}

bool tensors_are_close(const Tensor &a, const Tensor &b, double relative, std::optional<double> absolute) {
    const auto as = a.sizes(), bs = b.sizes();
    return as.size() == bs.size() && std::equal(as.begin(), as.end(), bs.begin()) &&
           tensor_data_is_close(a, b, relative, absolute);
}

bool tensor_lists_are_close(const Tensor *a, size_t num_a, const Tensor *b, size_t num_b, double relative,
                            std::optional<double> absolute) {
    for (size_t i = 0; i < std::min(num_a, num_b); ++i)
        if (!tensor_data_is_close(a[i], b[i], relative, absolute))
            return false;
    return num_a == num_b;
}

} // namespace testing

namespace etensor {

std::ostream &operator<<(std::ostream &stream, const ScalarType &type) {
    return stream << executorch::runtime::toString(type);
}

template <typename T> static void print(std::ostream &stream, const Tensor &tensor) {
    const T *const values = tensor.const_data_ptr<T>();
    for (ssize_t i = 0; i < tensor.numel(); ++i)
        stream << (i > 0 ? ", " : "") << executorch::runtime::testing::number(values[i]);
}

std::ostream &operator<<(std::ostream &stream, const Tensor &tensor) {
    stream << "Tensor(" << tensor.scalar_type() << " [";
    for (ssize_t i = 0; i < tensor.dim(); ++i)
        stream << (i > 0 ? ", " : "") << tensor.size(i);
    stream << "]: ";
    switch (tensor.scalar_type()) {
#define CASE(ctype, name)                                                                                    \
    case ScalarType::name:                                                                                   \
        print<ctype>(stream, tensor);                                                                        \
        break;
        ET_FORALL_REALHBBF16_TYPES(CASE)
        CASE(uint16_t, UInt16)
        CASE(uint32_t, UInt32)
#undef CASE
    default:
        stream << "?";
    }
    return stream << ")";
}

} // namespace etensor
} // namespace runtime
} // namespace executorch
