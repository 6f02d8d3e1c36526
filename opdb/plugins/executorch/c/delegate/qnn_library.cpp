#include "qnn_library.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <unistd.h>

#include "opdb/qnn_htp.h"

namespace opdb::delegate {

enum { INVALID_CONFIG = 14001 /* QNN_DEVICE_ERROR_INVALID_CONFIG: the library reads another layout */ };

/* Guards opening and closing of all libraries; the `lock_` of one is taken while holding it. */
static std::mutex opening;
static QnnLibrary *libraries; /* loaded ones are never unloaded: they keep threads and handlers at exit */

/* The first error that any library logged since the last call.  QNN gives its callback no user data. */
static std::mutex logging;
static char logged[256];

static void forget_log() {
    const std::lock_guard<std::mutex> held(logging);
    logged[0] = 0;
}

static void hear(const char *format, QnnLog_Level_t level, uint64_t, va_list args) {
    const std::lock_guard<std::mutex> held(logging);
    if (level != QNN_LOG_LEVEL_ERROR || logged[0] != 0)
        return;
    (void)vsnprintf(logged, sizeof logged, format, args);
    for (char *end = logged + strlen(logged); end > logged && (end[-1] == '\n' || end[-1] == ' ');)
        *--end = 0;
}

Error QnnLibrary::failed(Error error, const char *what, Qnn_ErrorHandle_t code) const {
    const unsigned number = (unsigned)(code & 0xffff);
    const char *words = nullptr;
    if (qnn_->api.errorGetMessage == nullptr || qnn_->api.errorGetMessage(number, &words) != 0 || !words)
        words = "no words for it";
    char said[sizeof logged];
    {
        const std::lock_guard<std::mutex> held(logging);
        memcpy(said, logged, sizeof said);
        logged[0] = 0;
    }
    return fail(error, "%s: %s: error %u (%s)%s%s", path_, what, number, words,
                said[0] ? "; it logged: " : "", said);
}

/* The library at `path`; NULL and the reason if it cannot be used. `opening` is held. */
QnnLibrary *QnnLibrary::loaded(const char *path, char *why, size_t size) {
    for (QnnLibrary *known = libraries; known != nullptr; known = known->next_)
        if (strcmp(known->path_, path) == 0)
            return known;
    typedef Qnn_ErrorHandle_t (*get_providers)(const QnnInterface_t ***, uint32_t *);
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *const symbol = handle == nullptr ? nullptr : dlsym(handle, "QnnInterface_getProviders");
    if (symbol == nullptr) {
        const char *const said = dlerror();
        (void)snprintf(why, size, "%s", said != nullptr ? said : path);
        return nullptr;
    }
    const QnnInterface_t **providers = nullptr;
    uint32_t n = 0;
    const char *build_id = nullptr;
    const get_providers get = reinterpret_cast<get_providers>(symbol);
    if (get(&providers, &n) != 0 || n == 0 || providers == nullptr || providers[0] == nullptr) {
        (void)snprintf(why, size, "%s: QnnInterface_getProviders hands out no interface", path);
        return nullptr;
    }
    const Qnn_Version_t api = providers[0]->apiVersion.coreApiVersion;
    if (api.major != 2 || api.minor < 18) {
        (void)snprintf(why, size, "%s: its core API is %u.%u; opdb calls 2.18 and later of 2", path,
                       api.major, api.minor);
        return nullptr;
    }
    QnnLibrary *const made = new (std::nothrow) QnnLibrary;
    if (made == nullptr || strlen(path) >= sizeof made->path_) {
        delete made;
        (void)snprintf(why, size, "%s: no memory for it", path);
        return nullptr;
    }
    made->qnn_ = providers[0];
    strcpy(made->path_, path);
    if (made->qnn_->api.backendGetBuildId(&build_id) == 0 && build_id != nullptr)
        (void)snprintf(made->build_id_, sizeof made->build_id_, "%s", build_id);
    made->next_ = libraries;
    return libraries = made;
}

QnnLibrary::~QnnLibrary() = default;

bool QnnLibrary::is(const QnnTarget &target) const {
    return target.build_id[0] == 0 || strcmp(target.build_id, build_id_) == 0;
}

Error QnnLibrary::open(const QnnTarget &target, const char *folders, QnnLibrary **out) {
    if (target.file[0] == 0 || strchr(target.file, '/') != nullptr)
        return fail(Error::InvalidProgram,
                    "the blob names the library \"%s\"; a name without folder is wanted", target.file);
    const std::lock_guard<std::mutex> held(opening);
    char why[512] = "", path[4096];
    const char *other = nullptr;
    for (const char *at = folders; at != nullptr;) {
        const char *const end = strchr(at, ':');
        const size_t length = end != nullptr ? (size_t)(end - at) : strlen(at);
        /* An empty list, or none at all, leaves the search to the loader. */
        const int wrote = length == 0 ? snprintf(path, sizeof path, "%s", target.file)
                                      : snprintf(path, sizeof path, "%.*s/%s", (int)length, at, target.file);
        at = end != nullptr ? end + 1 : nullptr;
        if (wrote < 0 || (size_t)wrote >= sizeof path || (length > 0 && access(path, R_OK) != 0))
            continue;
        QnnLibrary *const found = loaded(path, why, sizeof why);
        if (found == nullptr || !found->is(target)) {
            other = found != nullptr && other == nullptr ? found->build_id_ : other;
            continue;
        }
        const Error error = found->start(target.soc_model);
        if (error != Error::Ok)
            return error;
        *out = found;
        return Error::Ok;
    }
    if (other != nullptr)
        return fail(
            Error::DelegateInvalidCompatibility,
            "the blob was made by build %s of %s, here is %s; lower the model again with this library, or "
            "name the folder with the other in the option qnn_libraries or in OPDB_QNN_LIBRARIES",
            target.build_id, target.file, other);
    return fail(
        Error::NotFound,
        "%s: not found in \"%s\"%s%s; name the folder with QNN's libraries in the option qnn_libraries or "
        "in OPDB_QNN_LIBRARIES",
        target.file, folders, why[0] ? ": " : "", why);
}

/* Adds a user; the first one creates the backend. `opening` is held. */
Error QnnLibrary::start(uint32_t soc_model) {
    const std::lock_guard<std::mutex> held(lock_);
    if (users_ > 0) {
        if (soc_model != soc_model_)
            return fail(
                Error::InvalidState,
                "%s is open for the SoC number %u in this process; a blob for %u needs another process",
                path_, soc_model_, soc_model);
        ++users_;
        return Error::Ok;
    }
    forget_log();
    Qnn_ErrorHandle_t code = api().logCreate(hear, QNN_LOG_LEVEL_ERROR, &log_);
    if (code != 0)
        log_ = nullptr; /* it runs without */
    code = api().backendCreate(log_, nullptr, &backend_);
    if (code != 0) {
        backend_ = nullptr;
        const Error error = failed(Error::Internal, "create its backend", code);
        stop();
        return error;
    }
    if (soc_model != 0) {
        const Error error = create_device(soc_model);
        if (error != Error::Ok) {
            stop();
            return error;
        }
    }
    soc_model_ = soc_model;
    users_ = 1;
    return Error::Ok;
}

/* Libraries read the number of the chip at byte 4 (up to 2.43, and 2.49) or 8; the other one is 0. */
Error QnnLibrary::create_device(uint32_t soc_model) {
    const bool old = qnn_->apiVersion.coreApiVersion.minor <= 32;
    Qnn_ErrorHandle_t first = 0;
    for (int i = 0; i < 2; ++i) {
        union {
            uint64_t zeros[4];
            QnnHtpDevice_CustomConfig_2_43_t at_4;
            QnnHtpDevice_CustomConfig_t at_8;
        } custom = {{0, 0, 0, 0}};
        if (old == (i == 0)) {
            custom.at_4.option = QNN_HTP_DEVICE_CONFIG_OPTION_SOC;
            custom.at_4.u.socModel = soc_model;
        } else {
            custom.at_8.option = QNN_HTP_DEVICE_CONFIG_OPTION_SOC;
            custom.at_8.u.socModel = soc_model;
        }
        QnnDevice_Config_t config = {QNN_DEVICE_CONFIG_OPTION_CUSTOM, {&custom}};
        const QnnDevice_Config_t *configs[] = {&config, nullptr};
        const Qnn_ErrorHandle_t code = api().deviceCreate(log_, configs, &device_);
        if (code == 0)
            return Error::Ok;
        device_ = nullptr;
        first = i == 0 ? code : first;
        if ((code & 0xffff) != INVALID_CONFIG)
            break;
    }
    return failed(Error::Internal, "create its device", first);
}

void QnnLibrary::stop() {
    if (device_ != nullptr)
        (void)api().deviceFree(device_);
    if (backend_ != nullptr)
        (void)api().backendFree(backend_);
    if (log_ != nullptr)
        (void)api().logFree(log_);
    device_ = backend_ = log_ = nullptr;
}

void QnnLibrary::close() {
    const std::lock_guard<std::mutex> held(opening);
    const std::lock_guard<std::mutex> calls(lock_);
    if (--users_ == 0)
        stop();
}

} // namespace opdb::delegate
