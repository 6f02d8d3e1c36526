#include "ends.h"

#include <utility>

namespace opdb::delegate {

using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::Span;

static int64_t nothing; /* the data of a tensor without elements */

static uint64_t size_of(const Blob &blob, const TensorRecord &t) {
    uint64_t bytes = 0;
    return bytes_of(blob.words(t.dims), t.rank, width_of(t.dtype), &bytes) ? bytes : 0;
}

Error Ends::prepare(const Blob &blob, const Constants &constants, Memory &memory) {
    blob_ = &blob;
    const Records<TensorRecord> tensors = blob.tensors();
    data_ = memory.list<void *>(tensors.n);
    owner_ = memory.list<uint8_t>(tensors.n);
    way_ = memory.list<Way>(blob.args().n);
    if (!memory.ok())
        return memory.error();
    for (uint32_t i = 0; i < tensors.n; ++i) /* nothing writes to them */
        if (tensors[i].data != Held::NOTHING)
            data_[i] = const_cast<uint8_t *>(constants.at(tensors[i].data, tensors[i].offset));
    Error error = keep_buffers(constants, memory);
    if (error == Error::Ok)
        error = own_arguments(memory);
    return error == Error::Ok ? own_rest(memory) : error;
}

Error Ends::keep_buffers(const Constants &constants, Memory &memory) {
    for (const StateRecord &s : blob_->states()) {
        if (owner_[s.input] != NOBODY || owner_[s.output] != NOBODY)
            return fail(Error::InvalidProgram, "the blob is malformed: the buffer %s shares a tensor",
                        blob_->string(s.name));
        data_[s.input] = memory.take(s.size);
        data_[s.output] = memory.take(s.size);
        if (!memory.ok())
            return memory.error();
        if (s.size > 0)
            memcpy(data_[s.input], constants.at(s.data, s.offset), s.size);
        owner_[s.input] = owner_[s.output] = BUFFER;
    }
    return Error::Ok;
}

Error Ends::own_arguments(Memory &memory) {
    const Records<Arg> args = blob_->args();
    for (uint32_t i = 0; i < args.n; ++i) {
        const uint32_t t = args[i].tensor;
        if (t == NONE)
            continue;
        const TensorRecord &tensor = blob_->tensors()[t];
        if (args[i].kind == 0 && owner_[t] != NOBODY)
            return fail(Error::InvalidProgram, "the blob is malformed: two arguments are the tensor %s",
                        blob_->name(tensor));
        const bool first = owner_[t] == NOBODY && (args[i].kind == 0 || tensor.type == OPDB_TENSOR_APP_READ);
        way_[i] = narrowed(args[i], tensor) ? CONVERTED : first ? IN_PLACE : COPIED;
        if (first && way_[i] == CONVERTED)
            data_[t] = memory.take(size_of(*blob_, tensor));
        if (first)
            owner_[t] = ARGUMENT;
    }
    return memory.error();
}

/* Outputs that exist only in the graph get memory of their own; an input without a source is an error. */
Error Ends::own_rest(Memory &memory) {
    const Records<TensorRecord> tensors = blob_->tensors();
    for (uint32_t i = 0; i < tensors.n; ++i) {
        const bool input = tensors[i].type == OPDB_TENSOR_APP_WRITE;
        if (owner_[i] != NOBODY || (!input && tensors[i].type != OPDB_TENSOR_APP_READ))
            continue;
        if (input)
            return fail(Error::InvalidProgram, "the blob is malformed: nobody gives the input %s",
                        blob_->name(tensors[i]));
        data_[i] = memory.take(size_of(*blob_, tensors[i]));
    }
    for (const Arg &a : blob_->args())
        if (a.tensor != NONE && owner_[a.tensor] == NOBODY && data_[a.tensor] == nullptr && memory.ok())
            return fail(Error::InvalidProgram, "the blob is malformed: the output %s is inside the graph",
                        blob_->name(tensors[a.tensor]));
    return memory.error();
}

/* True if dimensions larger than 1 are in order: 0, 1, 2, .. */
static bool in_order(const Tensor &tensor) {
    const auto order = tensor.dim_order();
    int last = -1;
    for (const uint8_t dim : order) {
        if (tensor.size(dim) == 1)
            continue;
        if ((int)dim < last)
            return false;
        last = dim;
    }
    return true;
}

static Error check(const Blob &blob, uint32_t i, const EValue &value) {
    const Arg &a = blob.args()[i];
    if (!value.isTensor())
        return fail(Error::InvalidType, "argument %u is no tensor", i);
    const Tensor &tensor = value.toTensor();
    if ((uint32_t)tensor.scalar_type() != a.scalar_type)
        return fail(Error::InvalidType, "argument %u has the scalar type %d; the model was lowered for %u", i,
                    (int)tensor.scalar_type(), a.scalar_type);
    bool same = (uint32_t)tensor.dim() == a.rank;
    const int64_t *const dims = blob.words(a.dims);
    for (uint32_t d = 0; same && d < a.rank; ++d) {
        if (tensor.size(d) != dims[d])
            return fail(Error::InvalidArgument,
                        "argument %u has %d in dimension %u; the model was lowered for %d", i,
                        (int)tensor.size(d), d, (int)dims[d]);
    }
    if (!same)
        return fail(Error::InvalidArgument, "argument %u has %d dimensions; the model was lowered for %u", i,
                    (int)tensor.dim(), a.rank);
    if (!in_order(tensor))
        return fail(Error::NotSupported, "argument %u has another dim order than 0, 1, 2, ..", i);
    if (tensor.numel() > 0 && tensor.const_data_ptr() == nullptr)
        return fail(Error::InvalidArgument, "argument %u has no data", i);
    return Error::Ok;
}

static void *memory_of(const EValue &value) {
    const Tensor &tensor = value.toTensor();
    return tensor.numel() == 0 ? &nothing : const_cast<void *>(tensor.const_data_ptr());
}

static bool narrow(const void *from, size_t n, void *to) {
    const int64_t *const wide = static_cast<const int64_t *>(from);
    for (size_t i = 0; i < n; ++i) {
        static_cast<int32_t *>(to)[i] = (int32_t)wide[i];
        if (wide[i] != (int32_t)wide[i])
            return false;
    }
    return true;
}

static void widen(const void *from, size_t n, void *to) {
    for (size_t i = 0; i < n; ++i)
        static_cast<int64_t *>(to)[i] = static_cast<const int32_t *>(from)[i];
}

Error Ends::bind(Span<EValue *> args) {
    const Records<Arg> records = blob_->args();
    if (args.size() != records.n)
        return fail(Error::InvalidArgument, "%zu arguments; the model was lowered for %u", args.size(),
                    records.n);
    for (uint32_t i = 0; i < records.n; ++i) {
        const Arg &a = records[i];
        if (a.kind == 0 && a.tensor == NONE)
            continue; /* nobody reads it */
        const Error error = check(*blob_, i, *args[i]);
        if (error != Error::Ok)
            return error;
        if (a.tensor == NONE)
            continue;
        if (way_[i] == IN_PLACE)
            data_[a.tensor] = memory_of(*args[i]);
        else if (a.kind == 0 && !narrow(memory_of(*args[i]), args[i]->toTensor().numel(), data_[a.tensor]))
            return fail(Error::InvalidArgument, "argument %u has a number that does not fit into 32 bits", i);
    }
    return Error::Ok;
}

void Ends::finish(Span<EValue *> args) {
    const Records<Arg> records = blob_->args();
    for (uint32_t i = 0; i < records.n; ++i) {
        const Arg &a = records[i];
        if (a.kind == 0)
            continue;
        void *const to = memory_of(*args[i]);
        const Tensor &tensor = args[i]->toTensor();
        if (a.constant != NONE)
            memcpy(to, blob_->data((uint64_t)a.constant * ALIGN), tensor.nbytes());
        else if (way_[i] == CONVERTED)
            widen(data_[a.tensor], tensor.numel(), to);
        else if (way_[i] == COPIED)
            memmove(to, data_[a.tensor], tensor.nbytes());
    }
    for (const StateRecord &s : blob_->states())
        std::swap(data_[s.input], data_[s.output]);
}

} // namespace opdb::delegate
