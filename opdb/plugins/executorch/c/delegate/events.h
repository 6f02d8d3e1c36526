/* Records times, cycles and values of a delegate's ops for ExecuTorch's event tracer (ETDump). */
#ifndef OPDB_DELEGATE_EVENTS_H
#define OPDB_DELEGATE_EVENTS_H

#include <cstdint>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer.h>

#include "fail.h"
#include "opdb/runtime.h"

namespace opdb::delegate {

using executorch::runtime::EventTracer;

enum { UNKNOWN_INSTRUCTION = -1 };

/* The events of one execution; nothing is done without a tracer.
 *
 * A runtime that was compiled without the tracer's hooks (that of ExecuTorch's wheel is) tells the tracer
 * neither that an execution begins nor which instruction runs: both are done here then, by `instruction`, the
 * place of this delegate's call in the method's plan (see opdb_delegate_instructions). */
class Events {
  public:
    Events(EventTracer *tracer, int32_t instruction);
    ~Events();
    Events(const Events &) = delete;
    Events &operator=(const Events &) = delete;

    bool times() const;
    bool values() const;
    /* The time of an op by its position in the blob, which is its delegate debug id; in ticks of ExecuTorch's
     * clock. */
    void time(uint32_t op, uint64_t start, uint64_t end, const char *metadata = nullptr) const;
    /* The value of a tensor that the op computed; left out if ExecuTorch lacks the data type. */
    void value(uint32_t op, const opdb_tensor &tensor) const;

  private:
    EventTracer *const tracer_;
    bool placed_ = false;
};

/* Nanoseconds -> ticks of ExecuTorch's clock, and its time. */
uint64_t ticks_of(double nanoseconds);
uint64_t now();

/* The next execution starts a new block of events: a program was loaded. */
void forget_blocks();

} // namespace opdb::delegate

#endif
