/* The parts of calling QNN for which Python needs C: opening a library, the log callback (a va_list), and the
 * two functions that take an op config by value.  Everything else is called through the function table. */
#ifndef OPDB_QNN_BINDING_H
#define OPDB_QNN_BINDING_H

#include "opdb/qnn_abi.h"
#include "opdb/qnn_htp.h"
#include "opdb/qnn_system.h"

/* CDEF: what follows is read by build_cffi.py. */
enum { OPDB_QNN_MAX_LOGS = 16, OPDB_QNN_LOG_BYTES = 262144 };

/* Opens the library at `path` for the rest of the process and finds its interface.  Returns NULL and a
 * reason in `why` (at most `size` bytes with the NUL) when it cannot. */
const QnnInterface_t *opdb_qnn_open(const char *path, char *why, size_t size);

/* Does the same for libQnnSystem.so, which reads context binaries. */
const QnnSystemInterface_t *opdb_qnn_open_system(const char *path, char *why, size_t size);

/* Calls QnnSaver_initialize, which the library at `path` exports outside its interface.  Returns its error
 * code, or 1000 (not supported) and a reason in `why` if there is no such library or function. */
Qnn_ErrorHandle_t opdb_qnn_saver_initialize(const char *path, const QnnSaver_Config_t **configs, char *why,
                                            size_t size);

/* Creates a log handle with a buffer of its own.  `level` is the most verbose QnnLog_Level_t wanted. `log`
 * receives the number of the buffer, or -1 if all OPDB_QNN_MAX_LOGS are taken (the result is then 1010,
 * resource unavailable). */
Qnn_ErrorHandle_t opdb_qnn_log_create(const QnnInterface_t *qnn, int level, int *log,
                                      Qnn_LogHandle_t *handle);

/* Moves the log since the last call into `out`, at most `size` bytes: per line one byte with the level, the
 * text, a NUL. Returns the number of bytes; `dropped` receives the number of lines without room. */
size_t opdb_qnn_log_take(int log, char *out, size_t size, size_t *dropped);

/* Opens the op package at `path`, which a backend has registered, for the rest of the process: its name and
 * its ops, which live as long.  Backends never call a package's logInitialize (QNN 2.47), so opdb does: a
 * package's log goes to the buffer that the calling thread emptied last.  Returns false and a reason in `why`
 * when it cannot. */
bool opdb_qnn_package_open(const char *path, const char *provider, const char **name, const char ***ops,
                           uint32_t *num_ops, char *why, size_t size);

/* Gives the buffer back; its log handle must have been freed. */
void opdb_qnn_log_release(int log);

Qnn_ErrorHandle_t opdb_qnn_validate(const QnnInterface_t *qnn, Qnn_BackendHandle_t backend,
                                    const Qnn_OpConfig_t *op);
Qnn_ErrorHandle_t opdb_qnn_add_node(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph,
                                    const Qnn_OpConfig_t *op);

/* Empties the buffer of `log`, then executes: the buffer then holds only the log of this call. */
Qnn_ErrorHandle_t opdb_qnn_execute(const QnnInterface_t *qnn, Qnn_GraphHandle_t graph,
                                   const Qnn_Tensor_t *inputs, uint32_t n_inputs, Qnn_Tensor_t *outputs,
                                   uint32_t n_outputs, Qnn_ProfileHandle_t profile, Qnn_SignalHandle_t signal,
                                   int log);
/* CDEF end. */

#endif
