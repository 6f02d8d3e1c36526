/* The reason why a call of the backend failed: written to ExecuTorch's log and kept for the thread. */
#ifndef OPDB_DELEGATE_FAIL_H
#define OPDB_DELEGATE_FAIL_H

#include <executorch/runtime/core/error.h>

namespace opdb::delegate {

using executorch::runtime::Error;

/* Logs "opdb: <reason>" and returns `error`. */
Error fail(Error error, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace opdb::delegate

extern "C" {
/* The last reason of this thread; "" before the first failure. */
const char *opdb_delegate_reason(void);
/* Forgets it. */
void opdb_delegate_forget(void);
}

#endif
