/* Where the data of each tensor is: the program's arguments, buffers that the delegate keeps, constants. */
#ifndef OPDB_DELEGATE_ENDS_H
#define OPDB_DELEGATE_ENDS_H

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/core/span.h>

#include "blob.h"
#include "constants.h"
#include "memory.h"

namespace opdb::delegate {

class Ends {
  public:
    /* Takes memory for buffers and for outputs of the graph that are none of the program's. */
    Error prepare(const Blob &blob, const Constants &constants, Memory &memory);
    /* Points the tensors at the arguments' memory, which fits the records or is refused. */
    Error bind(executorch::runtime::Span<executorch::runtime::EValue *> args);
    /* After a run: writes the outputs that the graph did not, and makes new buffers the next run's. */
    void finish(executorch::runtime::Span<executorch::runtime::EValue *> args);

    /* Of a tensor by its record: NULL for one inside the graph. */
    void *data(uint32_t tensor) const { return data_[tensor]; }

  private:
    enum : uint8_t { NOBODY, ARGUMENT, BUFFER };
    enum Way : uint8_t { IN_PLACE, COPIED, CONVERTED };
    Error keep_buffers(const Constants &constants, Memory &memory);
    Error own_arguments(Memory &memory);
    Error own_rest(Memory &memory);

    const Blob *blob_ = nullptr;
    void **data_ = nullptr;
    uint8_t *owner_ = nullptr; /* of a tensor at an end: whose memory it is in */
    Way *way_ = nullptr;       /* by argument: how its memory and the tensor's become one */
};

} // namespace opdb::delegate

#endif
