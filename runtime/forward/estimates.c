#include "estimates.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* indices in the function table of QnnInterface_t; sources as in qnn_forward.c */
       BACKEND_CREATE = 1,
       GRAPH_ADD_NODE = 18,
       GRAPH_FINALIZE = 19,
       PROFILE_CREATE = 28,
       PROFILE_GET_EVENTS = 30,
       PROFILE_GET_SUB_EVENTS = 31,
       PROFILE_GET_EVENT_DATA = 32,
       PROFILE_FREE = 34,
       NEEDED = 35,
       LEVEL_BASIC = 1, /* QNN_PROFILE_LEVEL_BASIC */
       FIRST_EVENT = 2000,
       LAST_EVENT = 2099,
       MAX_GRAPHS = 64,
       MAX_KINDS = 256,
       MAX_NAME = 48,
       MAX_DEPTH = 8
};

typedef struct { /* Qnn_OpConfig_t: 80 bytes, by value */
    uint32_t version;
    const char *name;
    const char *package;
    const char *type;
    uint64_t rest[6];
} op_config;

typedef struct { /* QnnProfile_EventData_t */
    uint32_t type;
    uint32_t unit;
    uint64_t value;
    const char *identifier;
} event_data;

typedef char layouts_are_right[sizeof(op_config) == 80 && sizeof(event_data) == 24 ? 1 : -1];

typedef struct {
    void *graph;
    unsigned kinds;
    char names[MAX_KINDS][MAX_NAME];
    unsigned counts[MAX_KINDS];
} graph_ops;

static struct {
    uint64_t (*backend_create)(void *, const void **, void **);
    uint64_t (*add_node)(void *, op_config);
    uint64_t (*finalize)(void *, void *, void *);
    uint64_t (*profile_create)(void *, uint32_t, void **);
    uint64_t (*get_events)(void *, const uint64_t **, uint32_t *);
    uint64_t (*get_sub_events)(uint64_t, const uint64_t **, uint32_t *);
    uint64_t (*get_data)(uint64_t, event_data *);
    uint64_t (*profile_free)(void *);
} real;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *backend; /* the last one created: profiles belong to a backend */
static graph_ops *graphs[MAX_GRAPHS];
static unsigned graph_count;

static graph_ops *ops_of(void *graph) {
    for (unsigned i = 0; i < graph_count; i++) {
        if (graphs[i]->graph == graph) {
            return graphs[i];
        }
    }
    if (graph_count == MAX_GRAPHS || (graphs[graph_count] = calloc(1, sizeof *graphs[0])) == NULL) {
        return NULL;
    }
    graphs[graph_count]->graph = graph;
    return graphs[graph_count++];
}

static void count(void *graph, const char *type) {
    graph_ops *ops = ops_of(graph);
    unsigned i = 0;
    if (ops == NULL || type == NULL) {
        return;
    }
    while (i < ops->kinds && strncmp(ops->names[i], type, MAX_NAME - 1) != 0) {
        i++;
    }
    if (i == MAX_KINDS) {
        return;
    }
    if (i == ops->kinds) {
        snprintf(ops->names[i], MAX_NAME, "%s", type);
        ops->kinds++;
    }
    ops->counts[i]++;
}

/* The estimates among `ids` and their sub-events, as members of a JSON object. */
static void write_events(FILE *file, const uint64_t *ids, uint32_t n, int depth, const char **comma) {
    for (uint32_t i = 0; i < n && depth < MAX_DEPTH; i++) {
        const uint64_t *below = NULL;
        uint32_t count_below = 0;
        event_data data = {0, 0, 0, NULL};
        if (real.get_data(ids[i], &data) == 0 && data.type >= FIRST_EVENT && data.type <= LAST_EVENT) {
            fprintf(file, "%s\"%" PRIu32 "\": %" PRIu64, *comma, data.type, data.value);
            *comma = ", ";
        }
        if (real.get_sub_events(ids[i], &below, &count_below) == 0) {
            write_events(file, below, count_below, depth + 1, comma);
        }
    }
}

static void write_line(void *graph, void *profile, uint64_t code) {
    const char *path = getenv("OPDB_QNN_ESTIMATES");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    graph_ops *ops = ops_of(graph);
    const uint64_t *ids = NULL;
    uint32_t n = 0;
    const char *comma = "";
    if (file == NULL) {
        return;
    }
    fprintf(file, "{\"code\": %" PRIu64 ", \"ops\": {", code & 0xffff);
    for (unsigned i = 0; ops != NULL && i < ops->kinds; i++) {
        fprintf(file, "%s\"%s\": %u", i == 0 ? "" : ", ", ops->names[i], ops->counts[i]);
    }
    fprintf(file, "}, \"events\": {");
    if (profile != NULL && real.get_events(profile, &ids, &n) == 0) {
        write_events(file, ids, n, 0, &comma);
    }
    fprintf(file, "}}\n");
    fclose(file);
    if (ops != NULL) { /* another graph may get this handle */
        ops->kinds = 0;
        memset(ops->counts, 0, sizeof ops->counts);
    }
}

static uint64_t backend_create(void *logger, const void **config, void **made) {
    uint64_t error = real.backend_create(logger, config, made);
    pthread_mutex_lock(&lock);
    if (error == 0) {
        backend = *made;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static uint64_t add_node(void *graph, op_config config) {
    uint64_t error = real.add_node(graph, config);
    pthread_mutex_lock(&lock);
    if (error == 0) {
        count(graph, config.type);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static uint64_t finalize(void *graph, void *profile, void *signal) {
    void *own = NULL;
    uint64_t error;
    pthread_mutex_lock(&lock);
    if (profile == NULL && (backend == NULL || real.profile_create(backend, LEVEL_BASIC, &own) != 0)) {
        own = NULL;
    }
    pthread_mutex_unlock(&lock);
    error = real.finalize(graph, own != NULL ? own : profile, signal);
    pthread_mutex_lock(&lock);
    write_line(graph, own != NULL ? own : profile, error);
    pthread_mutex_unlock(&lock);
    if (own != NULL) {
        (void)real.profile_free(own);
    }
    return error;
}

#define TAKE(member, index) memcpy(&real.member, &functions[index], sizeof real.member)

void opdb_estimates_install(opdb_function *functions, unsigned n) {
    if (getenv("OPDB_QNN_ESTIMATES") == NULL || n < NEEDED) {
        return;
    }
    TAKE(backend_create, BACKEND_CREATE);
    TAKE(add_node, GRAPH_ADD_NODE);
    TAKE(finalize, GRAPH_FINALIZE);
    TAKE(profile_create, PROFILE_CREATE);
    TAKE(get_events, PROFILE_GET_EVENTS);
    TAKE(get_sub_events, PROFILE_GET_SUB_EVENTS);
    TAKE(get_data, PROFILE_GET_EVENT_DATA);
    TAKE(profile_free, PROFILE_FREE);
    functions[BACKEND_CREATE] = (opdb_function)backend_create;
    functions[GRAPH_ADD_NODE] = (opdb_function)add_node;
    functions[GRAPH_FINALIZE] = (opdb_function)finalize;
}
