#include "qnn_program.h"

#include <cctype>
#include <cstdio>

#include "qnn_compose.h"

namespace opdb::delegate {

QnnProgram::~QnnProgram() {
    if (library_ == nullptr)
        return;
    {
        const std::lock_guard<std::mutex> calls(library_->lock());
        profile_.close(*library_);
        if (composed_ != nullptr)
            (void)library_->api().contextFree(composed_, nullptr);
    }
    if (context_ != nullptr)
        context_->close();
    else
        library_->close();
}

Error QnnProgram::prepare(const Blob &blob, Constants &constants, const Ends &ends, const char *folders,
                          Memory &memory) {
    blob_ = &blob;
    const Info &info = blob.info();
    const char *const backend = blob.string(info.backend);
    char file[64] = "libQnn"; /* the SDK's names, e.g. libQnnHtp.so for HTP */
    size_t at = strlen(file);
    for (const char *c = backend; *c != 0 && at + 4 < sizeof file; ++c)
        file[at++] = (char)(c == backend ? toupper(*c) : tolower(*c));
    (void)snprintf(file + at, sizeof file - at, ".so");
    const bool context = blob.payload() == Payload::CONTEXT;
    const QnnTarget target = {file, context ? blob.string(info.build_id) : "",
                              info.soc_model == NONE ? 0 : info.soc_model};
    tensors_ = memory.list<Qnn_Tensor_t>(blob.tensors().n);
    profile_.prepare(blob, memory);
    if (!memory.ok())
        return memory.error();
    const Error error =
        context ? load(target, constants, folders, memory) : compose(target, ends, folders, memory);
    if (error != Error::Ok)
        return error;
    list_ends(memory);
    return memory.error();
}

Error QnnProgram::load(const QnnTarget &target, Constants &constants, const char *folders, Memory &memory) {
    const Info &info = blob_->info();
    const uint8_t *const binary = constants.context() + info.binary_offset;
    uint8_t digest[SHA256_BYTES];
    sha256(binary, info.binary_size, digest);
    const Error error = QnnContext::open(target, folders, binary, info.binary_size, digest, &context_);
    if (error != Error::Ok)
        return error;
    library_ = &context_->library();
    constants.free_context();
    const Records<TensorRecord> records = blob_->tensors();
    for (uint32_t i = 0; i < records.n; ++i)
        qnn_tensor(*blob_, records[i], memory, tensors_[i]);
    return context_->graph(blob_->string(info.graph), &graph_);
}

Error QnnProgram::compose(const QnnTarget &target, const Ends &ends, const char *folders, Memory &memory) {
    const Error error = QnnLibrary::open(target, folders, &library_);
    if (error != Error::Ok)
        return error;
    {
        const std::lock_guard<std::mutex> calls(library_->lock());
        const Qnn_ErrorHandle_t code =
            library_->api().contextCreate(library_->backend(), library_->device(), nullptr, &composed_);
        if (code != 0) {
            composed_ = nullptr;
            return library_->failed(Error::Internal, "create a context", code);
        }
    }
    return qnn_compose(*blob_, ends, *library_, composed_, memory, tensors_, &graph_);
}

/* The ends of the graph in the order of the blob. */
void QnnProgram::list_ends(Memory &memory) {
    const Records<TensorRecord> records = blob_->tensors();
    for (const TensorRecord &r : records) {
        num_inputs_ += r.type == OPDB_TENSOR_APP_WRITE;
        num_outputs_ += r.type == OPDB_TENSOR_APP_READ;
    }
    inputs_ = memory.list<Qnn_Tensor_t>(num_inputs_);
    outputs_ = memory.list<Qnn_Tensor_t>(num_outputs_);
    input_ = memory.list<uint32_t>(num_inputs_);
    output_ = memory.list<uint32_t>(num_outputs_);
    uint32_t in = 0, out = 0;
    for (uint32_t i = 0; memory.ok() && i < records.n; ++i) {
        if (records[i].type == OPDB_TENSOR_APP_WRITE) {
            input_[in] = i;
            inputs_[in++] = tensors_[i];
        } else if (records[i].type == OPDB_TENSOR_APP_READ) {
            output_[out] = i;
            outputs_[out++] = tensors_[i];
        }
    }
}

static uint64_t size_of(const Blob &blob, uint32_t tensor) {
    const TensorRecord &r = blob.tensors()[tensor];
    uint64_t bytes = 0;
    return bytes_of(blob.words(r.dims), r.rank, width_of(r.dtype), &bytes) ? bytes : 0;
}

void QnnProgram::point(const Ends &ends) {
    for (uint32_t i = 0; i < num_inputs_; ++i)
        qnn_data(inputs_[i], ends.data(input_[i]), size_of(*blob_, input_[i]));
    for (uint32_t i = 0; i < num_outputs_; ++i)
        qnn_data(outputs_[i], ends.data(output_[i]), size_of(*blob_, output_[i]));
}

Error QnnProgram::run(const Ends &ends, const Events &events) {
    point(ends);
    {
        const std::lock_guard<std::mutex> calls(library_->lock());
        const Qnn_ProfileHandle_t profile = events.times() ? profile_.open(*library_) : nullptr;
        const uint64_t start = profile != nullptr ? now() : 0;
        const Qnn_ErrorHandle_t code = library_->api().graphExecute(graph_, inputs_, num_inputs_, outputs_,
                                                                    num_outputs_, profile, nullptr);
        if (code != 0)
            return library_->failed(Error::Internal, blob_->string(blob_->info().graph), code);
        if (profile != nullptr)
            profile_.report(*library_, start, now(), events);
    }
    if (events.values())
        report_values(ends, events);
    return Error::Ok;
}

/* The outputs of the graph; all tensors if it was lowered for debugging. */
void QnnProgram::report_values(const Ends &ends, const Events &events) const {
    const Records<OpRecord> ops = blob_->ops();
    for (uint32_t i = 0; i < ops.n; ++i)
        for (uint32_t k = 0; k < ops[i].outputs; ++k) {
            const uint32_t t = blob_->refs(ops[i].output)[k];
            const TensorRecord &r = blob_->tensors()[t];
            opdb_tensor shown = {};
            shown.rank = r.rank;
            shown.dims = blob_->words(r.dims);
            shown.dtype = static_cast<enum opdb_dtype>(r.dtype);
            shown.data = r.type == OPDB_TENSOR_APP_READ ? ends.data(t) : nullptr;
            events.value(i, shown); /* one without data is left out */
        }
}

} // namespace opdb::delegate
