/* Calls the functions and kernels of a Cloud AI package as a compiler and a core do, in a process of its own.
 *
 * Standard input: one line per call with its arguments (opdb.plugins.cloud_ai.check.host writes them).
 * Descriptor 3: a line of JSON for each answer. Each step is announced by "begin", so that a crash can be
 * located.
 */
#include ADAPTER

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HOST_RECORDS
#include "names.h"
#endif

namespace {

constexpr int THREADS = 4;
constexpr size_t ALIGNMENT = 128, PAGE = 4096;
constexpr uint8_t CANARY = 0xC7;

FILE *answers;

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text)
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (c >= 32 && c < 127)
            out += c;
        else
            out += '?';
    return out + '"';
}

void say(const std::string &line) {
    std::fprintf(answers, "%s\n", line.c_str());
    std::fflush(answers);
}

void begin(const std::string &step) { say("{\"begin\": " + quoted(step) + "}"); }

/* ---- buffers: no access to the pages around them; known bytes between.
 * ------------------------------------------- */

std::vector<const Buffer *> guarded;

size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

void allocate(Buffer *b, const std::string &name, size_t size) {
    b->name = name;
    b->size = size;
#ifdef HOST_GUARDS
    const size_t inside = rounded(rounded(size, ALIGNMENT) + (size == 0), PAGE);
    void *all = mmap(nullptr, inside + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) {
        say("{\"failed\": " + quoted("no memory for " + name) + "}");
        std::exit(4);
    }
    b->begin = static_cast<uint8_t *>(all);
    b->end = b->begin + inside + 2 * PAGE;
    std::fill(b->begin + PAGE, b->end - PAGE, CANARY);
    b->data = b->end - PAGE - rounded(size, ALIGNMENT);
    mprotect(b->begin, PAGE, PROT_NONE);
    mprotect(b->end - PAGE, PAGE, PROT_NONE);
    guarded.push_back(b);
#else
    b->data = static_cast<uint8_t *>(std::malloc(size + (size == 0))); /* the sanitizer guards it */
#endif
}

/* Reports which known bytes around a buffer were changed. */
void check_canaries(const Buffer &b) {
    if (b.begin == nullptr)
        return;
    for (const uint8_t *p = b.begin + PAGE; p < b.data; p++)
        if (*p != CANARY) {
            say("{\"outside\": " + quoted(b.name) + ", \"by\": -" + std::to_string(b.data - p) + "}");
            break;
        }
    for (const uint8_t *p = b.data + b.size; p < b.end - PAGE; p++)
        if (*p != CANARY) {
            say("{\"outside\": " + quoted(b.name) + ", \"by\": " + std::to_string(p - b.data - b.size) + "}");
            break;
        }
}

#ifdef HOST_GUARDS
/* Names the buffer whose guard was hit.  The process ends in any case. */
void on_signal(int number, siginfo_t *info, void *) {
    const auto *at = static_cast<const uint8_t *>(info->si_addr);
    for (const Buffer *b : guarded)
        if (at >= b->begin && at < b->end) {
            const long by = at < b->data ? at - b->data : at - b->data - static_cast<long>(b->size);
            std::fprintf(answers, "{\"outside\": \"%s\", \"by\": %ld}\n", b->name.c_str(), by);
        }
    std::fflush(answers);
    signal(number, SIG_DFL);
    raise(number);
}
#endif

/* ---- the barrier of an AIC core
 * ------------------------------------------------------------------------------------ */

/* Only the barrier may order the threads, or ThreadSanitizer misses races: a lock taken at the end of a
 * thread would order all its work before threads that wake up later. So threads arrive with atomics, and the
 * main thread releases those that wait for one that has ended. */
std::atomic<int> arrived, generation, ended, wrong_ids;
int counts[THREADS];
thread_local int own_id = -1;

void release() {
    arrived.store(0, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
}

/* Waits for all threads that have not returned; the counts tell which ones returned early. */
void sync_thread(int32_t id) {
    if (own_id >= 0)
        counts[own_id]++;
    if (id != own_id)
        wrong_ids.fetch_add(1, std::memory_order_relaxed);
    const int mine = generation.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == THREADS)
        release();
    while (generation.load(std::memory_order_acquire) == mine)
        sched_yield();
}

struct Worker {
    Job *job;
    void *kernel;
    int id;
};

void *work(void *arg) {
    const auto *w = static_cast<Worker *>(arg);
    own_id = w->id;
    api::run(*w->job, w->kernel, true, w->id, sync_thread);
    ended.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
}

/* Releases threads that wait for one that has ended, until all have ended. */
void see_to_the_end() {
    for (int gone = 0; gone < THREADS; gone = ended.load(std::memory_order_relaxed)) {
        if (gone > 0 && arrived.load(std::memory_order_acquire) == THREADS - gone)
            release();
        usleep(50);
    }
}

void run_threads(Job &job, void *kernel) {
    arrived = ended = wrong_ids = 0;
    std::fill(counts, counts + THREADS, 0);
    Worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = {&job, kernel, i};
        pthread_create(&threads[i], nullptr, work, &workers[i]);
    }
    see_to_the_end();
    for (const pthread_t t : threads)
        pthread_join(t, nullptr);
    std::string out = "{\"barriers\": [";
    for (int i = 0; i < THREADS; i++)
        out += (i != 0 ? ", " : "") + std::to_string(counts[i]);
    say(out + "], \"wrong_ids\": " + std::to_string(wrong_ids) + "}");
}

/* ---- the job
 * ------------------------------------------------------------------------------------------------------- */

size_t width(int dtype) {
    static const size_t widths[] = {4, 2, 2, 1, 1, 2, 4, 4, 8, 1, 8};
    return dtype >= 0 && dtype < 11 ? widths[dtype] : 1;
}

size_t bytes(const std::vector<int32_t> &dims, int rank, int dtype) {
    size_t n = width(dtype);
    for (int i = 0; i < rank; i++)
        n *= static_cast<size_t>(dims[static_cast<size_t>(i)]);
    return n;
}

/* The words of a line. */
struct Words {
    char *at;

    const char *word() {
        at += std::strspn(at, " ");
        char *begin = at;
        at += std::strcspn(at, " ");
        if (*at != 0)
            *at++ = 0;
        return begin;
    }
    std::string rest() { return at + std::strspn(at, " "); }
    bool more() const { return at[std::strspn(at, " ")] != 0; }
    int whole() { return std::atoi(word()); }
    float real() { return std::strtof(word(), nullptr); }
};

/* Values of a parameter; a string is the rest of the line. */
void read_values(Words &in, Param &p) {
    if (p.dtype == DTString) {
        p.text = in.rest();
        p.data.assign(p.text.begin(), p.text.end());
        p.data.push_back(0);
        return;
    }
    while (in.more()) {
        const double value = std::strtod(in.word(), nullptr);
        const auto f = static_cast<float>(value);
        const auto i = static_cast<int32_t>(value);
        const bool b = value != 0;
        const void *from = &i;
        if (p.dtype == DTFloat32)
            from = &f;
        else if (p.dtype == DTBool)
            from = &b;
        const auto *raw = static_cast<const uint8_t *>(from);
        p.data.insert(p.data.end(), raw, raw + width(p.dtype));
    }
    if (p.data.empty())
        p.data.resize(8); /* an empty list has an address, too */
}

void read_line(Job &job, const std::string &word, Words &in) {
    if (word == "functions")
        job.functions = in.rest();
    else if (word == "kernel")
        job.kernel = in.rest();
    else if (word == "symbol")
        job.symbol = in.word();
    else if (word == "from")
        job.inputs_file = in.rest();
    else if (word == "to")
        job.outputs_file = in.rest();
    else if (word == "do")
        job.todo.push_back(in.rest());
    else if (word == "input") {
        Input t;
        t.name = in.word();
        t.dtype = in.whole();
        t.scale = in.real();
        t.offset = in.real();
        t.rank = in.whole();
        for (int i = 0; i < t.rank; i++)
            t.dims.push_back(in.whole());
        job.inputs.push_back(t);
    } else if (word == "output") {
        Output t;
        t.name = in.word();
        t.scale = in.real();
        t.offset = in.real();
        t.rank = t.max_dims = in.whole();
        t.dims.assign(static_cast<size_t>(t.max_dims) + 16, 0); /* room for a wrong rank */
        job.outputs.push_back(t);
    } else if (word == "param") {
        Param p;
        p.name = in.word();
        p.dtype = in.whole();
        p.size = in.whole();
        read_values(in, p);
        job.params.push_back(p);
    } else if (word == "scratch") {
        Scratch s;
        s.name = in.word();
        s.buffer.size = std::strtoull(in.word(), nullptr, 10);
        job.scratch.push_back(s);
    } else if (word == "implementation") {
        KernelInfo k;
        k.name = in.word();
        k.backend = in.word();
        job.kernels.push_back(k);
    }
}

void read_job(Job &job) {
    char *line = nullptr;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        line[std::strcspn(line, "\n")] = 0;
        Words in{line};
        const std::string word = in.word();
        read_line(job, word, in);
    }
    std::free(line);
}

void allocate_all(Job &job) {
    FILE *file = std::fopen(job.inputs_file.c_str(), "rb");
    for (Input &t : job.inputs) {
        allocate(&t.buffer, t.name, bytes(t.dims, t.rank, t.dtype));
        t.given.resize(t.buffer.size);
        if (file == nullptr || std::fread(t.given.data(), 1, t.buffer.size, file) != t.buffer.size)
            say("{\"failed\": " + quoted("too few bytes for " + t.name) + "}");
    }
    for (Output &t : job.outputs)
        allocate(&t.buffer, t.name, bytes(t.dims, t.rank, t.dtype));
    for (Scratch &s : job.scratch)
        allocate(&s.buffer, s.name, s.buffer.size);
    if (file != nullptr)
        std::fclose(file);
}

/* ---- steps
 * ---------------------------------------------------------------------------------------------------------
 */

void *opened(const std::string &path) {
    begin("load " + path);
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        say("{\"failed\": " + quoted(dlerror()) + "}");
        std::exit(3);
    }
    return library;
}

/* The readable part of a pointer that may not be a string. */
std::string readable(const char *text) {
    int ends[2];
    if (text == nullptr || pipe(ends) != 0)
        return "";
    std::string out;
    char c = 1;
    while (out.size() < 200 && write(ends[1], text + out.size(), 1) == 1 && read(ends[0], &c, 1) == 1 &&
           c != 0)
        out += c;
    close(ends[0]);
    close(ends[1]);
    return c == 0 ? out : out + "...(no end)";
}

void answer_infer(Job &job) {
    const bool ok = api::infer(job);
    std::string out = std::string("{\"infer\": ") + (ok ? "true" : "false") + ", \"outputs\": [";
    for (size_t i = 0; i < job.outputs.size(); i++) {
        const Output &t = job.outputs[i];
        out += std::string(i != 0 ? ", " : "") + "{\"dtype\": " + std::to_string(t.dtype) +
               ", \"rank\": " + std::to_string(t.rank) + ", \"dims\": [";
        for (int d = 0; d < t.rank && d < static_cast<int>(t.dims.size()); d++)
            out += (d != 0 ? ", " : "") + std::to_string(t.dims[static_cast<size_t>(d)]);
        out += "]}";
    }
    say(out + "]}");
}

void answer_verify(Job &job) {
#ifdef HOST_RECORDS
    std::vector<std::string> ours;
    for (const Param &p : job.params) {
        ours.push_back(p.name);
        if (!p.text.empty())
            ours.push_back(p.text);
    }
    record(ours);
#endif
    const bool ok = api::verify(job);
    std::string out = std::string("{\"verify\": ") + (ok ? "true" : "false") + ", \"asked\": [";
#ifdef HOST_RECORDS
    for (const auto &pair : recorded())
        out += (out.back() == ']' ? ", [" : "[") + quoted(pair.first) + ", " + quoted(pair.second) + "]";
#endif
    say(out + "]}");
}

/* Fills outputs and scratch buffers with a byte, runs the kernel, reports what changed, and appends the
 * outputs. */
void answer_run(Job &job, void *kernel, bool aic, int fill) {
    for (Input &t : job.inputs)
        std::copy(t.given.begin(), t.given.end(), t.buffer.data);
    for (Output &t : job.outputs)
        std::fill(t.buffer.data, t.buffer.data + t.buffer.size, static_cast<uint8_t>(fill));
    for (Scratch &s : job.scratch)
        std::fill(s.buffer.data, s.buffer.data + s.buffer.size, static_cast<uint8_t>(fill ^ 0xFF));
    begin("run " + job.symbol);
    if (aic)
        run_threads(job, kernel);
    else
        api::run(job, kernel, false, 0, sync_thread);
    for (const Input &t : job.inputs)
        if (!std::equal(t.given.begin(), t.given.end(), t.buffer.data))
            say("{\"changed\": " + quoted(t.name) + "}");
    FILE *file = std::fopen(job.outputs_file.c_str(), "ab");
    for (const Output &t : job.outputs) {
        if (file == nullptr || std::fwrite(t.buffer.data, 1, t.buffer.size, file) != t.buffer.size)
            say("{\"failed\": " + quoted("no room for " + t.name) + "}");
        check_canaries(t.buffer);
    }
    if (file != nullptr)
        std::fclose(file);
    for (const Input &t : job.inputs)
        check_canaries(t.buffer);
    for (const Scratch &s : job.scratch)
        check_canaries(s.buffer);
    say("{\"ran\": " + std::to_string(fill) + "}");
}

} // namespace

int main(int argc, char **argv) {
    answers = argc == 2 ? fdopen(std::atoi(argv[1]), "w") : nullptr;
    if (answers == nullptr)
        return 2;
    Job job;
    read_job(job);
#ifdef HOST_GUARDS
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
#endif
    void *library = opened(job.functions);
    std::string missing;
    if (!api::open(library, &missing)) {
        say("{\"missing\": " + quoted(missing) + "}");
        return 3;
    }
    void *kernel = nullptr;
    bool allocated = false;
    for (const std::string &step : job.todo) {
        std::string copy = step;
        Words words{copy.data()};
        const std::string what = words.word(), which = words.word();
        const int fill = words.whole();
        begin(step);
        if (what == "infer")
            answer_infer(job);
        else if (what == "verify")
            answer_verify(job);
        else if (what == "select") {
            const char *name = api::select(job, which.c_str());
            say("{\"select\": " + quoted(which) + ", \"null\": " + (name == nullptr ? "true" : "false") +
                ", \"name\": " + quoted(readable(name)) + "}");
        } else if (what == "run") {
            if (kernel == nullptr) {
                kernel = dlsym(opened(job.kernel), job.symbol.c_str());
                if (kernel == nullptr) {
                    say("{\"missing\": " + quoted(job.symbol) + "}");
                    return 3;
                }
            }
            if (!allocated)
                allocate_all(job);
            allocated = true;
            answer_run(job, kernel, which == "AIC", fill);
        }
    }
    say("{\"end\": true}");
    return 0;
}
