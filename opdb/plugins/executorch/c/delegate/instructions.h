/* The instruction of a method that calls a delegate: ExecuTorch does not tell, and its event tracer needs it
 * if the runtime was compiled without hooks. */
#ifndef OPDB_DELEGATE_INSTRUCTIONS_H
#define OPDB_DELEGATE_INSTRUCTIONS_H

#include <cstdint>

namespace opdb::delegate {

/* The instruction of the blob with this checksum that is loaded next; UNKNOWN_INSTRUCTION if none was
 * given. */
int32_t next_instruction(const uint8_t sha256[32]);

} // namespace opdb::delegate

extern "C" {
/* For a blob by its checksum: the instructions that call it, in the order in which the method loads its
 * delegates. Each is used once; n = 0 forgets all. False if there is no room. */
bool opdb_delegate_instructions(const uint8_t sha256[32], const int32_t *instructions, uint32_t n);
}

#endif
