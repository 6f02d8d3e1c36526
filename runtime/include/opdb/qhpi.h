/* Qualcomm's interface of HTP op packages in C (QHPI), as opdb uses it: own declarations.
 *
 * What it is: QNN documentation, topic htp_qhpi.  Sizes, offsets and values were measured with libQnnHtp.so
 * of QNN 2.47 and 2.51; older libraries have shorter structs and are refused by their API version.  What opdb
 * does not use has no name here. */
#ifndef OPDB_QHPI_H
#define OPDB_QHPI_H

#include <stddef.h>
#include <stdint.h>

enum { OPDB_QHPI_MAX_RANK = 8, OPDB_QHPI_WHOLE = -1 /* of a tile's dimension */ };

/* How a kernel takes a tensor. */
enum opdb_qhpi_element {
    OPDB_QHPI_QUINT8 = 1,
    OPDB_QHPI_QUINT16 = 2,
    OPDB_QHPI_QINT16 = 3,
    OPDB_QHPI_FLOAT32 = 4,
    OPDB_QHPI_INT32 = 5,
    OPDB_QHPI_QINT32 = 6,
    OPDB_QHPI_QINT8 = 7,
    OPDB_QHPI_FLOAT16 = 8,
    OPDB_QHPI_ANY_ELEMENT = 240
};
enum opdb_qhpi_layout { OPDB_QHPI_ANY_LAYOUT = 0, OPDB_QHPI_FLAT4 = 2, OPDB_QHPI_FLAT5 = 3 };
enum opdb_qhpi_storage { OPDB_QHPI_DIRECT = 0 };
enum opdb_qhpi_placement { OPDB_QHPI_DDR = 0, OPDB_QHPI_TCM = 1, OPDB_QHPI_EITHER = 2 };
enum opdb_qhpi_resource { OPDB_QHPI_HVX = 2 };
enum opdb_qhpi_status { OPDB_QHPI_OK = 0, OPDB_QHPI_FATAL = 2, OPDB_QHPI_WARNING = 3 };

typedef struct opdb_qhpi_tensor opdb_qhpi_tensor;
typedef struct opdb_qhpi_handle opdb_qhpi_handle;
typedef struct opdb_qhpi_op opdb_qhpi_op;

typedef struct {
    uint32_t rank, dims[OPDB_QHPI_MAX_RANK];
} opdb_qhpi_shape;

/* real = (stored - zero) * step */
typedef struct {
    int32_t zero;
    float step;
} opdb_qhpi_quant;

typedef struct {
    const opdb_qhpi_op *op;
    uint32_t output;
} opdb_qhpi_ref;

typedef struct {
    uint32_t element;
    opdb_qhpi_quant quant;
    opdb_qhpi_shape shape;
} opdb_qhpi_output;

typedef struct {
    uint32_t element, layout;
    uint8_t storage, placement;
} opdb_qhpi_signature;

typedef uint32_t (*opdb_qhpi_run)(opdb_qhpi_handle *, uint32_t, opdb_qhpi_tensor **, uint32_t,
                                  const opdb_qhpi_tensor *const *);

typedef struct {
    const char *name; /* context binaries name it */
    opdb_qhpi_run run;
    uint8_t resources;
    uint8_t overwrites : 1, many_threads : 1, more_inputs : 1, more_outputs : 1;
    uint32_t num_inputs;
    const opdb_qhpi_signature *inputs;
    uint32_t num_outputs;
    const opdb_qhpi_signature *outputs;
    void *cost; /* takes one argument more in 2.51 than in 2.47: left out */
    uint32_t sync_size, prepared_size;
    void *prepare, *run_prepared, *predicate, *reserved[4];
} opdb_qhpi_kernel;

typedef struct {
    const char *name; /* <package>::<op> */
    uint32_t num_kernels;
    const opdb_qhpi_kernel *kernels;
    const opdb_qhpi_op *(*early)(const opdb_qhpi_op *); /* the op that stands for it; NULL: itself */
    opdb_qhpi_shape (*tile_shape)(const opdb_qhpi_op *);
    opdb_qhpi_shape (*tile_legal)(const opdb_qhpi_op *, const opdb_qhpi_shape *);
    uint32_t tiled_output;
    const opdb_qhpi_op *(*tile)(const opdb_qhpi_op *, const opdb_qhpi_shape *from,
                                const opdb_qhpi_shape *size);
    void *late, *reserved[4];
} opdb_qhpi_info;

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(opdb_qhpi_output) == 48, "QHPI of QNN 2.47");
_Static_assert(sizeof(opdb_qhpi_kernel) == 120, "QHPI of QNN 2.47");
_Static_assert(sizeof(opdb_qhpi_info) == 104, "QHPI of QNN 2.47");
#endif

/* Returns 0, 3 for a warning, 4 for an error. */
uint32_t qhpi_register_ops_v1(uint32_t count, opdb_qhpi_info *ops, const char *package);

uint32_t qhpi_tensor_type(const opdb_qhpi_tensor *tensor);
opdb_qhpi_shape qhpi_tensor_shape(const opdb_qhpi_tensor *tensor);
void *qhpi_tensor_raw_data(const opdb_qhpi_tensor *tensor);

const char *qhpi_op_name(const opdb_qhpi_op *op);
uint32_t qhpi_op_num_inputs(const opdb_qhpi_op *op);
uint32_t qhpi_op_num_outputs(const opdb_qhpi_op *op);
opdb_qhpi_ref qhpi_op_input(const opdb_qhpi_op *op, uint32_t i);
opdb_qhpi_output qhpi_op_output(const opdb_qhpi_op *op, uint32_t i);
const void *qhpi_op_constant_data(const opdb_qhpi_op *op);
const opdb_qhpi_op *qhpi_op_create(const opdb_qhpi_op *root, const char *name, uint32_t num_inputs,
                                   const opdb_qhpi_ref *inputs, uint32_t num_outputs,
                                   const opdb_qhpi_output *outputs);
const opdb_qhpi_op *qhpi_op_create_constant(const opdb_qhpi_op *root, const opdb_qhpi_output *like,
                                            size_t size, const void *data);
opdb_qhpi_ref qhpi_op_slice(opdb_qhpi_ref whole, const opdb_qhpi_shape *from, const opdb_qhpi_shape *size);

#endif
