/* The vendor's own cost of one execution: the graph of qnn_execute.py, executed from C.
 *
 *     qnn_execute LIBRARY SOC_NUMBER EXECUTIONS ROUNDS LOG_LEVEL
 *
 * SOC_NUMBER is 0 for a library without chips.  Prints the microseconds per execution of each round. */
#define _POSIX_C_SOURCE 199309L
#include "qnn_binding.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 8, COLUMNS = 16 };

static void check(const char *what, Qnn_ErrorHandle_t code) {
    if (code != 0) {
        fprintf(stderr, "%s: error %u\n", what, (unsigned)(code & 0xFFFF));
        exit(1);
    }
}

/* The layout is that of 2.48 in zeroed memory; an older library reads the number at byte 4. */
static Qnn_DeviceHandle_t make_device(const QnnInterface_t *qnn, Qnn_LogHandle_t log, uint32_t soc) {
    for (int old = 0; old < 2; old++) {
        union {
            QnnHtpDevice_CustomConfig_t now;
            QnnHtpDevice_CustomConfig_2_43_t before;
            uint64_t room[4];
        } custom = {.room = {0}};
        QnnDevice_Config_t config = {.option = QNN_DEVICE_CONFIG_OPTION_CUSTOM};
        const QnnDevice_Config_t *configs[] = {&config, NULL};
        Qnn_DeviceHandle_t device = NULL;
        if (old) {
            custom.before.option = QNN_HTP_DEVICE_CONFIG_OPTION_SOC;
            custom.before.u.socModel = soc;
        } else {
            custom.now.option = QNN_HTP_DEVICE_CONFIG_OPTION_SOC;
            custom.now.u.socModel = soc;
        }
        config.u.customConfig = (QnnDevice_CustomConfig_t)&custom;
        if (qnn->api.deviceCreate(log, configs, &device) == 0) {
            return device;
        }
    }
    check("deviceCreate", 14001);
    return NULL;
}

static Qnn_Tensor_t tensor(const char *name, Qnn_TensorType_t type, uint32_t *dimensions) {
    Qnn_Tensor_t out = {.version = QNN_TENSOR_VERSION_1};
    out.u.v1.name = name;
    out.u.v1.type = type;
    out.u.v1.dataType = QNN_DATATYPE_FLOAT_32;
    out.u.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_UNDEFINED;
    out.u.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_UNDEFINED;
    out.u.v1.rank = 2;
    out.u.v1.dimensions = dimensions;
    return out;
}

/* Microseconds per execution; also called from Python, in its process and on its graph. */
double microseconds(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph, long n, const Qnn_Tensor_t *x,
                    Qnn_Tensor_t *y);
double microseconds(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph, long n, const Qnn_Tensor_t *x,
                    Qnn_Tensor_t *y) {
    struct timespec begin, end;
    double seconds;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < n; i++) {
        check("graphExecute", qnn->api.graphExecute(graph, x, 1, y, 1, NULL, NULL));
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    return seconds / (double)n * 1e6;
}

int main(int argc, char **argv) {
    static float input[ROWS * COLUMNS], output[ROWS * COLUMNS];
    uint32_t dimensions[] = {ROWS, COLUMNS};
    Qnn_Tensor_t x = tensor("x", QNN_TENSOR_TYPE_APP_WRITE, dimensions);
    Qnn_Tensor_t y = tensor("y", QNN_TENSOR_TYPE_APP_READ, dimensions);
    Qnn_OpConfig_t node = {.version = QNN_OPCONFIG_VERSION_1};
    Qnn_LogHandle_t log = NULL;
    Qnn_BackendHandle_t backend = NULL;
    Qnn_DeviceHandle_t device = NULL;
    Qnn_ContextHandle_t context = NULL;
    Qnn_GraphHandle_t graph = NULL;
    const QnnInterface_t *qnn;
    char why[1024];
    int number;

    /* The libraries take and return large blocks in each execution.  A process that has run for a while, as
     * Python has, keeps them; a fresh one asks the system for them each time (HTP: 33 page faults). */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    if (argc != 6) {
        fprintf(stderr, "usage: qnn_execute LIBRARY SOC_NUMBER EXECUTIONS ROUNDS LOG_LEVEL\n");
        return 2;
    }
    qnn = opdb_qnn_open(argv[1], why, sizeof why);
    if (qnn == NULL) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    check("logCreate", opdb_qnn_log_create(qnn, atoi(argv[5]), &number, &log));
    check("backendCreate", qnn->api.backendCreate(log, NULL, &backend));
    if (atoi(argv[2]) != 0) {
        device = make_device(qnn, log, (uint32_t)atoi(argv[2]));
    }
    check("contextCreate", qnn->api.contextCreate(backend, device, NULL, &context));
    check("graphCreate", qnn->api.graphCreate(context, "relu", NULL, &graph));
    check("tensorCreateGraphTensor", qnn->api.tensorCreateGraphTensor(graph, &x));
    check("tensorCreateGraphTensor", qnn->api.tensorCreateGraphTensor(graph, &y));
    node.u.v1.name = "relu0";
    node.u.v1.packageName = "qti.aisw";
    node.u.v1.typeName = "Relu";
    node.u.v1.numOfInputs = node.u.v1.numOfOutputs = 1;
    node.u.v1.inputTensors = &x;
    node.u.v1.outputTensors = &y;
    check("graphAddNode", opdb_qnn_add_node(qnn, graph, &node));
    check("graphFinalize", qnn->api.graphFinalize(graph, NULL, NULL));

    for (int i = 0; i < ROWS * COLUMNS; i++) {
        input[i] = (float)i - 64;
    }
    x.u.v1.u.clientBuf.data = input;
    x.u.v1.u.clientBuf.dataSize = sizeof input;
    y.u.v1.u.clientBuf.data = output;
    y.u.v1.u.clientBuf.dataSize = sizeof output;
    for (int i = 0; i < atoi(argv[4]); i++) {
        printf("%.4f\n", microseconds(qnn, graph, atol(argv[3]), &x, &y));
    }
    if (fabsf(output[0]) > 1e-3F || fabsf(output[ROWS * COLUMNS - 1] - 63) > 1e-3F) {
        fprintf(stderr, "wrong result: %g and %g\n", (double)output[0], (double)output[ROWS * COLUMNS - 1]);
        return 1;
    }
    qnn->api.contextFree(context, NULL);
    if (device != NULL) {
        qnn->api.deviceFree(device);
    }
    qnn->api.backendFree(backend);
    qnn->api.logFree(log);
    opdb_qnn_log_release(number);
    return 0;
}
