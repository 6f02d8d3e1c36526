/* QNN's libraries: found, opened once for the process, one backend and device for all that use them. */
#ifndef OPDB_DELEGATE_QNN_LIBRARY_H
#define OPDB_DELEGATE_QNN_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "fail.h"
#include "opdb/qnn_abi.h"

namespace opdb::delegate {

/* The target of a context binary. */
struct QnnTarget {
    const char *file;     /* of the library, e.g. libQnnCpu.so; no folder */
    const char *build_id; /* "" if the binary runs on any build */
    uint32_t soc_model;   /* 0: the backend has no chips */
};

/* A backend of one library.  Calls into a library are made one at a time: whoever calls holds `lock`. */
class QnnLibrary {
  public:
    /* The library of this target: from `folders` (separated as in PATH), else from where the loader looks.
     * Returns an open one again. Whoever opens it closes it. */
    static Error open(const QnnTarget &target, const char *folders, QnnLibrary **out);
    void close();

    const QnnInterface_Functions_t &api() const { return qnn_->api; }
    Qnn_BackendHandle_t backend() const { return backend_; }
    Qnn_DeviceHandle_t device() const { return device_; }
    const char *build_id() const { return build_id_; }
    const char *path() const { return path_; }
    std::mutex &lock() { return lock_; }

    /* Fails with QNN's code, QNN's text for it, and the first error that it logged since the last call. */
    Error failed(Error error, const char *what, Qnn_ErrorHandle_t code) const;

  private:
    QnnLibrary() = default;
    ~QnnLibrary();
    static QnnLibrary *loaded(const char *path, char *why, size_t size);
    bool is(const QnnTarget &target) const;
    Error start(uint32_t soc_model);
    Error create_device(uint32_t soc_model);
    void stop();

    QnnLibrary *next_ = nullptr; /* in the list of all libraries */
    const QnnInterface_t *qnn_ = nullptr;
    char path_[4096] = "";
    char build_id_[128] = "";
    uint32_t soc_model_ = 0;
    size_t users_ = 0;
    Qnn_LogHandle_t log_ = nullptr;
    Qnn_BackendHandle_t backend_ = nullptr;
    Qnn_DeviceHandle_t device_ = nullptr;
    std::mutex lock_;
};

} // namespace opdb::delegate

#endif
