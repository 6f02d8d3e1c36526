/* See qnn_binding.h.  QNN gives its log callback no user data, and calls it from threads of its own, so
 * each log handle gets one of OPDB_QNN_MAX_LOGS callbacks, each with its own buffer and lock. */
#define _GNU_SOURCE /* RTLD_NODELETE */
#include "qnn_binding.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "opdb/qnn_op_package.h"

typedef Qnn_ErrorHandle_t (*get_providers)(const QnnInterface_t ***, uint32_t *);
typedef Qnn_ErrorHandle_t (*get_system_providers)(const QnnSystemInterface_t ***, uint32_t *);

typedef struct {
    bool taken;
    size_t used;
    size_t dropped;
    char lines[OPDB_QNN_LOG_BYTES];
} log_buffer;

static pthread_mutex_t locks[OPDB_QNN_MAX_LOGS] = {
#define LOCK PTHREAD_MUTEX_INITIALIZER
    LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK,
    LOCK, LOCK, LOCK, LOCK, LOCK, LOCK, LOCK
#undef LOCK
};
static log_buffer buffers[OPDB_QNN_MAX_LOGS];
/* The buffer that this thread emptied last; every call into a library first empties one. */
static __thread int current_log = -1;

/* The function `name` of the library at `path`, which stays loaded; NULL and a reason in `why`. */
static void *find(const char *path, const char *name, char *why, size_t size) {
    /* The libraries keep threads and exit handlers, so they are never unloaded. */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol;

    if (library == NULL) {
        snprintf(why, size, "%s", dlerror());
        return NULL;
    }
    symbol = dlsym(library, name);
    if (symbol == NULL) {
        snprintf(why, size, "it has no function %s", name);
    }
    return symbol;
}

const QnnInterface_t *opdb_qnn_open(const char *path, char *why, size_t size) {
    const QnnInterface_t **providers = NULL;
    uint32_t n = 0;
    get_providers get = NULL;
    void *symbol = find(path, "QnnInterface_getProviders", why, size);

    if (symbol == NULL) {
        return NULL;
    }
    memcpy(&get, &symbol, sizeof get);
    if (get(&providers, &n) != 0 || n == 0 || providers == NULL || providers[0] == NULL) {
        snprintf(why, size, "QnnInterface_getProviders hands out no interface");
        return NULL;
    }
    return providers[0];
}

const QnnSystemInterface_t *opdb_qnn_open_system(const char *path, char *why, size_t size) {
    const QnnSystemInterface_t **providers = NULL;
    uint32_t n = 0;
    get_system_providers get = NULL;
    void *symbol = find(path, "QnnSystemInterface_getProviders", why, size);

    if (symbol == NULL) {
        return NULL;
    }
    memcpy(&get, &symbol, sizeof get);
    if (get(&providers, &n) != 0 || n == 0 || providers == NULL || providers[0] == NULL) {
        snprintf(why, size, "QnnSystemInterface_getProviders hands out no interface");
        return NULL;
    }
    return providers[0];
}

Qnn_ErrorHandle_t opdb_qnn_saver_initialize(const char *path, const QnnSaver_Config_t **configs, char *why,
                                            size_t size) {
    Qnn_ErrorHandle_t (*initialize)(const QnnSaver_Config_t **) = NULL;
    void *symbol = find(path, "QnnSaver_initialize", why, size);

    if (symbol == NULL) {
        return 1000; /* QNN_COMMON_ERROR_NOT_SUPPORTED */
    }
    memcpy(&initialize, &symbol, sizeof initialize);
    return initialize(configs);
}

static void put(int log, int level, const char *format, va_list args) {
    log_buffer *b = &buffers[log];
    size_t room;
    int length;

    pthread_mutex_lock(&locks[log]);
    room = sizeof b->lines - b->used;
    if (b->taken && room > 2) {
        length = vsnprintf(b->lines + b->used + 1, room - 1, format, args);
        if (length >= 0 && (size_t)length < room - 1) {
            b->lines[b->used] = (char)level;
            b->used += (size_t)length + 2;
        } else {
            b->dropped++;
        }
    } else {
        b->dropped++;
    }
    pthread_mutex_unlock(&locks[log]);
}

#define CALLBACK(n)                                                                                          \
    static void callback_##n(const char *format, QnnLog_Level_t level, uint64_t time, va_list args) {        \
        (void)time;                                                                                          \
        put(n, (int)level, format, args);                                                                    \
    }
CALLBACK(0)
CALLBACK(1)
CALLBACK(2)
CALLBACK(3)
CALLBACK(4)
CALLBACK(5)
CALLBACK(6)
CALLBACK(7)
CALLBACK(8)
CALLBACK(9)
CALLBACK(10)
CALLBACK(11)
CALLBACK(12)
CALLBACK(13)
CALLBACK(14)
CALLBACK(15)

static const QnnLog_Callback_t callbacks[OPDB_QNN_MAX_LOGS] = {
    callback_0, callback_1, callback_2,  callback_3,  callback_4,  callback_5,  callback_6,  callback_7,
    callback_8, callback_9, callback_10, callback_11, callback_12, callback_13, callback_14, callback_15};

static int acquire(void) {
    for (int log = 0; log < OPDB_QNN_MAX_LOGS; log++) {
        bool free_one;
        pthread_mutex_lock(&locks[log]);
        free_one = !buffers[log].taken;
        if (free_one) {
            buffers[log].taken = true;
            buffers[log].used = buffers[log].dropped = 0;
        }
        pthread_mutex_unlock(&locks[log]);
        if (free_one) {
            return log;
        }
    }
    return -1;
}

Qnn_ErrorHandle_t opdb_qnn_log_create(const QnnInterface_t *qnn, int level, int *log,
                                      Qnn_LogHandle_t *handle) {
    *log = acquire();
    if (*log < 0) {
        return 1010; /* QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE */
    }
    return qnn->api.logCreate(callbacks[*log], (QnnLog_Level_t)level, handle);
}

size_t opdb_qnn_log_take(int log, char *out, size_t size, size_t *dropped) {
    log_buffer *b = &buffers[log];
    size_t n;

    current_log = log;
    pthread_mutex_lock(&locks[log]);
    n = b->used < size ? b->used : size;
    memcpy(out, b->lines, n);
    *dropped = b->dropped;
    b->used = b->dropped = 0;
    pthread_mutex_unlock(&locks[log]);
    return n;
}

static void package_log(const char *format, QnnLog_Level_t level, uint64_t time, va_list args) {
    (void)time;
    if (current_log >= 0) {
        put(current_log, (int)level, format, args);
    }
}

bool opdb_qnn_package_open(const char *path, const char *provider, const char **name, const char ***ops,
                           uint32_t *num_ops, char *why, size_t size) {
    Qnn_ErrorHandle_t (*provide)(QnnOpPackage_Interface_t *) = NULL;
    QnnOpPackage_Interface_t interface;
    const QnnOpPackage_Info_t *info = NULL;
    void *symbol = find(path, provider, why, size);

    if (symbol == NULL) {
        return false;
    }
    memcpy(&provide, &symbol, sizeof provide);
    memset(&interface, 0, sizeof interface);
    if (provide(&interface) != 0 || interface.interfaceVersion.major != 1 ||
        interface.u.v1_4.getInfo == NULL || interface.u.v1_4.getInfo(&info) != 0 || info == NULL) {
        snprintf(why, size, "its provider hands out no interface of version 1");
        return false;
    }
    *name = info->packageName;
    *ops = info->operationNames;
    *num_ops = info->numOperations;
    if (interface.u.v1_4.logInitialize != NULL) {
        interface.u.v1_4.logInitialize(package_log, QNN_LOG_LEVEL_DEBUG);
    }
    return true;
}

void opdb_qnn_log_release(int log) {
    pthread_mutex_lock(&locks[log]);
    buffers[log].taken = false;
    pthread_mutex_unlock(&locks[log]);
}

Qnn_ErrorHandle_t opdb_qnn_validate(const QnnInterface_t *qnn, Qnn_BackendHandle_t backend,
                                    const Qnn_OpConfig_t *op) {
    return qnn->api.backendValidateOpConfig(backend, *op);
}

Qnn_ErrorHandle_t opdb_qnn_add_node(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph,
                                    const Qnn_OpConfig_t *op) {
    return qnn->api.graphAddNode(graph, *op);
}

Qnn_ErrorHandle_t opdb_qnn_execute(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph,
                                   const Qnn_Tensor_t *inputs, uint32_t n_inputs, Qnn_Tensor_t *outputs,
                                   uint32_t n_outputs, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal,
                                   int log) {
    current_log = log;
    pthread_mutex_lock(&locks[log]);
    buffers[log].used = buffers[log].dropped = 0;
    pthread_mutex_unlock(&locks[log]);
    return qnn->api.graphExecute(graph, inputs, n_inputs, outputs, n_outputs, profile, signal);
}
