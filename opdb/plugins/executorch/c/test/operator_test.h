/* Shared by kernel tests: names of ExecuTorch that its wheel lacks (kernels/test/TestUtil.h). */
#ifndef OPDB_OPERATOR_TEST_H
#define OPDB_OPERATOR_TEST_H

#include <cmath>

#include <gtest/gtest.h>

#include <executorch/runtime/core/exec_aten/testing_util/tensor_factory.h>
#include <executorch/runtime/core/exec_aten/testing_util/tensor_util.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/kernel/kernel_runtime_context.h>

/* Expects that the kernel fails, which it records in its context. */
#define ET_EXPECT_KERNEL_FAILURE(context, statement)                                                         \
    do {                                                                                                     \
        statement;                                                                                           \
        expect_failure();                                                                                    \
        EXPECT_NE((context).failure_state(), executorch::runtime::Error::Ok) << "the kernel did not fail";   \
    } while (false)

/* A context with temporary memory.  A kernel that fails unexpectedly fails the test. */
class OperatorTest : public ::testing::Test {
  protected:
    void TearDown() override {
        EXPECT_EQ(context_.failure_state() != executorch::runtime::Error::Ok, expect_failure_);
    }
    void expect_failure() { expect_failure_ = true; }

  private:
    alignas(16) uint8_t memory_[1 << 20];
    executorch::runtime::MemoryAllocator temporary_{sizeof memory_, memory_};
    bool expect_failure_ = false;

  protected:
    executorch::runtime::KernelRuntimeContext context_{nullptr, &temporary_};
};

#endif
