/* The inline functions of opdb/checked.h as symbols, for ctypes. */
#include "opdb/checked.h"

#define ARITHMETIC(NAME)                                                                                     \
    int64_t export_##NAME(int64_t a, int64_t b, bool *ok);                                                   \
    int64_t export_##NAME(int64_t a, int64_t b, bool *ok) { return opdb_##NAME(a, b, ok); }
ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(floordiv)
ARITHMETIC(floormod)

int64_t export_neg(int64_t a, bool *ok);
int64_t export_neg(int64_t a, bool *ok) { return opdb_neg(a, ok); }
int64_t export_min(int64_t a, int64_t b);
int64_t export_min(int64_t a, int64_t b) { return opdb_min(a, b); }
int64_t export_max(int64_t a, int64_t b);
int64_t export_max(int64_t a, int64_t b) { return opdb_max(a, b); }
int64_t export_at(opdb_ints s, int64_t i, bool *ok);
int64_t export_at(opdb_ints s, int64_t i, bool *ok) { return opdb_at(s, i, ok); }
opdb_ints export_row(opdb_rows s, int64_t i, bool *ok);
opdb_ints export_row(opdb_rows s, int64_t i, bool *ok) { return opdb_row(s, i, ok); }
opdb_ints export_shape_of(const opdb_tensor *t, bool *ok);
opdb_ints export_shape_of(const opdb_tensor *t, bool *ok) { return opdb_shape_of(t, ok); }
opdb_ints export_view(const opdb_list *list);
opdb_ints export_view(const opdb_list *list) { return opdb_view(list); }
opdb_ints export_slice(opdb_ints s, bool has_lo, int64_t lo, bool has_hi, int64_t hi);
opdb_ints export_slice(opdb_ints s, bool has_lo, int64_t lo, bool has_hi, int64_t hi) {
    return opdb_slice(s, has_lo, lo, has_hi, hi);
}
const opdb_tensor *export_nth(opdb_tensors s, int64_t i, bool *ok);
const opdb_tensor *export_nth(opdb_tensors s, int64_t i, bool *ok) { return opdb_nth(s, i, ok); }
