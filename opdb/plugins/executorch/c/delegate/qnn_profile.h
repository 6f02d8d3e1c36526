/* QNN's report about an execution, by op of the blob. */
#ifndef OPDB_DELEGATE_QNN_PROFILE_H
#define OPDB_DELEGATE_QNN_PROFILE_H

#include "blob.h"
#include "events.h"
#include "memory.h"
#include "qnn_library.h"

namespace opdb::delegate {

class QnnProfile {
  public:
    QnnProfile() = default;
    QnnProfile(const QnnProfile &) = delete;
    QnnProfile &operator=(const QnnProfile &) = delete;

    void prepare(const Blob &blob, Memory &memory);
    /* The profile handle to execute with; NULL, with the reason in the log, if the library makes none.  The
     * lock is held here and below. */
    Qnn_ProfileHandle_t open(QnnLibrary &library);
    /* Reads the data of the execution that has just ended, which took the ticks from `start` to `end`. */
    void report(QnnLibrary &library, uint64_t start, uint64_t end, const Events &events);
    void close(QnnLibrary &library);

  private:
    struct Figure {
        uint32_t type, unit;
        double value;
        const char *name;
    };
    bool figure(QnnLibrary &library, QnnProfile_EventId_t event, Figure &out) const;
    void walk(QnnLibrary &library, const QnnProfile_EventId_t *events, uint32_t n, int depth);
    void add(const Figure &figure);

    const Blob *blob_ = nullptr;
    Qnn_ProfileHandle_t handle_ = nullptr;
    bool extended_ = false;
    double *of_op_ = nullptr; /* cycles, or microseconds */
    double cycles_ = 0;       /* of the whole execution; 0: the library counts none */
    double microseconds_ = 0; /* of the accelerator, else of the whole call */
    bool accelerator_ = false;
};

} // namespace opdb::delegate

#endif
