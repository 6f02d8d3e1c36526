/* The location of each tensor's data: the program's arguments, buffers that the delegate keeps, constants. */
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
    /* Takes memory for buffers and for outputs of the graph that the program does not have. */
    Error prepare(const Blob &blob, const Constants &constants, Memory &memory);
    /* Points the tensors at the arguments' memory; refuses memory that does not match the records. */
    Error bind(executorch::runtime::Span<executorch::runtime::EValue *> args);
    /* After a run: writes the outputs that the graph did not, and hands new buffers to the next run. */
    void finish(executorch::runtime::Span<executorch::runtime::EValue *> args);

    /* The data of a tensor by its record; NULL for one inside the graph. */
    void *data(uint32_t tensor) const { return data_[tensor]; }

  private:
    enum : uint8_t { NOBODY, ARGUMENT, BUFFER };
    enum Way : uint8_t { IN_PLACE, COPIED, CONVERTED };
    Error keep_buffers(const Constants &constants, Memory &memory);
    Error own_arguments(Memory &memory);
    Error own_rest(Memory &memory);

    const Blob *blob_ = nullptr;
    void **data_ = nullptr;
    uint8_t *owner_ = nullptr; /* of a tensor at an end: the owner of its memory */
    Way *way_ = nullptr;       /* by argument: how its memory maps to the tensor's */
};

} // namespace opdb::delegate

#endif
