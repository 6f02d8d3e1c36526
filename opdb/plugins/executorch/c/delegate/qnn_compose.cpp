#include "qnn_compose.h"

#include <cstdio>

#include "opdb/qnn_htp.h"

namespace opdb::delegate {

namespace {

class Composer {
  public:
    Composer(const Blob &blob, const Ends &ends, QnnLibrary &library, Memory &memory, Qnn_Tensor_t *tensors)
        : blob_(blob), ends_(ends), library_(library), memory_(memory), tensors_(tensors) {}

    Error graph(Qnn_ContextHandle_t context);
    Error all_tensors();
    Error node(const OpRecord &op);
    Error finalize();
    Qnn_GraphHandle_t handle() const { return graph_; }

  private:
    Error answered(const char *what, Qnn_ErrorHandle_t code) {
        return code == 0 ? Error::Ok : library_.failed(Error::Internal, what, code);
    }
    Error create(Qnn_Tensor_t &tensor) {
        return answered(tensor.u.v1.name, library_.api().tensorCreateGraphTensor(graph_, &tensor));
    }
    Error omitted(Qnn_Tensor_t &out);
    Error params(const OpRecord &op, Qnn_Param_t *out);

    const Blob &blob_;
    const Ends &ends_;
    QnnLibrary &library_;
    Memory &memory_;
    Qnn_Tensor_t *const tensors_;
    Qnn_Tensor_t omitted_ = {};
    bool has_omitted_ = false;
    Qnn_GraphHandle_t graph_ = nullptr;
};

Error Composer::graph(Qnn_ContextHandle_t context) {
    const Info &info = blob_.info();
    QnnHtpGraph_CustomConfig_t custom[4] = {};
    uint32_t n = 0;
    if (blob_.string(info.precision)[0] != 0) {
        custom[n].option = QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION;
        custom[n++].u.precision = QNN_PRECISION_FLOAT16;
    }
    if (info.optimization > 0) {
        custom[n].option = QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION;
        custom[n].u.optimizationOption.type = QNN_HTP_GRAPH_OPTIMIZATION_TYPE_FINALIZE_OPTIMIZATION_FLAG;
        custom[n++].u.optimizationOption.floatValue = (float)info.optimization;
    }
    if (info.vtcm_mb > 0) {
        custom[n].option = QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE;
        custom[n++].u.vtcmSizeInMB = info.vtcm_mb;
    }
    if (info.hvx_threads > 0) {
        custom[n].option = QNN_HTP_GRAPH_CONFIG_OPTION_NUM_HVX_THREADS;
        custom[n++].u.numHvxThreads = info.hvx_threads;
    }
    QnnGraph_Config_t configs[4] = {};
    const QnnGraph_Config_t *list[5] = {};
    for (uint32_t i = 0; i < n; ++i) {
        configs[i].option = QNN_GRAPH_CONFIG_OPTION_CUSTOM;
        configs[i].u.customConfig = reinterpret_cast<QnnGraph_CustomConfig_t>(&custom[i]);
        list[i] = &configs[i];
    }
    const char *const name = blob_.string(info.graph);
    return answered("create the graph",
                    library_.api().graphCreate(context, name, n > 0 ? list : nullptr, &graph_));
}

Error Composer::all_tensors() {
    const Records<TensorRecord> records = blob_.tensors();
    for (uint32_t i = 0; i < records.n; ++i) {
        qnn_tensor(blob_, records[i], memory_, tensors_[i]);
        if (!memory_.ok())
            return memory_.error();
        if (records[i].size > UINT32_MAX)
            return fail(Error::NotSupported, "%s: more than the 4 GiB that QNN takes",
                        blob_.name(records[i]));
        if (records[i].type == OPDB_TENSOR_STATIC)
            qnn_data(tensors_[i], ends_.data(i), records[i].size);
        const Error error = create(tensors_[i]);
        if (error != Error::Ok)
            return error;
    }
    return Error::Ok;
}

/* QNN CPU requires the tensor of an omitted input to be registered too. */
Error Composer::omitted(Qnn_Tensor_t &out) {
    if (!has_omitted_) {
        omitted_.version = QNN_TENSOR_VERSION_1;
        omitted_.u.v1.name = "opdb.omitted";
        omitted_.u.v1.type = QNN_TENSOR_TYPE_NULL;
        omitted_.u.v1.dataType = QNN_DATATYPE_FLOAT_32;
        omitted_.u.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
        omitted_.u.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
        const Error error = create(omitted_);
        if (error != Error::Ok)
            return error;
        has_omitted_ = true;
    }
    out = omitted_;
    return Error::Ok;
}

Error Composer::params(const OpRecord &op, Qnn_Param_t *out) {
    for (uint32_t i = 0; i < op.params; ++i) {
        const ParamRecord &record = blob_.params()[op.param + i];
        const size_t room = strlen(blob_.string(op.name)) + strlen(blob_.string(record.name)) + 2;
        char *const name = memory_.list<char>(room);
        if (name == nullptr)
            return memory_.error();
        (void)snprintf(name, room, "%s.%s", blob_.string(op.name), blob_.string(record.name));
        Error error = qnn_param(blob_, record, name, memory_, out[i]);
        if (error == Error::Ok && out[i].paramType == QNN_PARAMTYPE_TENSOR)
            error = create(out[i].u.tensorParam);
        if (error != Error::Ok)
            return error;
    }
    return Error::Ok;
}

Error Composer::node(const OpRecord &op) {
    Qnn_Tensor_t *const inputs = memory_.list<Qnn_Tensor_t>(op.inputs);
    Qnn_Tensor_t *const outputs = memory_.list<Qnn_Tensor_t>(op.outputs);
    Qnn_Param_t *const made = memory_.list<Qnn_Param_t>(op.params);
    if (!memory_.ok())
        return memory_.error();
    for (uint32_t i = 0; i < op.inputs; ++i) {
        const uint32_t t = blob_.refs(op.input)[i];
        const Error error = t == NONE ? omitted(inputs[i]) : (inputs[i] = tensors_[t], Error::Ok);
        if (error != Error::Ok)
            return error;
    }
    for (uint32_t i = 0; i < op.outputs; ++i)
        outputs[i] = tensors_[blob_.refs(op.output)[i]];
    const Error error = params(op, made);
    if (error != Error::Ok)
        return error;
    Qnn_OpConfig_t config = {};
    config.version = QNN_OPCONFIG_VERSION_1;
    config.u.v1 = {blob_.string(op.name),
                   blob_.string(op.package),
                   blob_.string(op.type),
                   op.params,
                   made,
                   op.inputs,
                   inputs,
                   op.outputs,
                   outputs};
    return answered(blob_.string(op.name), library_.api().graphAddNode(graph_, config));
}

Error Composer::finalize() {
    return answered("finalize the graph", library_.api().graphFinalize(graph_, nullptr, nullptr));
}

} // namespace

Error qnn_compose(const Blob &blob, const Ends &ends, QnnLibrary &library, Qnn_ContextHandle_t context,
                  Memory &memory, Qnn_Tensor_t *tensors, Qnn_GraphHandle_t *out) {
    const std::lock_guard<std::mutex> calls(library.lock());
    Composer composer(blob, ends, library, memory, tensors);
    Error error = composer.graph(context);
    if (error == Error::Ok)
        error = composer.all_tensors();
    for (uint32_t i = 0; error == Error::Ok && i < blob.ops().n; ++i)
        error = composer.node(blob.ops()[i]);
    if (error == Error::Ok)
        error = composer.finalize();
    *out = composer.handle();
    return error;
}

} // namespace opdb::delegate
