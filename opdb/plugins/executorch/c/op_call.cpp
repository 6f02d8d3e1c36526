#include "op_call.h"

#include <cmath>
#include <cstring>

#include "registration.h"

using executorch::runtime::Error;

namespace opdb {

static const int64_t NOTHING = 0; /* the data of a tensor without elements */

enum opdb_dtype dtype_of(ScalarType type) {
    switch (type) {
    case ScalarType::Byte:
        return OPDB_U8;
    case ScalarType::Char:
        return OPDB_I8;
    case ScalarType::Short:
        return OPDB_I16;
    case ScalarType::Int:
        return OPDB_I32;
    case ScalarType::Long:
        return OPDB_I64;
    case ScalarType::Half:
        return OPDB_F16;
    case ScalarType::BFloat16:
        return OPDB_BF16;
    case ScalarType::Float:
        return OPDB_F32;
    case ScalarType::Double:
        return OPDB_F64;
    case ScalarType::Bool:
        return OPDB_BOOL8;
    case ScalarType::UInt16:
        return OPDB_U16;
    case ScalarType::UInt32:
        return OPDB_U32;
    default:
        return OPDB_NO_DTYPE;
    }
}

double number(const Scalar &value) {
    if (value.isBoolean())
        return value.to<bool>() ? 1.0 : 0.0;
    return value.isFloatingPoint() ? value.to<double>() : static_cast<double>(value.to<int64_t>());
}

bool is_whole(double value) { return std::floor(value) == value && std::isfinite(value); }
double power(double base, double exponent) { return std::pow(base, exponent); }
double root(double value) { return std::sqrt(value); }

static bool in_order(const Tensor &tensor) {
    const auto order = tensor.dim_order();
    for (size_t i = 0; i < order.size(); ++i)
        if (order[i] != i)
            return false;
    return true;
}

View::View(OpCall &call, const char *name, const Tensor &tensor) { show(call, name, tensor); }

View::View(OpCall &call, const char *name, const std::optional<Tensor> &tensor) {
    if (tensor.has_value())
        show(call, name, *tensor);
}

void View::show(OpCall &call, const char *name, const Tensor &tensor) {
    if (tensor.dim() > OPDB_MAX_RANK)
        return call.fail(Error::InvalidArgument, name, "more than 16 dimensions");
    if (!in_order(tensor))
        return call.fail(Error::InvalidArgument, name,
                         "another dim order than 0, 1, 2, ..; write the model with contiguous tensors");
    const enum opdb_dtype dtype = dtype_of(tensor.scalar_type());
    if (dtype == OPDB_NO_DTYPE)
        return call.fail(Error::InvalidType, name, "QNN has no such data type");
    for (ssize_t i = 0; i < tensor.dim(); ++i)
        dims_[i] = tensor.size(i);
    const void *data = tensor.numel() == 0 ? &NOTHING : tensor.const_data_ptr();
    tensor_.rank = static_cast<uint32_t>(tensor.dim());
    tensor_.dims = dims_;
    tensor_.dtype = dtype;
    tensor_.encoding = OPDB_ENCODING_NONE;
    tensor_.symmetric = true;
    tensor_.type = OPDB_TENSOR_NATIVE;
    tensor_.axis = -1;
    tensor_.data = const_cast<void *>(data);
    given_ = true;
}

Views::Views(OpCall &call, const char *name, ArrayRef<Tensor> tensors) {
    if (tensors.size() > OPDB_MAX_LIST) {
        call.fail(Error::NotSupported, name, "more than 64 tensors");
        return;
    }
    n_ = static_cast<int64_t>(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
        views_[i].show(call, name, tensors[i]);
        shown_[i] = views_[i];
    }
}

void OpCall::fail(Error error, const char *what, const char *why) {
    if (!good_)
        return; /* the first reason counts */
    good_ = false;
    context_.fail(error);
    if (!has_other(kernel_))
        ET_LOG(Error, "%s: %s%s%s", kernel_, what != nullptr ? what : "", what != nullptr ? ": " : "", why);
}

void OpCall::input(const opdb_tensor *tensor) {
    if (num_inputs_ == OPDB_MAX_LIST)
        return fail(Error::NotSupported, nullptr, "more than 64 tensors");
    inputs_[num_inputs_++] = tensor;
}

void OpCall::inputs(opdb_tensors tensors) {
    for (int64_t i = 0; i < tensors.n; ++i)
        input(tensors.v[i]);
}

void OpCall::add(const opdb_param &param) {
    if (num_params_ == kMaxParams)
        return fail(Error::Internal, nullptr, "more than 16 parameters");
    params_[num_params_++] = param;
}

void OpCall::param(const char *name, enum opdb_dtype dtype, int64_t value) {
    values_[num_params_] = value;
    add({name, dtype, 0, nullptr, 1, &values_[num_params_], 0.0, nullptr});
}

void OpCall::param(const char *name, enum opdb_dtype dtype, double value) {
    const double real = dtype == OPDB_F32 ? static_cast<double>(static_cast<float>(value)) : value;
    add({name, dtype, 0, nullptr, 1, nullptr, real, nullptr});
}

void OpCall::param(const char *name, enum opdb_dtype dtype, opdb_ints values) {
    dims_[num_params_] = values.n;
    add({name, dtype, 1, &dims_[num_params_], values.n, values.v, 0.0, nullptr});
}

template <typename T> static void fill(void *data, int64_t n, double value) {
    for (int64_t i = 0; i < n; ++i)
        static_cast<T *>(data)[i] = static_cast<T>(value);
}

static void fill(enum opdb_dtype dtype, void *data, int64_t n, double value) {
    switch (dtype) {
    case OPDB_F64:
        return fill<double>(data, n, value);
    case OPDB_F32:
        return fill<float>(data, n, value);
    case OPDB_F16:
        return fill<executorch::aten::Half>(data, n, static_cast<float>(value));
    case OPDB_BF16:
        return fill<executorch::aten::BFloat16>(data, n, static_cast<float>(value));
    case OPDB_I64:
        return fill<int64_t>(data, n, value);
    case OPDB_I32:
        return fill<int32_t>(data, n, value);
    case OPDB_I16:
        return fill<int16_t>(data, n, value);
    case OPDB_I8:
        return fill<int8_t>(data, n, value);
    case OPDB_U32:
        return fill<uint32_t>(data, n, value);
    case OPDB_U16:
        return fill<uint16_t>(data, n, value);
    default:
        return fill<uint8_t>(data, n, value); /* u8 and bool8: full() takes no other */
    }
}

static size_t width(enum opdb_dtype dtype) {
    switch (dtype) {
    case OPDB_F64:
    case OPDB_I64:
        return 8;
    case OPDB_F32:
    case OPDB_I32:
    case OPDB_U32:
        return 4;
    case OPDB_F16:
    case OPDB_BF16:
    case OPDB_I16:
    case OPDB_U16:
        return 2;
    case OPDB_I8:
    case OPDB_U8:
    case OPDB_BOOL8:
        return 1;
    default:
        return 0;
    }
}

const opdb_tensor *OpCall::full(opdb_ints shape, double value, enum opdb_dtype dtype) {
    bool ok = true;
    const int64_t n = opdb_prod(shape, &ok);
    if (!ok || width(dtype) == 0 || shape.n > OPDB_MAX_RANK) {
        fail(Error::NotSupported, nullptr, "a constant of this type cannot be made");
        return nullptr;
    }
    const size_t dims = static_cast<size_t>(shape.n) * sizeof(int64_t);
    const size_t bytes = sizeof(opdb_tensor) + dims + static_cast<size_t>(n) * width(dtype);
    auto memory = context_.allocate_temp(bytes);
    if (!memory.ok()) {
        fail(memory.error(), nullptr, "no temporary memory for a constant");
        return nullptr;
    }
    opdb_tensor *const made = static_cast<opdb_tensor *>(memory.get());
    int64_t *const own = reinterpret_cast<int64_t *>(made + 1);
    memset(made, 0, sizeof *made);
    if (dims > 0)
        memcpy(own, shape.v, dims);
    made->rank = static_cast<uint32_t>(shape.n);
    made->dims = own;
    made->dtype = dtype;
    made->encoding = OPDB_ENCODING_NONE;
    made->symmetric = true;
    made->type = OPDB_TENSOR_NATIVE;
    made->axis = -1;
    made->data = own + shape.n;
    fill(dtype, made->data, n, value);
    return made;
}

/* The first broken rule that is not a warning. */
void OpCall::report(const opdb_report &report, const char *op) {
    for (size_t i = 0; i < report.n; ++i) {
        const opdb_violation &v = report.v[i];
        if (v.strength != OPDB_REQUIRE)
            continue;
        if (!has_other(kernel_))
            ET_LOG(Error, "%s: %s: %s; got %s (%s)", kernel_, op, v.sentence, v.got, v.rule);
        good_ = false;
        return context_.fail(Error::InvalidArgument);
    }
    fail(Error::InvalidArgument, op, "the arguments are not those of the op");
}

bool OpCall::resize(Tensor &output, const opdb_shape_value &shape) {
    if (output.dim() == 0 && shape.rank == 1 && shape.dims[0] == 1)
        return true; /* QNN has no tensor of rank 0 */
    executorch::aten::SizesType sizes[OPDB_MAX_RANK];
    for (uint32_t i = 0; i < shape.rank; ++i)
        sizes[i] = static_cast<executorch::aten::SizesType>(shape.dims[i]);
    return executorch::runtime::resize_tensor(
               output, ArrayRef<executorch::aten::SizesType>(sizes, shape.rank)) == Error::Ok;
}

bool OpCall::scratch(const opdb_entry &entry, opdb_op &op) {
    op.scratch_size = entry.scratch(&op);
    if (op.scratch_size == 0)
        return true;
    auto memory = context_.allocate_temp(op.scratch_size, 16);
    if (!memory.ok())
        return fail(memory.error(), entry.op, "no temporary memory for the kernel"), false;
    op.scratch = memory.get();
    return true;
}

static const char *said(opdb_status status) {
    switch (status) {
    case OPDB_UNSUPPORTED:
        return "this library has no kernel for these data types";
    case OPDB_OUTSIDE:
        return "an index lies outside of its tensor";
    case OPDB_UNDECIDABLE:
        return "the shapes of the results do not follow from the arguments";
    case OPDB_TOO_SMALL:
        return "the temporary memory is too small";
    default:
        return "the op is not in this library";
    }
}

void OpCall::run(const opdb_entry &entry, Tensor *const *outputs, size_t num_outputs) {
    if (!good_)
        return;
    while (num_inputs_ > 0 && inputs_[num_inputs_ - 1] == nullptr)
        --num_inputs_;
    opdb_op op = {entry.op, num_inputs_, inputs_, 0, nullptr, num_params_, params_, nullptr, 0};
    opdb_report found;
    found.n = found.dropped = 0;
    opdb_shapes shapes;
    const opdb_status inferred = entry.infer(&op, &shapes, &found);
    if (inferred == OPDB_INVALID)
        return report(found, entry.op);
    if (inferred != OPDB_OK || shapes.n != num_outputs)
        return fail(Error::NotSupported, entry.op, said(OPDB_UNDECIDABLE));
    View views[OPDB_MAX_OUTPUTS];
    const opdb_tensor *shown[OPDB_MAX_OUTPUTS];
    bool empty = true;
    for (size_t i = 0; i < num_outputs; ++i) {
        if (!resize(*outputs[i], shapes.v[i]))
            return fail(Error::InvalidArgument, entry.op, "the tensor for the result has another shape");
        views[i].show(*this, "out", *outputs[i]);
        shown[i] = views[i];
        empty = empty && outputs[i]->numel() == 0;
    }
    if (!good_ || empty)
        return;
    static const int64_t ONE = 1;
    opdb_tensor lone; /* a result of rank 0, as QNN has it */
    if (num_outputs == 1 && shown[0]->rank == 0 && shapes.v[0].rank == 1) {
        lone = *shown[0];
        lone.rank = 1;
        lone.dims = &ONE;
        shown[0] = &lone;
    }
    op.num_outputs = num_outputs;
    op.outputs = shown;
    if (!scratch(entry, op))
        return;
    found.n = found.dropped = 0;
    const opdb_status status = entry.run(&op, &found);
    if (status == OPDB_INVALID)
        return report(found, entry.op);
    if (status != OPDB_OK)
        fail(Error::NotSupported, entry.op, said(status));
}

} // namespace opdb
