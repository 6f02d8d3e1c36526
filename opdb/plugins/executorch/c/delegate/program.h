/* A loaded blob, ready to run. */
#ifndef OPDB_DELEGATE_PROGRAM_H
#define OPDB_DELEGATE_PROGRAM_H

#include "ends.h"
#include "events.h"

namespace opdb::delegate {

/* A graph that is ready to run.  Its memory is ExecuTorch's; the destructor releases everything else. */
class Program {
  public:
    virtual ~Program() = default;
    /* One run on the data of `ends`.  Allocates nothing unless events are asked for. */
    virtual Error run(const Ends &ends, const Events &events) = 0;
};

} // namespace opdb::delegate

#endif
