#include "plan.h"

#include <algorithm>

namespace opdb::delegate {

static uint64_t aligned(uint64_t n) { return (n + 15) / 16 * 16; }

static bool together(const Piece &a, const Piece &b) { return a.first <= b.last && b.first <= a.last; }

uint64_t plan(Piece *pieces, size_t n) {
    std::sort(pieces, pieces + n, [](const Piece &a, const Piece &b) {
        return a.size != b.size ? a.size > b.size : a.owner < b.owner;
    });
    uint64_t total = 0;
    /* pieces[0 .. i) are placed, in the order of their offsets. */
    for (size_t i = 0; i < n; ++i) {
        Piece piece = pieces[i];
        uint64_t at = 0;
        for (size_t k = 0; k < i; ++k) {
            if (!together(piece, pieces[k]))
                continue;
            if (at + piece.size <= pieces[k].offset)
                break; /* it fits before this one */
            at = std::max(at, aligned(pieces[k].offset + pieces[k].size));
        }
        piece.offset = at;
        total = std::max(total, at + piece.size);
        size_t place = i;
        for (; place > 0 && pieces[place - 1].offset > at; --place)
            pieces[place] = pieces[place - 1];
        pieces[place] = piece;
    }
    return total;
}

} // namespace opdb::delegate
