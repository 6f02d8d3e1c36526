/* The functions of libQnnHtp.so that a package calls, without what they do: the linker wants their names.
 * When QNN loads the package it has libQnnHtp.so already, whose functions are called then. */
#include "opdb/qhpi.h"

uint32_t qhpi_register_ops_v1(uint32_t count, opdb_qhpi_info *ops, const char *package) {
    (void)count;
    (void)ops;
    (void)package;
    return 0;
}
uint32_t qhpi_tensor_type(const opdb_qhpi_tensor *tensor) {
    (void)tensor;
    return 0;
}
opdb_qhpi_shape qhpi_tensor_shape(const opdb_qhpi_tensor *tensor) {
    (void)tensor;
    return (opdb_qhpi_shape){0};
}
void *qhpi_tensor_raw_data(const opdb_qhpi_tensor *tensor) {
    (void)tensor;
    return NULL;
}
const char *qhpi_op_name(const opdb_qhpi_op *op) {
    (void)op;
    return NULL;
}
uint32_t qhpi_op_num_inputs(const opdb_qhpi_op *op) {
    (void)op;
    return 0;
}
uint32_t qhpi_op_num_outputs(const opdb_qhpi_op *op) {
    (void)op;
    return 0;
}
opdb_qhpi_ref qhpi_op_input(const opdb_qhpi_op *op, uint32_t i) {
    (void)op;
    (void)i;
    return (opdb_qhpi_ref){NULL, 0};
}
opdb_qhpi_output qhpi_op_output(const opdb_qhpi_op *op, uint32_t i) {
    (void)op;
    (void)i;
    return (opdb_qhpi_output){0};
}
const void *qhpi_op_constant_data(const opdb_qhpi_op *op) {
    (void)op;
    return NULL;
}
const opdb_qhpi_op *qhpi_op_create(const opdb_qhpi_op *root, const char *name, uint32_t num_inputs,
                                   const opdb_qhpi_ref *inputs, uint32_t num_outputs,
                                   const opdb_qhpi_output *outputs) {
    (void)root;
    (void)name;
    (void)num_inputs;
    (void)inputs;
    (void)num_outputs;
    (void)outputs;
    return NULL;
}
const opdb_qhpi_op *qhpi_op_create_constant(const opdb_qhpi_op *root, const opdb_qhpi_output *like,
                                            size_t size, const void *data) {
    (void)root;
    (void)like;
    (void)size;
    (void)data;
    return NULL;
}
opdb_qhpi_ref qhpi_op_slice(opdb_qhpi_ref whole, const opdb_qhpi_shape *from, const opdb_qhpi_shape *size) {
    (void)whole;
    (void)from;
    (void)size;
    return (opdb_qhpi_ref){NULL, 0};
}
