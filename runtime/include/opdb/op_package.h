/* An op package for a backend of QNN: what is the same for every package.
 *
 * The generated <Package>.c says which ops there are and exports the interface provider; op_package.c judges
 * with the generated validators; cpu_package.c or htp_package.c computes with the kernels behind their
 * generated shims.  C11. */
#ifndef OPDB_OP_PACKAGE_H
#define OPDB_OP_PACKAGE_H

#include "opdb/backends.h" /* generated: opdb_target */
#include "opdb/qnn_op_package.h"
#include "opdb/runtime.h"
#include "opdb/tiling.h"

/* A parameter; the backend shows every scalar as a double, whatever its type is. */
typedef struct {
    const char *name;
    enum opdb_dtype dtype;
} opdb_package_param;

typedef struct {
    const char *name;
    opdb_target target; /* what its rules are judged for */
    void (*validate)(const opdb_op *op, const opdb_target *target, opdb_report *report);
    size_t (*scratch)(const opdb_op *op);
    opdb_status (*run)(const opdb_op *op, opdb_report *report);
    const enum opdb_dtype
        *kernel; /* types of the first input that there is a kernel for; ended by OPDB_NO_DTYPE */
    size_t num_params;
    const opdb_package_param *params;
    /* How many tensors a node may have; omitted ones do not count.  Whether one may have five dimensions. */
    uint32_t min_inputs, max_inputs, min_outputs, max_outputs;
    bool five;
    const opdb_tiling *tiling; /* NULL: a run computes the whole output */
} opdb_package_op;

typedef struct {
    QnnOpPackage_Info_t info; /* name of the package, number and names of its ops */
    const opdb_package_op *ops;
    int64_t tile_bytes; /* what a tile and its inputs may have */
    const enum opdb_dtype
        *shown; /* types of tensors that the backend shows to packages; ended by OPDB_NO_DTYPE */
} opdb_package;

/* The package that this library is; defined by <Package>.c. */
extern const opdb_package opdb_this_package;

/* What the interface provider does: version 1.4 of QNN's op package interface, all of its functions.
 * Returns 3200 for NULL, else 0. */
Qnn_ErrorHandle_t opdb_package_interface(QnnOpPackage_Interface_t *interface);

#endif
