#include "blob.h"

#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "sha256.h"

namespace opdb::delegate {

static const uint8_t MAGIC[8] = {0x8a, 'O', 'P', 'D', 'B', 'E', 'T', '\n'};
static const size_t RECORD[SECTIONS_END] = {0,
                                            1,
                                            8,
                                            8,
                                            4,
                                            4,
                                            4,
                                            sizeof(Info),
                                            sizeof(Arg),
                                            sizeof(TensorRecord),
                                            sizeof(QuantRecord),
                                            sizeof(OpRecord),
                                            sizeof(ParamRecord),
                                            sizeof(StateRecord),
                                            sizeof(NamedRecord),
                                            1,
                                            1};

static uint64_t aligned(uint64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

static Error malformed(const char *what, const char *name = "") {
    return fail(Error::InvalidProgram, "the blob is malformed: %s%s%s", what, name[0] ? ": " : "", name);
}

size_t width_of(uint32_t dtype) {
    switch (dtype) {
    case OPDB_I4:
    case OPDB_U4:
    case OPDB_SQ4:
    case OPDB_UQ4:
    case OPDB_I8:
    case OPDB_U8:
    case OPDB_SQ8:
    case OPDB_UQ8:
    case OPDB_BOOL8:
        return 1;
    case OPDB_I16:
    case OPDB_U16:
    case OPDB_F16:
    case OPDB_BF16:
    case OPDB_SQ16:
    case OPDB_UQ16:
        return 2;
    case OPDB_I32:
    case OPDB_U32:
    case OPDB_F32:
    case OPDB_SQ32:
    case OPDB_UQ32:
        return 4;
    case OPDB_I64:
    case OPDB_U64:
    case OPDB_F64:
        return 8;
    default:
        return 0;
    }
}

size_t item_size(uint32_t scalar_type) {
    static const uint8_t sizes[] = {1, 1, 2, 4, 8, 2, 4, 8, 0, 0, 0, 1, 0, 0, 0,
                                    2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 8};
    return scalar_type < sizeof sizes ? sizes[scalar_type] : 0;
}

bool narrowed(const Arg &arg, const TensorRecord &tensor) {
    return arg.scalar_type == LONG && tensor.dtype == OPDB_I32;
}

bool bytes_of(const int64_t *dims, uint32_t rank, size_t width, uint64_t *out) {
    const uint64_t most = (uint64_t)1 << 48;
    uint64_t n = width;
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0 || dims[i] > INT32_MAX)
            return false;
        if (dims[i] != 0 && n > most / (uint64_t)dims[i])
            return false;
        n *= (uint64_t)dims[i];
    }
    *out = n;
    return true;
}

Error Blob::read(const uint8_t *data, size_t size) {
    Error error = check_header(data, size);
    if (error == Error::Ok)
        error = check_sections();
    if (error == Error::Ok)
        error = check_info();
    for (uint32_t i = 0; error == Error::Ok && i < quants().n; ++i)
        error = check_quant(quants()[i]);
    for (uint32_t i = 0; error == Error::Ok && i < tensors().n; ++i)
        error = check_tensor(tensors()[i]);
    for (uint32_t i = 0; error == Error::Ok && i < args().n; ++i)
        error = check_arg(i);
    for (uint32_t i = 0; error == Error::Ok && i < params().n; ++i)
        error = check_param(params()[i]);
    for (uint32_t i = 0; error == Error::Ok && i < ops().n; ++i)
        error = check_op(ops()[i]);
    return error == Error::Ok ? check_rest() : error;
}

Error Blob::check_header(const uint8_t *data, size_t size) {
    if (size < sizeof MAGIC || memcmp(data, MAGIC, sizeof MAGIC) != 0)
        return fail(Error::InvalidProgram, "not a blob of opdb's delegate: its first bytes are wrong");
    if (size < sizeof(HeaderRecord))
        return fail(Error::InvalidProgram, "the blob is cut off after %zu bytes, inside its header", size);
    base_ = data;
    const HeaderRecord &head = header();
    if (head.total != size)
        return fail(Error::InvalidProgram,
                    "the blob is damaged or cut off: %zu bytes where its header counts %" PRIu64, size,
                    head.total);
    uint8_t digest[SHA256_BYTES];
    Sha256 sum;
    sum.add(data, offsetof(HeaderRecord, sha256));
    sum.add(data + sizeof(HeaderRecord), size - sizeof(HeaderRecord));
    sum.digest(digest);
    if (memcmp(digest, head.sha256, sizeof digest) != 0)
        return fail(Error::InvalidProgram,
                    "the blob is damaged: its checksum is wrong; lower the model again");
    if (head.format != FORMAT)
        return fail(Error::DelegateInvalidCompatibility,
                    "blob format %u; this backend reads %u: load the one of the opdb "
                    "that wrote it",
                    head.format, (unsigned)FORMAT);
    if (head.header != sizeof(HeaderRecord) || head.sections != SECTIONS_END - 1 ||
        (head.payload != (uint32_t)Payload::CONTEXT && head.payload != (uint32_t)Payload::GRAPH))
        return malformed("its header");
    return Error::Ok;
}

Error Blob::check_sections() {
    const uint64_t total = header().total;
    const SectionRecord *const table = reinterpret_cast<const SectionRecord *>(base_ + sizeof(HeaderRecord));
    uint64_t next = aligned(sizeof(HeaderRecord) + (SECTIONS_END - 1) * sizeof(SectionRecord));
    if (total < next)
        return malformed("its section table");
    for (uint32_t id = 1; id < SECTIONS_END; ++id) {
        const SectionRecord &s = table[id - 1];
        if (s.id != id || s.record != RECORD[id] || s.offset != next || s.size % s.record != 0 ||
            s.offset > total || s.size > total - s.offset || s.size / s.record > INT32_MAX)
            return malformed("its section table");
        offset_[id] = s.offset;
        size_[id] = s.size;
        next = aligned(s.offset + s.size);
    }
    if (next != total)
        return malformed("bytes behind the last section");
    const char *const text = string(0);
    if (size_[STRINGS] == 0 || text[0] != 0 || text[size_[STRINGS] - 1] != 0)
        return malformed("its strings do not begin with the empty one, or do not end");
    return Error::Ok;
}

Error Blob::check_info() const {
    if (size_[INFO] != sizeof(Info))
        return malformed("INFO has one record");
    const Info &i = info();
    for (const uint32_t text : {i.backend, i.soc, i.sdk, i.execution, i.graph, i.package, i.library_version,
                                i.build_id, i.opdb, i.precision})
        if (!is_string(text))
            return malformed("INFO names no string");
    if (i.context != NONE && i.context >= named().n)
        return malformed("INFO names no context");
    const uint64_t size = i.context == NONE ? size_[CONTEXT] : named()[i.context].size;
    if (payload() == Payload::CONTEXT && (i.binary_offset > size || i.binary_size != size - i.binary_offset))
        return malformed("QNN's binary is not the end of the context file");
    return Error::Ok;
}

/* True if the bytes are within DATA, or those of a NAMED record. */
bool Blob::is_held(Held data, uint64_t offset, uint64_t size) const {
    if (data == Held::NAMED)
        return offset < named().n && named()[(uint32_t)offset].size == size;
    return data == Held::HERE && offset % ALIGN == 0 && has(DATA, offset, size, 1);
}

Error Blob::check_tensor(const TensorRecord &t) const {
    if (!is_string(t.name))
        return malformed("a tensor has no name");
    uint64_t bytes = 0;
    if (t.rank > OPDB_MAX_RANK || !has(WORDS, t.dims, t.rank, 8) ||
        !bytes_of(words(t.dims), t.rank, 8, &bytes))
        return malformed("the dimensions of a tensor", name(t));
    if (t.type > OPDB_TENSOR_STATIC || t.type == OPDB_TENSOR_APP_READWRITE)
        return malformed("the type of a tensor", name(t));
    if (t.quant != NONE) {
        if (t.quant >= quants().n)
            return malformed("the encoding of a tensor", name(t));
        if (!fits(quants()[t.quant], t))
            return malformed("the encoding of a tensor does not have as many numbers as its shape asks for",
                             name(t));
    }
    if (!bytes_of(words(t.dims), t.rank, width_of(t.dtype), &bytes) || width_of(t.dtype) == 0)
        return malformed("the data type of a tensor", name(t));
    if (t.data != Held::NOTHING && (!is_held(t.data, t.offset, t.size) || t.size != bytes))
        return malformed("the data of a tensor", name(t));
    return Error::Ok;
}

/* True if an encoding has a scale for each slice or block: libraries and kernels read as many as the shape
 * requires. */
bool Blob::fits(const QuantRecord &q, const TensorRecord &t) const {
    const int64_t *const dims = words(t.dims), *const extra = words(q.extra);
    const bool slices = q.axis < t.rank && q.count == (uint64_t)dims[q.axis];
    uint64_t blocks = 1;
    switch (q.encoding) {
    case OPDB_ENCODING_AXIS_SCALE_OFFSET:
    case OPDB_ENCODING_BW_AXIS_SCALE_OFFSET:
        return slices;
    case OPDB_ENCODING_BLOCK:
        if (q.extras != t.rank)
            return false;
        for (uint32_t i = 0; i < t.rank; ++i) {
            if (extra[i] < 1 || extra[i] > INT32_MAX)
                return false;
            blocks *= (uint64_t)((dims[i] + extra[i] - 1) / extra[i]); /* not more than the elements */
        }
        return q.count == blocks;
    case OPDB_ENCODING_BLOCKWISE_EXPANSION:
        return slices && q.extras >= 3 && extra[0] > 0 && extra[0] <= INT32_MAX &&
               (extra[2] == 8 || extra[2] == 16) && q.extras - 3 == (uint64_t)extra[0] * q.count;
    case OPDB_ENCODING_VECTOR:
        return q.extras == 5;
    default:
        return q.count == 1;
    }
}

Error Blob::check_quant(const QuantRecord &q) const {
    if (q.encoding > OPDB_ENCODING_VECTOR || !has(FLOATS, q.scales, q.count, 4) ||
        !has(INTS, q.offsets, q.count, 4) || !has(WORDS, q.extra, q.extras, 8))
        return malformed("an encoding");
    return Error::Ok;
}

Error Blob::check_arg(uint32_t i) const {
    const Arg &a = args()[i];
    uint64_t bytes = 0, stored = 0;
    if (a.kind > 1 || (i > 0 && a.kind < args()[i - 1].kind))
        return malformed("an argument is neither an input nor an output behind all inputs");
    if (a.rank > OPDB_MAX_RANK || !has(WORDS, a.dims, a.rank, 8) || item_size(a.scalar_type) == 0 ||
        !bytes_of(words(a.dims), a.rank, item_size(a.scalar_type), &bytes))
        return malformed("the type or the dimensions of an argument");
    if (a.constant != NONE && (a.kind == 0 || !has(DATA, (uint64_t)a.constant * ALIGN, bytes, 1)))
        return malformed("the constant of an argument");
    if (a.tensor == NONE)
        return a.kind == 0 || a.constant != NONE ? Error::Ok : malformed("an output that nothing makes");
    if (!is_tensor(a.tensor))
        return malformed("the tensor of an argument");
    const TensorRecord &t = tensors()[a.tensor];
    const size_t width = narrowed(a, t) ? item_size(a.scalar_type) : width_of(t.dtype);
    if (!bytes_of(words(t.dims), t.rank, width, &stored) || width != item_size(a.scalar_type) ||
        stored != bytes)
        return malformed("an argument and its tensor have two sizes", name(t));
    if (a.kind == 0 && t.type != OPDB_TENSOR_APP_WRITE)
        return malformed("an input is not one of the graph", name(t));
    return Error::Ok;
}

Error Blob::check_param(const ParamRecord &p) const {
    uint64_t count = 0;
    if (!is_string(p.name))
        return malformed("a parameter has no name");
    if (!is_string(p.text) || p.rank > OPDB_MAX_RANK || !has(WORDS, p.dims, p.rank, 8) ||
        !has(WORDS, p.ints, p.count, 8) || !has(REALS, p.reals, p.count, 8) ||
        !bytes_of(words(p.dims), p.rank, 1, &count) || count != p.count)
        return malformed("a parameter", string(p.name));
    return Error::Ok;
}

Error Blob::check_op(const OpRecord &op) const {
    for (const uint32_t text : {op.name, op.package, op.type, op.origin})
        if (!is_string(text))
            return malformed("an op names no string");
    if (!has(REFS, op.input, op.inputs, 4) || !has(REFS, op.output, op.outputs, 4) ||
        !has(REFS, op.handle, op.handles, 4) || !has(PARAMS, op.param, op.params, sizeof(ParamRecord)))
        return malformed("an op", string(op.name));
    for (uint32_t i = 0; i < op.inputs; ++i)
        if (refs(op.input)[i] != NONE && !is_tensor(refs(op.input)[i]))
            return malformed("an input of an op", string(op.name));
    for (uint32_t i = 0; i < op.outputs; ++i)
        if (!is_tensor(refs(op.output)[i]))
            return malformed("an output of an op", string(op.name));
    return Error::Ok;
}

Error Blob::check_rest() const {
    for (const NamedRecord &n : named())
        if (!is_string(n.key))
            return malformed("data beside the blob have no key");
    for (const StateRecord &s : states()) {
        uint64_t in = 0, out = 0;
        if (!is_string(s.name) || !is_tensor(s.input) || !is_tensor(s.output))
            return malformed("a buffer");
        const TensorRecord &a = tensors()[s.input], &b = tensors()[s.output];
        if (a.type != OPDB_TENSOR_APP_WRITE || b.type != OPDB_TENSOR_APP_READ || a.dtype != b.dtype ||
            !bytes_of(words(a.dims), a.rank, width_of(a.dtype), &in) ||
            !bytes_of(words(b.dims), b.rank, width_of(b.dtype), &out) || in != out || in != s.size ||
            !is_held(s.data, s.offset, s.size))
            return malformed("a buffer", string(s.name));
    }
    return Error::Ok;
}

} // namespace opdb::delegate
