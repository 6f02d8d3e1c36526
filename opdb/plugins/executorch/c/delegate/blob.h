/* A blob of opdb's delegate, read in place. */
#ifndef OPDB_DELEGATE_BLOB_H
#define OPDB_DELEGATE_BLOB_H

#include <cstddef>

#include "fail.h"
#include "opdb/runtime.h"
#include "records.h"

namespace opdb::delegate {

/* Records of one kind. */
template <typename T> struct Records {
    const T *v = nullptr;
    uint32_t n = 0;
    const T &operator[](uint32_t i) const { return v[i]; }
    const T *begin() const { return v; }
    const T *end() const { return v + n; }
};

/* After `read`, every index, every size and every string that the records hold is within its section. */
class Blob {
  public:
    /* Checks all bytes: DelegateInvalidCompatibility for another format, InvalidProgram for damage. `data`
     * has to stay, at a multiple of ALIGN. */
    Error read(const uint8_t *data, size_t size);

    Payload payload() const { return static_cast<Payload>(header().payload); }
    const uint8_t *sha256() const { return header().sha256; }
    const Info &info() const { return *at<Info>(INFO); }
    const char *string(uint32_t offset) const { return at<char>(STRINGS) + offset; }
    const int64_t *words(uint32_t first) const { return at<int64_t>(WORDS) + first; }
    const double *reals(uint32_t first) const { return at<double>(REALS) + first; }
    const float *floats(uint32_t first) const { return at<float>(FLOATS) + first; }
    const int32_t *ints(uint32_t first) const { return at<int32_t>(INTS) + first; }
    const uint32_t *refs(uint32_t first) const { return at<uint32_t>(REFS) + first; }
    const uint8_t *data(uint64_t offset) const { return at<uint8_t>(DATA) + offset; }

    Records<Arg> args() const { return records<Arg>(ARGS); }
    Records<TensorRecord> tensors() const { return records<TensorRecord>(TENSORS); }
    Records<QuantRecord> quants() const { return records<QuantRecord>(QUANTS); }
    Records<OpRecord> ops() const { return records<OpRecord>(OPS); }
    Records<ParamRecord> params() const { return records<ParamRecord>(PARAMS); }
    Records<StateRecord> states() const { return records<StateRecord>(STATES); }
    Records<NamedRecord> named() const { return records<NamedRecord>(NAMED); }
    /* The context file, if the blob itself holds it. */
    Records<uint8_t> context() const { return records<uint8_t>(CONTEXT); }

    const char *name(const TensorRecord &tensor) const { return string(tensor.name); }

  private:
    const HeaderRecord &header() const { return *reinterpret_cast<const HeaderRecord *>(base_); }
    template <typename T> const T *at(Section section) const {
        return reinterpret_cast<const T *>(base_ + offset_[section]);
    }
    template <typename T> Records<T> records(Section section) const {
        return {at<T>(section), static_cast<uint32_t>(size_[section] / sizeof(T))};
    }
    bool has(Section section, uint64_t first, uint64_t count, size_t width) const {
        const uint64_t n = size_[section] / width;
        return first <= n && count <= n - first;
    }
    bool is_string(uint32_t offset) const { return offset < size_[STRINGS]; }
    bool is_tensor(uint32_t i) const { return i < tensors().n; }
    bool is_held(Held data, uint64_t offset, uint64_t size) const;
    bool fits(const QuantRecord &quant, const TensorRecord &tensor) const;
    Error check_header(const uint8_t *data, size_t size);
    Error check_sections();
    Error check_info() const;
    Error check_arg(uint32_t i) const;
    Error check_tensor(const TensorRecord &tensor) const;
    Error check_quant(const QuantRecord &quant) const;
    Error check_op(const OpRecord &op) const;
    Error check_param(const ParamRecord &param) const;
    Error check_rest() const;

    const uint8_t *base_ = nullptr;
    uint64_t offset_[SECTIONS_END] = {}, size_[SECTIONS_END] = {};
};

enum : uint32_t { LONG = 4 }; /* ExecuTorch's ScalarType::Long */

/* Bytes of one stored element (4-bit elements take a byte); 0 for a type that no tensor has. */
size_t width_of(uint32_t dtype);
/* The same for ExecuTorch's ScalarType. */
size_t item_size(uint32_t scalar_type);
/* True if the caller's int64 are int32 in the graph: QNN's libraries compute only with int32. */
bool narrowed(const Arg &arg, const TensorRecord &tensor);
/* The product of dimensions and `width`; false for an invalid dimension, and above 2^48. */
bool bytes_of(const int64_t *dims, uint32_t rank, size_t width, uint64_t *out);

} // namespace opdb::delegate

#endif
