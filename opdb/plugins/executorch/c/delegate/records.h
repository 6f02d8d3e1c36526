/* The records of a blob (docs/reference/executorch-delegate.md, "Blob";
 * opdb/plugins/executorch/delegate/blob.py writes them). Little-endian, each a multiple of 8 bytes or of 4;
 * the blob begins at a multiple of 8. */
#ifndef OPDB_DELEGATE_RECORDS_H
#define OPDB_DELEGATE_RECORDS_H

#include <cstdint>

namespace opdb::delegate {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blobs are read where they lie");

enum : uint32_t {
    FORMAT = 1,
    ALIGN = 16,
    NONE = 0xffffffff, /* an index that stands for nothing */
};

enum class Payload : uint32_t { CONTEXT = 1, GRAPH = 2 };

/* All sections exist, in this order; one without records has 0 bytes. */
enum Section : uint32_t {
    STRINGS = 1, /* UTF-8, each ending in NUL; the first is empty */
    WORDS,       /* int64 */
    REALS,       /* float64 */
    FLOATS,      /* float32 */
    INTS,        /* int32 */
    REFS,        /* uint32 */
    INFO,
    ARGS,
    TENSORS,
    QUANTS,
    OPS,
    PARAMS,
    STATES,
    NAMED,
    DATA,
    CONTEXT,
    SECTIONS_END
};

struct HeaderRecord {
    uint8_t magic[8];
    uint32_t format, header; /* bytes of this record */
    uint64_t total;          /* bytes of the blob */
    uint32_t payload, sections;
    uint8_t sha256[32]; /* of everything else */
};

struct SectionRecord {
    uint32_t id, record; /* bytes of one */
    uint64_t offset, size;
};

/* Strings are offsets into STRINGS. */
struct Info {
    uint32_t backend; /* empty: opdb's C kernels */
    uint32_t soc, sdk, execution;
    uint32_t graph; /* its name in the context */
    uint32_t package, library_version, build_id, opdb;
    uint32_t precision;                          /* empty, or fp16 */
    uint32_t soc_model;                          /* QNN's number, NONE without a chip */
    uint32_t optimization, vtcm_mb, hvx_threads; /* 0: the library's choice */
    uint32_t context; /* NAMED record with the context file, NONE: the section CONTEXT */
    uint32_t reserved;
    uint64_t binary_offset, binary_size; /* of QNN's binary inside the context file */
};

/* One EValue of execute's args: all inputs, then all outputs. */
struct Arg {
    uint32_t kind;        /* 0 input, 1 output */
    uint32_t tensor;      /* NONE: the graph does not read this input */
    uint32_t scalar_type; /* executorch::runtime::etensor::ScalarType */
    uint32_t rank;        /* as the program has it: 0 for a scalar, which the graph has as [1] */
    uint32_t dims;        /* WORDS */
    uint32_t constant;    /* an output with a known value: its offset in DATA / ALIGN; else NONE */
};

enum class Held : uint32_t { NOTHING = 0, HERE = 1, NAMED = 2 }; /* in DATA, or a NAMED record */

struct TensorRecord {
    uint32_t name;
    uint32_t dtype; /* Qnn_DataType_t */
    uint32_t type;  /* Qnn_TensorType_t */
    uint32_t rank;
    uint32_t dims;  /* WORDS */
    uint32_t quant; /* QUANTS, or NONE */
    uint32_t symmetric;
    uint32_t specified; /* of a sparse tensor; 0: dense */
    uint32_t sparse_dims;
    Held data;
    uint64_t offset; /* in DATA; the NAMED record; of a context's tensor without data: the library's number */
    uint64_t size;   /* bytes */
};

struct QuantRecord {
    uint32_t encoding; /* Qnn_QuantizationEncoding_t */
    uint32_t axis;     /* NONE without */
    uint32_t bits;
    uint32_t count;           /* scales, and as many offsets */
    uint32_t scales, offsets; /* FLOATS, INTS */
    uint32_t extras, extra;   /* WORDS: blob.py says which */
};

struct OpRecord {
    uint32_t name, package, type, origin;
    uint32_t inputs, input; /* number; REFS: TENSORS records, NONE for an omitted input */
    uint32_t outputs, output;
    uint32_t params, param;
    uint32_t handles, handle; /* REFS: ExecuTorch's debug handles of the nodes behind it */
};

struct ParamRecord {
    uint32_t name, dtype;
    uint32_t rank; /* 0: a scalar */
    uint32_t dims; /* WORDS */
    uint32_t count;
    uint32_t ints, reals; /* WORDS, REALS */
    uint32_t text;        /* of a string */
};

/* A buffer that the delegate keeps: after each run `output` is the next run's `input`. */
struct StateRecord {
    uint32_t name, input, output;
    Held data; /* its initial value */
    uint64_t offset, size;
};

/* Bytes that the program holds beside the blob, by key. */
struct NamedRecord {
    uint32_t key, reserved;
    uint64_t size;
    uint8_t sha256[32];
};

static_assert(sizeof(HeaderRecord) == 64 && sizeof(SectionRecord) == 24 && sizeof(Info) == 80 &&
                  sizeof(Arg) == 24 && sizeof(TensorRecord) == 56 && sizeof(QuantRecord) == 32 &&
                  sizeof(OpRecord) == 48 && sizeof(ParamRecord) == 32 && sizeof(StateRecord) == 32 &&
                  sizeof(NamedRecord) == 48,
              "records have no padding");

} // namespace opdb::delegate

#endif
