/* Stands in for libQnnHtp.so and forwards to the real one, translating the HTP device configuration.
 *
 * A program built against QNN headers up to 2.43 writes QnnHtpDevice_CustomConfig_t with its union at
 * byte 4 (12 bytes); libraries of 2.47 and later read it at byte 8 (16 bytes) and answer 14001,
 * "unknown custom config".  Before an op package is registered, the vendor's symbols become visible to it.
 * Everything else of the function table is passed on unchanged.
 *
 * OPDB_QNN_HTP_REAL holds the absolute path of the vendor's library; estimates.h has another variable.  One
 * symbol is exported, QnnInterface_getProviders.  Safe to call from several threads.
 *
 * Offsets are those of x86-64 and AArch64 (LP64); sources: QnnInterface.h 2.25.0, 2.43 and 2.48.40 (same
 * indices in all three), QnnDevice.h 2.25.0, HTP/QnnHtpDevice.h 2.25.0, HTP/QnnHtpDeviceConfigShared.h
 * 2.48.40; byte 8 in 2.47 by experiment.
 */

#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimates.h"

#define OPDB_REAL "OPDB_QNN_HTP_REAL"
#define OPDB_EXPORT __attribute__((visibility("default")))

typedef uint64_t opdb_error; /* Qnn_ErrorHandle_t */

enum {
    OPDB_QNN_SUCCESS = 0,
    OPDB_QNN_ERROR_MEM_ALLOC = 1002,        /* QNN_COMMON_ERROR_MEM_ALLOC */
    OPDB_QNN_ERROR_NOT_SUPPORTED = 1000,    /* QNN_COMMON_ERROR_NOT_SUPPORTED */
    OPDB_QNN_ERROR_INVALID_ARGUMENT = 1004, /* QNN_COMMON_ERROR_INVALID_ARGUMENT */
    OPDB_MAX_PROVIDERS = 4,                 /* every library seen hands out one */
    OPDB_REGISTER_OP_PACKAGE = 5,           /* index of backendRegisterOpPackage in the function table */
    OPDB_DEVICE_CREATE = 40,                /* index of deviceCreate in the function table */
    OPDB_DEVICE_SET_CONFIG = 41,
    OPDB_MAX_FUNCTIONS = 72,
    OPDB_DEVICE_CONFIG_OPTION_CUSTOM = 0 /* QNN_DEVICE_CONFIG_OPTION_CUSTOM */
};

typedef struct { /* QnnInterface_t: 40 bytes, then the function table */
    uint32_t backend_id;
    const char *provider_name;
    uint32_t core_api[3]; /* major, minor, patch */
    uint32_t backend_api[3];
    opdb_function functions[OPDB_MAX_FUNCTIONS];
} opdb_interface;

typedef struct { /* QnnDevice_Config_t */
    uint32_t option;
    const void *config;
} opdb_device_config;

typedef struct { /* QnnHtpDevice_CustomConfig_t, headers up to 2.43 */
    uint32_t option;
    unsigned char value[8];
} opdb_custom_old;

typedef struct { /* QnnHtpDevice_CustomConfig_t, libraries from 2.47 */
    uint32_t option;
    uint32_t padding;
    unsigned char value[8];
} opdb_custom_new;

typedef char opdb_layouts_are_right[sizeof(opdb_custom_old) == 12 && sizeof(opdb_custom_new) == 16 &&
                                            sizeof(opdb_device_config) == 16 &&
                                            sizeof(opdb_interface) == 40 + 8 * OPDB_MAX_FUNCTIONS
                                        ? 1
                                        : -1];

typedef opdb_error (*opdb_get_providers)(const opdb_interface ***, uint32_t *);
typedef opdb_error (*opdb_device_create)(void *, const opdb_device_config **, void **);
typedef opdb_error (*opdb_device_set_config)(void *, const opdb_device_config **);
typedef opdb_error (*opdb_register)(void *, const char *, const char *, const char *);

OPDB_EXPORT opdb_error QnnInterface_getProviders(const opdb_interface ***providers, uint32_t *n);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static opdb_error state = OPDB_QNN_ERROR_NOT_SUPPORTED;
static opdb_interface copies[OPDB_MAX_PROVIDERS];
static const opdb_interface *list[OPDB_MAX_PROVIDERS];
static uint32_t count;
static opdb_device_create real_device_create;
static opdb_device_set_config real_device_set_config;
static opdb_register real_register;

/* The configurations of one call in the new layout; NULL stands for "nothing to translate". */
typedef struct {
    const opdb_device_config **pointers;
    opdb_device_config *configs;
    opdb_custom_new *customs;
} opdb_repacked;

static void repacked_free(opdb_repacked *r) {
    free((void *)r->pointers);
    free(r->configs);
    free(r->customs);
}

/* Copies the NULL-terminated `old` with every custom configuration in the new layout. */
static opdb_error repack(const opdb_device_config **old, opdb_repacked *r) {
    size_t n = 0;
    memset(r, 0, sizeof *r);
    if (old == NULL) {
        return OPDB_QNN_SUCCESS;
    }
    while (old[n] != NULL) {
        n++;
    }
    r->pointers = calloc(n + 1, sizeof *r->pointers);
    r->configs = calloc(n + 1, sizeof *r->configs);
    r->customs = calloc(n + 1, sizeof *r->customs);
    if (r->pointers == NULL || r->configs == NULL || r->customs == NULL) {
        repacked_free(r);
        return OPDB_QNN_ERROR_MEM_ALLOC;
    }
    for (size_t i = 0; i < n; i++) {
        r->configs[i] = *old[i];
        if (old[i]->option == OPDB_DEVICE_CONFIG_OPTION_CUSTOM && old[i]->config != NULL) {
            const opdb_custom_old *custom = old[i]->config;
            r->customs[i].option = custom->option;
            memcpy(r->customs[i].value, custom->value, sizeof custom->value);
            r->configs[i].config = &r->customs[i];
        }
        r->pointers[i] = &r->configs[i];
    }
    return OPDB_QNN_SUCCESS;
}

static opdb_error device_create(void *logger, const opdb_device_config **config, void **device) {
    opdb_repacked r;
    opdb_error error = repack(config, &r);
    if (error == OPDB_QNN_SUCCESS) {
        error = real_device_create(logger, r.pointers, device);
        repacked_free(&r);
    }
    return error;
}

static opdb_error device_set_config(void *device, const opdb_device_config **config) {
    opdb_repacked r;
    opdb_error error = repack(config, &r);
    if (error == OPDB_QNN_SUCCESS) {
        error = real_device_set_config(device, r.pointers);
        repacked_free(&r);
    }
    return error;
}

/* A package for HTP calls functions of libQnnHtp.so. The loader takes this library for it, so the vendor's
 * symbols must be visible. */
static opdb_error register_op_package(void *backend, const char *path, const char *provider,
                                      const char *target) {
    (void)dlopen(getenv(OPDB_REAL), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    return real_register(backend, path, provider, target);
}

/* Number of functions that every interface of core API 2.`minor` is known to have; 0: not known. */
static size_t known_functions(uint32_t major, uint32_t minor) {
    if (major != 2 || minor < 18) {
        return 0;
    }
    return minor >= 37 ? 72 : minor >= 32 ? 71 : 62; /* 2.18: SDK 2.25.0; 2.32: 2.43; 2.37: 2.48.40 */
}

/* This library stays loaded: the table handed out points into it, and the vendor's library, which carries the
 * same soname, must not answer the next dlopen("libQnnHtp.so") instead of it. */
static void pin(void) {
    Dl_info info;
    if (dladdr((void *)&once, &info) != 0 && info.dli_fname != NULL) {
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

static void copy_interface(const opdb_interface *from, opdb_interface *to) {
    size_t functions = known_functions(from->core_api[0], from->core_api[1]);
    memset(to, 0, sizeof *to);
    memcpy(to, from, offsetof(opdb_interface, functions) + functions * sizeof from->functions[0]);
    if (to->functions[OPDB_DEVICE_CREATE] != NULL) {
        memcpy(&real_device_create, &to->functions[OPDB_DEVICE_CREATE], sizeof real_device_create);
        to->functions[OPDB_DEVICE_CREATE] = (opdb_function)device_create;
    }
    if (to->functions[OPDB_DEVICE_SET_CONFIG] != NULL) {
        memcpy(&real_device_set_config, &to->functions[OPDB_DEVICE_SET_CONFIG],
               sizeof real_device_set_config);
        to->functions[OPDB_DEVICE_SET_CONFIG] = (opdb_function)device_set_config;
    }
    if (to->functions[OPDB_REGISTER_OP_PACKAGE] != NULL) {
        memcpy(&real_register, &to->functions[OPDB_REGISTER_OP_PACKAGE], sizeof real_register);
        to->functions[OPDB_REGISTER_OP_PACKAGE] = (opdb_function)register_op_package;
    }
    opdb_estimates_install(to->functions, (unsigned)functions);
}

static void load(void) {
    const char *path = getenv(OPDB_REAL);
    const opdb_interface **real = NULL;
    uint32_t n = 0;
    opdb_get_providers get = NULL;
    void *symbol;
    void *handle;

    pin();
    if (path == NULL || path[0] != '/') {
        fprintf(stderr, "opdb: OPDB_QNN_HTP_REAL is not the absolute path of QNN's HTP library; "
                        "run: opdb executorch env\n");
        return;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = handle == NULL ? NULL : dlsym(handle, "QnnInterface_getProviders");
    if (symbol == NULL) {
        fprintf(stderr, "opdb: OPDB_QNN_HTP_REAL: %s\n", dlerror());
        return;
    }
    memcpy(&get, &symbol, sizeof get);
    if (get == QnnInterface_getProviders) {
        fprintf(stderr,
                "opdb: OPDB_QNN_HTP_REAL names the forwarding library itself; run: opdb executorch env\n");
        return;
    }
    state = get(&real, &n);
    if (state != OPDB_QNN_SUCCESS) {
        return;
    }
    if (n == 0 || n > OPDB_MAX_PROVIDERS || real == NULL) {
        fprintf(stderr, "opdb: %s hands out %u QNN interfaces; expected 1 to %d\n", path, n,
                OPDB_MAX_PROVIDERS);
        state = OPDB_QNN_ERROR_NOT_SUPPORTED;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (known_functions(real[i]->core_api[0], real[i]->core_api[1]) == 0) {
            fprintf(stderr, "opdb: %s has core API %u.%u; 2.18 or a later 2.x is needed\n", path,
                    real[i]->core_api[0], real[i]->core_api[1]);
            state = OPDB_QNN_ERROR_NOT_SUPPORTED;
            return;
        }
        copy_interface(real[i], &copies[i]);
        list[i] = &copies[i];
    }
    count = n;
}

/* QNN's own entry point; the interfaces live as long as the process. */
opdb_error QnnInterface_getProviders(const opdb_interface ***providers, uint32_t *n) {
    if (providers == NULL || n == NULL) {
        return OPDB_QNN_ERROR_INVALID_ARGUMENT;
    }
    if (pthread_once(&once, load) != 0 || state != OPDB_QNN_SUCCESS) {
        return state == OPDB_QNN_SUCCESS ? OPDB_QNN_ERROR_NOT_SUPPORTED : state;
    }
    *providers = list;
    *n = count;
    return OPDB_QNN_SUCCESS;
}
