/* A graph in one of QNN's libraries. */
#ifndef OPDB_DELEGATE_QNN_PROGRAM_H
#define OPDB_DELEGATE_QNN_PROGRAM_H

#include "program.h"
#include "qnn_context.h"
#include "qnn_profile.h"
#include "qnn_tensors.h"

namespace opdb::delegate {

class QnnProgram final : public Program {
  public:
    ~QnnProgram() override;
    /* Loads the blob's context, or composes its graph.  `blob` and the data of `ends` have to stay. */
    Error prepare(const Blob &blob, Constants &constants, const Ends &ends, const char *folders,
                  Memory &memory);
    Error run(const Ends &ends, const Events &events) override;

  private:
    Error load(const QnnTarget &target, Constants &constants, const char *folders, Memory &memory);
    Error compose(const QnnTarget &target, const Ends &ends, const char *folders, Memory &memory);
    void list_ends(Memory &memory);
    void point(const Ends &ends);
    void report_values(const Ends &ends, const Events &events) const;

    const Blob *blob_ = nullptr;
    QnnLibrary *library_ = nullptr;
    QnnContext *context_ = nullptr;          /* of a binary, shared */
    Qnn_ContextHandle_t composed_ = nullptr; /* its own */
    Qnn_GraphHandle_t graph_ = nullptr;
    Qnn_Tensor_t *tensors_ = nullptr; /* by TENSORS record */
    Qnn_Tensor_t *inputs_ = nullptr, *outputs_ = nullptr;
    uint32_t *input_ = nullptr, *output_ = nullptr; /* their records */
    uint32_t num_inputs_ = 0, num_outputs_ = 0;
    QnnProfile profile_;
};

} // namespace opdb::delegate

#endif
