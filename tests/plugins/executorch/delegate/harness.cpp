/* Calls opdb's backend as ExecuTorch does, without a program: what the sanitizers look at.
 *
 *     harness BLOB run          one execution; prints the outputs
 *     harness BLOB threads N    two threads, a handle each, N executions: all as the first
 *     harness BLOB fuzz N SEED  N blobs with changed bytes and a right checksum; prints how many ran
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/exec_aten.h>
#include <executorch/runtime/platform/runtime.h>

#include "blob.h"
#include "sha256.h"

using namespace executorch::runtime;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using namespace opdb::delegate;
typedef std::vector<uint8_t> Bytes;

/* malloc for each piece, so that a sanitizer sees its ends. */
class Pieces final : public MemoryAllocator {
  public:
    Pieces() : MemoryAllocator(0, nullptr) {}
    ~Pieces() override {
        for (void *piece : pieces_)
            free(piece);
    }
    void *allocate(size_t size, size_t alignment) override {
        void *piece = nullptr;
        if (size > limit_ || posix_memalign(&piece, alignment < 8 ? 8 : alignment, size) != 0)
            return nullptr;
        pieces_.push_back(piece);
        return piece;
    }
    size_t count() const { return pieces_.size(); }

  private:
    const size_t limit_ = (size_t)1 << 30;
    std::vector<void *> pieces_;
};

/* Tensors as the records of a blob ask for. */
struct Arguments {
    struct One {
        std::vector<int32_t> sizes, strides;
        std::vector<uint8_t> order;
        Bytes data;
        std::unique_ptr<TensorImpl> impl;
        One(const Blob &blob, const Arg &arg)
            : sizes(arg.rank), strides(arg.rank), order(arg.rank) {
            int32_t stride = 1;
            for (uint32_t i = arg.rank; i-- > 0; stride *= sizes[i]) {
                sizes[i] = (int32_t)blob.words(arg.dims)[i];
                strides[i] = stride;
                order[i] = (uint8_t)i;
            }
            data.resize((size_t)stride * item_size(arg.scalar_type) + 1);
            for (size_t i = 0; arg.kind == 0 && arg.scalar_type == 6 && i + 4 < data.size(); i += 4) {
                const float value = (float)(i % 64) / 32 - 1;
                memcpy(&data[i], &value, sizeof value);
            }
            impl = std::make_unique<TensorImpl>((ScalarType)arg.scalar_type, arg.rank, sizes.data(), data.data(),
                                                order.data(), strides.data());
        }
    };
    std::vector<std::unique_ptr<One>> tensors;
    std::vector<EValue> values;
    std::vector<EValue *> list;
    std::vector<uint8_t> outputs;

    explicit Arguments(const Blob &blob) {
        for (const Arg &arg : blob.args()) {
            tensors.push_back(std::make_unique<One>(blob, arg));
            outputs.push_back(arg.kind == 1);
        }
        for (auto &one : tensors)
            values.emplace_back(Tensor(one->impl.get()));
        for (EValue &value : values)
            list.push_back(&value);
    }
    Bytes results() const {
        Bytes all;
        for (size_t i = 0; i < tensors.size(); ++i)
            if (outputs[i])
                all.insert(all.end(), tensors[i]->data.begin(), tensors[i]->data.end());
        return all;
    }
};

static BackendInterface *backend() { return get_backend_class("OpdbBackend"); }

struct Loaded {
    Pieces pieces;
    FreeableBuffer buffer;
    DelegateHandle *handle = nullptr;
    explicit Loaded(const Bytes &blob) : buffer(blob.data(), blob.size(), nullptr) {
        BackendInitContext context(&pieces);
        auto made = backend()->init(context, &buffer, {});
        if (made.ok())
            handle = made.get();
    }
    ~Loaded() { backend()->destroy(handle); }
    Error run(Arguments &args) {
        const size_t before = pieces.count();
        BackendExecutionContext context;
        const Error error = backend()->execute(context, handle, {args.list.data(), args.list.size()});
        if (pieces.count() != before)
            abort(); /* execute allocates nothing */
        return error;
    }
};

static int run(const Bytes &bytes) {
    Blob blob;
    if (blob.read(bytes.data(), bytes.size()) != Error::Ok)
        return 1;
    Loaded loaded(bytes);
    Arguments args(blob);
    if (loaded.handle == nullptr || loaded.run(args) != Error::Ok)
        return 1;
    for (size_t i = 0; i < args.tensors.size(); ++i)
        for (size_t k = 0; args.outputs[i] && k + 4 < args.tensors[i]->data.size(); k += 4) {
            float value;
            memcpy(&value, &args.tensors[i]->data[k], sizeof value);
            printf("%.6g\n", (double)value);
        }
    return 0;
}

static int threads(const Bytes &bytes, int n) {
    Blob blob;
    if (blob.read(bytes.data(), bytes.size()) != Error::Ok)
        return 1;
    std::atomic<int> wrong{0};
    const auto work = [&] {
        for (int load = 0; load < 4; ++load) {
            Loaded loaded(bytes);
            Arguments args(blob);
            Bytes first;
            for (int i = 0; i < n / 4; ++i) {
                wrong += loaded.handle == nullptr || loaded.run(args) != Error::Ok;
                if (i == 0)
                    first = args.results();
                wrong += args.results() != first;
            }
        }
    };
    std::thread one(work), two(work);
    one.join();
    two.join();
    printf("%d wrong\n", wrong.load());
    return wrong.load() != 0;
}

static void seal(Bytes &blob) {
    Sha256 sum;
    sum.add(blob.data(), offsetof(HeaderRecord, sha256));
    sum.add(blob.data() + sizeof(HeaderRecord), blob.size() - sizeof(HeaderRecord));
    sum.digest(blob.data() + offsetof(HeaderRecord, sha256));
}

/* Small numbers, the largest, and bits: in records four bytes are a field. */
static void change(Bytes &blob, std::mt19937 &random) {
    const size_t at = sizeof(HeaderRecord) + random() % (blob.size() - sizeof(HeaderRecord) - 4) / 4 * 4;
    uint32_t field;
    memcpy(&field, &blob[at], sizeof field);
    const uint32_t kinds[] = {field + 1, field - 1, field ^ (1u << random() % 32), 0xffffffff, (uint32_t)random() % 64,
                              0x7fffffff};
    field = kinds[random() % 6];
    memcpy(&blob[at], &field, sizeof field);
}

static int fuzz(const Bytes &original, int n, unsigned seed) {
    std::mt19937 random(seed);
    int ran = 0, loaded_ones = 0;
    for (int i = 0; i < n; ++i) {
        Bytes bytes = original;
        for (unsigned k = random() % 3 + 1; k > 0; --k)
            change(bytes, random);
        seal(bytes);
        Loaded loaded(bytes);
        if (loaded.handle == nullptr)
            continue;
        ++loaded_ones;
        Blob blob;
        if (blob.read(bytes.data(), bytes.size()) != Error::Ok)
            return 1;
        Arguments args(blob);
        ran += loaded.run(args) == Error::Ok && loaded.run(args) == Error::Ok;
    }
    printf("%d loaded, %d ran\n", loaded_ones, ran);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    executorch::runtime::runtime_init();
    Bytes blob;
    FILE *const file = fopen(argv[1], "rb");
    if (file == nullptr)
        return 2;
    for (int c; (c = fgetc(file)) != EOF;)
        blob.push_back((uint8_t)c);
    fclose(file);
    if (strcmp(argv[2], "run") == 0)
        return run(blob);
    if (strcmp(argv[2], "threads") == 0 && argc == 4)
        return threads(blob, atoi(argv[3]));
    if (strcmp(argv[2], "fuzz") == 0 && argc == 5)
        return fuzz(blob, atoi(argv[3]), (unsigned)atoi(argv[4]));
    return 2;
}
