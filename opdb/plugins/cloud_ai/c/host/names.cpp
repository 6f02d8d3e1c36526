/* The string functions of C, replacing those of the C library: libraries that are loaded later call these,
 * too. */
#include "names.h"

namespace {

bool recording;
std::vector<std::string> given;
std::vector<std::pair<std::string, std::string>> found;

bool same(const char *a, const char *b) {
    while (*a != 0 && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

void keep(const std::string &ours, const char *theirs) {
    for (const auto &pair : found)
        if (same(pair.first.c_str(), ours.c_str()) && same(pair.second.c_str(), theirs))
            return;
    found.emplace_back(ours, theirs);
}

void compared(const char *a, const char *b) {
    if (!recording || a == nullptr || b == nullptr)
        return;
    recording = false; /* the containers may compare, too */
    for (const std::string &ours : given) {
        if (same(a, ours.c_str()))
            keep(ours, b);
        if (same(b, ours.c_str()))
            keep(ours, a);
    }
    recording = true;
}

int lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

int order(const char *a, const char *b, size_t most, bool fold) {
    for (size_t i = 0; i < most; i++) {
        const auto x = static_cast<unsigned char>(a[i]), y = static_cast<unsigned char>(b[i]);
        const int d = fold ? lower(x) - lower(y) : x - y;
        if (d != 0 || x == 0)
            return d;
    }
    return 0;
}

} // namespace

void record(const std::vector<std::string> &ours) {
    given = ours;
    found.clear();
    recording = true;
}

std::vector<std::pair<std::string, std::string>> recorded() {
    recording = false;
    return found;
}

extern "C" {
int strcmp(const char *a, const char *b) {
    compared(a, b);
    return order(a, b, static_cast<size_t>(-1), false);
}

int strncmp(const char *a, const char *b, size_t n) {
    compared(a, b);
    return order(a, b, n, false);
}

int strcasecmp(const char *a, const char *b) {
    compared(a, b);
    return order(a, b, static_cast<size_t>(-1), true);
}
}
