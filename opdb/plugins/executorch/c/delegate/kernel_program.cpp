#include "kernel_program.h"

#include <cstring>

#include "plan.h"

namespace opdb::delegate {

/* Rules read the values of constants up to this number (opdb.core.op_config.MAX_VALUES). */
enum { MAX_VALUES = 1 << 18 };

static Error fault(const char *what, const char *name) {
    return fail(Error::InvalidProgram, "the blob's graph is malformed: %s: %s", name, what);
}

Error KernelProgram::prepare(const Blob &blob, const Ends &ends, Memory &memory) {
    blob_ = &blob;
    const Records<OpRecord> ops = blob.ops();
    nodes_ = memory.list<Node>(ops.n);
    Error error = show_tensors(ends, memory);
    if (error == Error::Ok)
        error = place(memory);
    size_t scratch = 0;
    for (uint32_t i = 0; error == Error::Ok && i < ops.n; ++i) {
        error = make_node(ops[i], nodes_[i], memory);
        if (error == Error::Ok)
            error = check(nodes_[i]);
        if (error == Error::Ok && nodes_[i].op.scratch_size > scratch)
            scratch = nodes_[i].op.scratch_size;
    }
    if (error != Error::Ok || scratch == 0)
        return error;
    void *const shared = memory.take(scratch);
    for (uint32_t i = 0; i < ops.n; ++i)
        nodes_[i].op.scratch = nodes_[i].op.scratch_size > 0 ? shared : nullptr;
    return memory.error();
}

Error KernelProgram::show_tensors(const Ends &ends, Memory &memory) {
    const Records<TensorRecord> records = blob_->tensors();
    tensors_ = memory.list<opdb_tensor>(records.n);
    quants_ = memory.list<opdb_quant>(blob_->quants().n);
    if (!memory.ok())
        return memory.error();
    for (uint32_t i = 0; i < records.n; ++i) {
        const TensorRecord &r = records[i];
        opdb_tensor &t = tensors_[i];
        t.rank = r.rank;
        t.dims = blob_->words(r.dims);
        t.dtype = static_cast<enum opdb_dtype>(r.dtype);
        t.encoding = OPDB_ENCODING_NONE;
        t.symmetric = r.symmetric != 0;
        t.type = static_cast<enum opdb_tensor_type>(r.type);
        t.is_sparse = r.specified != 0;
        t.axis = -1;
        t.data = ends.data(i);
        show_quant(r, t);
        const Error error = show_values(r, t, memory);
        if (error != Error::Ok)
            return error;
    }
    return Error::Ok;
}

void KernelProgram::show_quant(const TensorRecord &record, opdb_tensor &tensor) {
    if (record.quant == NONE)
        return;
    const QuantRecord &q = blob_->quants()[record.quant];
    opdb_quant &out = quants_[record.quant];
    out.n = q.count;
    out.scales = blob_->floats(q.scales);
    out.offsets = blob_->ints(q.offsets);
    out.bits = q.bits;
    tensor.quant = &out;
    tensor.encoding = static_cast<opdb_encoding>(q.encoding);
    tensor.axis = q.axis == NONE ? -1 : (int32_t)q.axis;
}

template <typename T> static void widen(const void *data, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; ++i)
        out[i] = (int64_t)static_cast<const T *>(data)[i];
}

static bool widen(enum opdb_dtype dtype, const void *data, int64_t n, int64_t *out) {
    switch (dtype) {
    case OPDB_I8:
        return widen<int8_t>(data, n, out), true;
    case OPDB_U8:
        return widen<uint8_t>(data, n, out), true;
    case OPDB_I16:
        return widen<int16_t>(data, n, out), true;
    case OPDB_U16:
        return widen<uint16_t>(data, n, out), true;
    case OPDB_I32:
        return widen<int32_t>(data, n, out), true;
    case OPDB_U32:
        return widen<uint32_t>(data, n, out), true;
    case OPDB_I64:
        return widen<int64_t>(data, n, out), true;
    default:
        return false;
    }
}

Error KernelProgram::show_values(const TensorRecord &record, opdb_tensor &tensor, Memory &memory) {
    uint64_t n = 0;
    if (record.type != OPDB_TENSOR_STATIC || record.data == Held::NOTHING || tensor.is_sparse ||
        !bytes_of(tensor.dims, tensor.rank, 1, &n) || n > MAX_VALUES)
        return Error::Ok;
    int64_t unused;
    if (!widen(tensor.dtype, tensor.data, 0, &unused))
        return Error::Ok;
    int64_t *const values = memory.list<int64_t>(n);
    opdb_ints *const list = memory.list<opdb_ints>(1);
    if (!memory.ok())
        return memory.error();
    (void)widen(tensor.dtype, tensor.data, (int64_t)n, values);
    *list = {(int64_t)n, values};
    tensor.values = list;
    return Error::Ok;
}

void KernelProgram::show_param(const ParamRecord &record, opdb_param &param) {
    param.name = blob_->string(record.name);
    param.dtype = static_cast<enum opdb_dtype>(record.dtype);
    param.rank = record.rank;
    param.dims = blob_->words(record.dims);
    param.count = record.count;
    param.ints = blob_->words(record.ints);
    const bool real = record.dtype == OPDB_F16 || record.dtype == OPDB_F32 || record.dtype == OPDB_F64 ||
                      record.dtype == OPDB_BF16;
    param.real = record.count > 0 ? blob_->reals(record.reals)[0] : 0.0;
    param.reals = real && record.rank > 0 ? blob_->reals(record.reals) : nullptr;
}

Error KernelProgram::make_node(const OpRecord &record, Node &node, Memory &memory) {
    node.entry = kernel_of(blob_->string(record.type));
    if (node.entry == nullptr)
        return fail(Error::OperatorMissing, "%s: there is no C kernel of %s here", blob_->string(record.name),
                    blob_->string(record.type));
    const opdb_tensor **const inputs = memory.list<const opdb_tensor *>(record.inputs);
    const opdb_tensor **const outputs = memory.list<const opdb_tensor *>(record.outputs);
    opdb_param *const params = memory.list<opdb_param>(record.params);
    if (!memory.ok())
        return memory.error();
    const uint32_t *const in = blob_->refs(record.input), *const out = blob_->refs(record.output);
    for (uint32_t i = 0; i < record.inputs; ++i)
        inputs[i] = in[i] == NONE ? nullptr : &tensors_[in[i]];
    for (uint32_t i = 0; i < record.outputs; ++i)
        outputs[i] = &tensors_[out[i]];
    for (uint32_t i = 0; i < record.params; ++i)
        show_param(blob_->params()[record.param + i], params[i]);
    uint32_t given = record.inputs;
    while (given > 0 && inputs[given - 1] == nullptr)
        --given;
    node.op = {blob_->string(record.type),
               given,
               inputs,
               record.outputs,
               outputs,
               record.params,
               params,
               nullptr,
               0};
    node.outputs = record.output;
    return Error::Ok;
}

/* The steps between which each tensor inside the graph is alive; checks the order of ops. */
Error KernelProgram::alive(uint32_t *first, uint32_t *last) const {
    const Records<OpRecord> ops = blob_->ops();
    for (uint32_t i = 0; i < ops.n; ++i) {
        for (uint32_t k = 0; k < ops[i].inputs; ++k) {
            const uint32_t t = blob_->refs(ops[i].input)[k];
            if (t == NONE)
                continue;
            const bool made_here =
                tensors_[t].type == OPDB_TENSOR_NATIVE || tensors_[t].type == OPDB_TENSOR_APP_READ;
            if (made_here ? first[t] == 0
                          : tensors_[t].data == nullptr && tensors_[t].type == OPDB_TENSOR_STATIC)
                return fault("it reads what no op before it made", blob_->string(ops[i].name));
            last[t] = i + 1;
        }
        for (uint32_t k = 0; k < ops[i].outputs; ++k) {
            const uint32_t t = blob_->refs(ops[i].output)[k];
            if (tensors_[t].type != OPDB_TENSOR_NATIVE && tensors_[t].type != OPDB_TENSOR_APP_READ)
                return fault("it writes to an input or a constant", blob_->string(ops[i].name));
            if (first[t] != 0)
                return fault("it writes what an op before it made", blob_->string(ops[i].name));
            first[t] = last[t] = i + 1;
        }
    }
    return Error::Ok;
}

Error KernelProgram::place(Memory &memory) {
    const Records<TensorRecord> records = blob_->tensors();
    uint32_t *const first = memory.list<uint32_t>(records.n), *const last = memory.list<uint32_t>(records.n);
    Piece *const pieces = memory.list<Piece>(records.n);
    if (!memory.ok())
        return memory.error();
    const Error error = alive(first, last);
    if (error != Error::Ok)
        return error;
    size_t n = 0;
    for (uint32_t i = 0; i < records.n; ++i) {
        if (tensors_[i].type == OPDB_TENSOR_APP_READ && first[i] == 0)
            return fault("no op makes this output", blob_->name(records[i]));
        Piece &piece = pieces[n];
        piece = {0, first[i], last[i], 0, i};
        if (tensors_[i].type == OPDB_TENSOR_NATIVE && first[i] > 0 &&
            bytes_of(tensors_[i].dims, tensors_[i].rank, width_of(records[i].dtype), &piece.size))
            ++n;
    }
    const uint64_t size = plan(pieces, n);
    uint8_t *const arena = static_cast<uint8_t *>(memory.take(size));
    for (size_t i = 0; arena != nullptr && i < n; ++i)
        tensors_[pieces[i].owner].data = arena + pieces[i].offset;
    return memory.error();
}

/* The first broken rule that is not a warning. */
static Error refused(Error error, const char *op, const opdb_report &report) {
    for (size_t i = 0; i < report.n; ++i)
        if (report.v[i].strength == OPDB_REQUIRE)
            return fail(error, "%s: %s; got %s (%s)", op, report.v[i].sentence, report.v[i].got,
                        report.v[i].rule);
    return fail(error, "%s: its arguments are not those of the op", op);
}

static const char *said(opdb_status status) {
    switch (status) {
    case OPDB_UNSUPPORTED:
        return "no kernel for these data types";
    case OPDB_OUTSIDE:
        return "an index lies outside of its tensor";
    case OPDB_TOO_SMALL:
        return "the temporary memory is too small";
    default:
        return "the kernel did not run";
    }
}

/* Checks the op's rules on its tensors without data when the model is loaded. */
Error KernelProgram::check(Node &node) const {
    opdb_report found;
    found.n = found.dropped = 0;
    opdb_shapes shapes;
    const opdb_status status = node.entry->infer(&node.op, &shapes, &found);
    if (status == OPDB_INVALID)
        return refused(Error::InvalidProgram, node.op.op, found);
    if (status == OPDB_OK && shapes.n != node.op.num_outputs)
        return fault("the op has another number of outputs", node.op.op);
    for (size_t i = 0; status == OPDB_OK && i < shapes.n; ++i) {
        const opdb_tensor &out = *node.op.outputs[i];
        const size_t bytes = shapes.v[i].rank * sizeof(int64_t);
        if (out.rank != shapes.v[i].rank || (bytes > 0 && memcmp(out.dims, shapes.v[i].dims, bytes) != 0))
            return fault("an output has another shape than follows from the inputs", node.op.op);
    }
    node.op.scratch_size = node.entry->scratch(&node.op);
    return Error::Ok;
}

Error KernelProgram::run(const Ends &ends, const Events &events) {
    const Records<TensorRecord> records = blob_->tensors();
    const Records<OpRecord> ops = blob_->ops();
    for (uint32_t i = 0; i < records.n; ++i)
        if (ends.data(i) != nullptr)
            tensors_[i].data = ends.data(i);
    const bool times = events.times(), values = events.values();
    opdb_report found;
    for (uint32_t i = 0; i < ops.n; ++i) {
        const Node &node = nodes_[i];
        const uint64_t start = times ? now() : 0;
        found.n = found.dropped = 0;
        const opdb_status status = node.entry->run(&node.op, &found);
        if (status == OPDB_INVALID)
            return refused(Error::InvalidArgument, blob_->string(ops[i].name), found);
        if (status != OPDB_OK)
            return fail(status == OPDB_UNSUPPORTED ? Error::NotSupported : Error::InvalidArgument,
                        "%s (%s): %s", blob_->string(ops[i].name), node.op.op, said(status));
        if (times)
            events.time(i, start, now());
        for (size_t k = 0; values && k < node.op.num_outputs; ++k)
            events.value(i, *node.op.outputs[k]);
    }
    return Error::Ok;
}

} // namespace opdb::delegate
