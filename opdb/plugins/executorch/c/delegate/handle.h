/* A loaded blob. */
#ifndef OPDB_DELEGATE_HANDLE_H
#define OPDB_DELEGATE_HANDLE_H

#include "kernel_program.h"
#include "program.h"
#include "qnn_program.h"

namespace opdb::delegate {

class Handle {
  public:
    /* `processed` has to stay: records and constants are read in place. `folders`: with QNN's libraries. */
    static Error make(executorch::runtime::BackendInitContext &context,
                      const executorch::runtime::FreeableBuffer &processed, const char *folders,
                      Handle **out);
    ~Handle();
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;

    Error execute(EventTracer *tracer, executorch::runtime::Span<executorch::runtime::EValue *> args);

  private:
    Handle() = default;
    Error prepare(executorch::runtime::BackendInitContext &context,
                  const executorch::runtime::FreeableBuffer &processed, const char *folders, Memory &memory);
    Error start(const char *folders, Memory &memory);

    Blob blob_;
    Constants constants_;
    Ends ends_;
    Program *program_ = nullptr;
    int32_t instruction_ = UNKNOWN_INSTRUCTION;
};

} // namespace opdb::delegate

#endif
