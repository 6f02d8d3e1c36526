/* Placement of the tensors inside a graph: one piece of memory, shared by tensors that are never alive
 * together. */
#ifndef OPDB_DELEGATE_PLAN_H
#define OPDB_DELEGATE_PLAN_H

#include <cstddef>
#include <cstdint>

namespace opdb::delegate {

/* Alive from step `first` to step `last`, both included. */
struct Piece {
    uint64_t size;
    uint32_t first, last;
    uint64_t offset; /* result of `plan`, a multiple of 16 */
    uint32_t owner;  /* the caller's */
};

/* Places the pieces, the largest first, each as low as it can be; changes their order.  Returns the bytes
 * that all of them need.  The time is that of n * n comparisons. */
uint64_t plan(Piece *pieces, size_t n);

} // namespace opdb::delegate

#endif
