/* A graph on opdb's C kernels: node after node through the dispatch table. */
#ifndef OPDB_DELEGATE_KERNEL_PROGRAM_H
#define OPDB_DELEGATE_KERNEL_PROGRAM_H

#include "kernels.h"
#include "program.h"

namespace opdb::delegate {

class KernelProgram final : public Program {
  public:
    /* Plans the arena, and takes all memory that a run needs.  `blob` and the data of `ends` have to stay. */
    Error prepare(const Blob &blob, const Ends &ends, Memory &memory);
    Error run(const Ends &ends, const Events &events) override;

  private:
    struct Node {
        const opdb_entry *entry;
        opdb_op op;
        uint32_t outputs; /* the first in REFS */
    };
    Error show_tensors(const Ends &ends, Memory &memory);
    void show_quant(const TensorRecord &record, opdb_tensor &tensor);
    Error show_values(const TensorRecord &record, opdb_tensor &tensor, Memory &memory);
    Error make_node(const OpRecord &record, Node &node, Memory &memory);
    void show_param(const ParamRecord &record, opdb_param &param);
    Error place(Memory &memory);
    Error alive(uint32_t *first, uint32_t *last) const;
    Error check(Node &node) const;

    const Blob *blob_ = nullptr;
    opdb_tensor *tensors_ = nullptr;
    opdb_quant *quants_ = nullptr;
    Node *nodes_ = nullptr;
};

} // namespace opdb::delegate

#endif
