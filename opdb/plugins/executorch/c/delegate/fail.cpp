#include "fail.h"

#include <cstdarg>
#include <cstdio>

#include <executorch/runtime/platform/log.h>

static thread_local char reason[1024];

namespace opdb::delegate {

Error fail(Error error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    ET_LOG(Error, "opdb: %s", reason);
    return error;
}

} // namespace opdb::delegate

extern "C" {
__attribute__((visibility("default"))) const char *opdb_delegate_reason(void) { return reason; }
__attribute__((visibility("default"))) void opdb_delegate_forget(void) { reason[0] = 0; }
}
