/* A graph composed through QNN's interface when the model is loaded. */
#ifndef OPDB_DELEGATE_QNN_COMPOSE_H
#define OPDB_DELEGATE_QNN_COMPOSE_H

#include "ends.h"
#include "qnn_library.h"
#include "qnn_tensors.h"

namespace opdb::delegate {

/* Adds the blob's tensors and ops to a graph of `context` and finalizes it.  `tensors`: one for each TENSORS
 * record; the library reads them as long as the context lives and sets their numbers. */
Error qnn_compose(const Blob &blob, const Ends &ends, QnnLibrary &library, Qnn_ContextHandle_t context,
                  Memory &memory, Qnn_Tensor_t *tensors, Qnn_GraphHandle_t *out);

} // namespace opdb::delegate

#endif
