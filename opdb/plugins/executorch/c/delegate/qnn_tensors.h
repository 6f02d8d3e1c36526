/* Records of a blob as QNN's structs. */
#ifndef OPDB_DELEGATE_QNN_TENSORS_H
#define OPDB_DELEGATE_QNN_TENSORS_H

#include "constants.h"
#include "memory.h"
#include "opdb/qnn_abi.h"

namespace opdb::delegate {

/* A tensor without its data. `memory` tells if there was memory for it. */
void qnn_tensor(const Blob &blob, const TensorRecord &record, Memory &memory, Qnn_Tensor_t &out);

/* Points a tensor at its data. */
void qnn_data(Qnn_Tensor_t &tensor, const void *data, uint64_t size);

/* A parameter; a tensor parameter becomes a static tensor called `tensor` with its values. */
Error qnn_param(const Blob &blob, const ParamRecord &record, const char *tensor, Memory &memory,
                Qnn_Param_t &out);

} // namespace opdb::delegate

#endif
