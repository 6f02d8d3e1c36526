/* Connects a kernel of ExecuTorch (Tensor, Scalar) with an op of opdb (opdb_op): the part that is the same
 * for all ops.
 *
 * A generated kernel shows its tensors as Views, tries the forms that its ATen target has as one QNN op, and
 * runs the first whose condition holds.  C++17; allocates nothing but ExecuTorch's temporary memory, and
 * keeps nothing. */
#ifndef OPDB_OP_CALL_H
#define OPDB_OP_CALL_H

#include <executorch/runtime/kernel/kernel_includes.h>

#include "opdb/binding.h"
#include "opdb/ops.h"

namespace opdb {

using executorch::aten::ArrayRef;
using executorch::aten::Scalar;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;

/* OPDB_NO_DTYPE for a type that QNN lacks. */
enum opdb_dtype dtype_of(ScalarType type);

class OpCall;

/* A tensor as the C side sees it; NULL for an optional one that was left out.  A tensor that the C side
 * cannot take (type, rank above 16, another dim order than 0, 1, 2, ..) fails the call. */
class View {
  public:
    View() = default;
    View(OpCall &call, const char *name, const Tensor &tensor);
    View(OpCall &call, const char *name, const std::optional<Tensor> &tensor);
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    void show(OpCall &call, const char *name, const Tensor &tensor);
    operator const opdb_tensor *() const { return given_ ? &tensor_ : nullptr; }

  private:
    bool given_ = false;
    opdb_tensor tensor_ = {};
    int64_t dims_[OPDB_MAX_RANK];
};

/* A list of tensors; more than OPDB_MAX_LIST fail the call. */
class Views {
  public:
    Views(OpCall &call, const char *name, ArrayRef<Tensor> tensors);
    Views(const Views &) = delete;
    Views &operator=(const Views &) = delete;
    operator opdb_tensors() const { return {n_, shown_}; }

  private:
    int64_t n_ = 0;
    View views_[OPDB_MAX_LIST];
    const opdb_tensor *shown_[OPDB_MAX_LIST];
};

inline opdb_ints ints(ArrayRef<int64_t> list) { return {static_cast<int64_t>(list.size()), list.data()}; }

/* Functions for the conditions of torch mappings besides the rule language. */
inline bool is_float(const opdb_tensor *t) {
    return t->dtype == OPDB_F16 || t->dtype == OPDB_BF16 || t->dtype == OPDB_F32 || t->dtype == OPDB_F64;
}
double number(const Scalar &value);
bool is_whole(double value);
inline std::string_view text_if(std::string_view value, bool known, bool *ok) {
    *ok = *ok && known;
    return value;
}
double power(double base, double exponent);
double root(double value);

/* One call of a kernel. */
class OpCall {
  public:
    OpCall(KernelRuntimeContext &context, const char *kernel) : context_(context), kernel_(kernel) {}
    bool good() const { return good_; }
    /* Fails the kernel: `what` may be NULL. */
    void fail(executorch::runtime::Error error, const char *what, const char *why);

    /* Starts the op that a form is. */
    void begin() { num_inputs_ = num_params_ = 0; }
    void input(const opdb_tensor *tensor);
    void inputs(opdb_tensors tensors);
    void param(const char *name, enum opdb_dtype dtype, int64_t value);
    void param(const char *name, enum opdb_dtype dtype, double value);
    void param(const char *name, enum opdb_dtype dtype, opdb_ints values);
    /* A tensor of one number in temporary memory; NULL, and the call fails, if there is none. */
    const opdb_tensor *full(opdb_ints shape, double value, enum opdb_dtype dtype);
    /* The condition of a form did not hold; the kernel reports the last reason if no form is left. */
    void refuse(const char *op, const char *why) {
        op_ = op;
        why_ = why;
    }
    void refused() { fail(executorch::runtime::Error::NotSupported, op_, why_); }
    /* Infers the shapes of the outputs, resizes them, runs. */
    void run(const opdb_entry &entry, Tensor *const *outputs, size_t num_outputs);

  private:
    void add(const opdb_param &param);
    void report(const opdb_report &report, const char *op);
    bool resize(Tensor &output, const opdb_shape_value &shape);
    bool scratch(const opdb_entry &entry, opdb_op &op);

    static constexpr size_t kMaxParams = 16;
    KernelRuntimeContext &context_;
    const char *kernel_;
    bool good_ = true;
    const char *op_ = nullptr, *why_ = "no form of it is one QNN op";
    size_t num_inputs_ = 0, num_params_ = 0;
    const opdb_tensor *inputs_[OPDB_MAX_LIST];
    opdb_param params_[kMaxParams];
    int64_t values_[kMaxParams]; /* of scalars */
    int64_t dims_[kMaxParams];   /* of lists */
};

} // namespace opdb
#endif
