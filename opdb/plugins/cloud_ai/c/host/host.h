/* Input, work and answers of the host of a Cloud AI package, the same for each interface; see host.cpp. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "CustomOpContext.h"
#include "CustomOpTypes.h"

struct Buffer {
    std::string name;
    uint8_t *data = nullptr;
    size_t size = 0;
    uint8_t *begin = nullptr, *end = nullptr; /* with the pages around it */
};

struct Input {
    std::string name;
    int dtype = 0, rank = 0;
    std::vector<int32_t> dims;
    float scale = 1, offset = 0;
    Buffer buffer;
    std::vector<uint8_t> given;
};

struct Output {
    std::string name;
    int max_dims = 0, dtype = 0, rank = 0;
    std::vector<int32_t> dims;
    float scale = 1, offset = 0;
    Buffer buffer;
};

struct Param {
    std::string name, text;
    int dtype = 0, size = 0;
    std::vector<uint8_t> data;
};

struct Scratch {
    std::string name;
    Buffer buffer;
};

struct KernelInfo {
    std::string name, backend;
};

struct Job {
    std::string functions, kernel, symbol, inputs_file, outputs_file;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<Param> params;
    std::vector<Scratch> scratch;
    std::vector<KernelInfo> kernels;
    std::vector<std::string> todo; /* the steps, in order */
};

/* One interface: 1.17, 5.0.0 or 1.21. */
namespace api {
/* The functions of a library; false, with the name of the missing one, if one is missing. */
bool open(void *library, std::string *missing);
bool infer(Job &job); /* sets rank, dims and dtype of outputs */
bool verify(Job &job);
const char *select(Job &job, const char *backend);
/* Calls a kernel: once for Interpreter, once for each thread for AIC. */
void run(Job &job, void *kernel, bool aic, int thread, void (*sync)(int32_t));
} // namespace api
