/* The available C kernels: those linked to this library, or those that its loader hands over. */
#ifndef OPDB_DELEGATE_KERNELS_H
#define OPDB_DELEGATE_KERNELS_H

#include "opdb/ops.h"

namespace opdb::delegate {

/* The entry of an op; NULL: there is none. */
const opdb_entry *kernel_of(const char *op);

} // namespace opdb::delegate

extern "C" {
/* Takes the kernels of another library: its opdb_find. */
void opdb_delegate_kernels(const opdb_entry *(*find)(const char *op));
}

#endif
