/* Lists of the rule language; see opdb/lists.h. */
#include "opdb/lists.h"

#include "opdb/checked.h"

const opdb_tensor opdb_no_tensor = {0,  NULL, OPDB_F32, OPDB_ENCODING_NONE, true, false, false,
                                    -1, NULL, NULL};

bool opdb_same(opdb_ints a, opdb_ints b) {
    if (a.n != b.n)
        return false;
    for (int64_t i = 0; i < a.n; i++)
        if (a.v[i] != b.v[i])
            return false;
    return true;
}

bool opdb_unique(opdb_ints s) {
    for (int64_t i = 1; i < s.n; i++)
        for (int64_t j = 0; j < i; j++)
            if (s.v[i] == s.v[j])
                return false;
    return true;
}

bool opdb_contains(opdb_ints s, int64_t value) {
    for (int64_t i = 0; i < s.n; i++)
        if (s.v[i] == value)
            return true;
    return false;
}

bool opdb_increasing(opdb_ints s) {
    for (int64_t i = 1; i < s.n; i++)
        if (s.v[i] <= s.v[i - 1])
            return false;
    return true;
}

bool opdb_broadcastable(opdb_ints a, opdb_ints b) {
    for (int64_t i = 1; i <= opdb_min(a.n, b.n); i++) {
        int64_t p = a.v[a.n - i], q = b.v[b.n - i];
        if (p != q && p != 1 && q != 1)
            return false;
    }
    return true;
}

int64_t opdb_sum(opdb_ints s, bool *ok) {
    bool fits = true;
    int64_t r = 0;
    for (int64_t i = 0; i < s.n && fits; i++)
        r = opdb_add(r, s.v[i], &fits);
    *ok &= fits;
    return r;
}

int64_t opdb_prod(opdb_ints s, bool *ok) {
    bool fits = true;
    int64_t r = 1;
    for (int64_t i = 0; i < s.n && fits; i++)
        r = opdb_mul(r, s.v[i], &fits);
    *ok &= fits;
    return r;
}

int64_t opdb_list_min(opdb_ints s, bool *ok) {
    int64_t r = opdb_at(s, 0, ok);
    for (int64_t i = 1; i < s.n; i++)
        r = opdb_min(r, s.v[i]);
    return r;
}

int64_t opdb_list_max(opdb_ints s, bool *ok) {
    int64_t r = opdb_at(s, 0, ok);
    for (int64_t i = 1; i < s.n; i++)
        r = opdb_max(r, s.v[i]);
    return r;
}

/* Makes room for n values; 0 values, and ok cleared, where they do not fit. */
static void resize(opdb_list *list, int64_t n, bool *ok) {
    bool fits = n >= 0 && n <= OPDB_MAX_LIST;
    list->n = fits ? n : 0;
    *ok &= fits;
}

opdb_list opdb_gather(opdb_ints s, opdb_ints idx, bool *ok) {
    opdb_list r;
    bool found = true;
    resize(&r, idx.n, ok);
    for (int64_t i = 0; i < r.n; i++)
        r.v[i] = opdb_at(s, idx.v[i], &found);
    if (!found)
        r.n = 0;
    *ok &= found;
    return r;
}

opdb_list opdb_replace(opdb_ints s, int64_t i, int64_t value, bool *ok) {
    opdb_list r;
    bool found = true;
    i = opdb_index(i, s.n, &found);
    *ok &= found;
    resize(&r, found ? s.n : 0, ok);
    for (int64_t k = 0; k < r.n; k++)
        r.v[k] = k == i ? value : s.v[k];
    return r;
}

opdb_list opdb_broadcast(opdb_ints a, opdb_ints b, bool *ok) {
    opdb_list r;
    bool fits = opdb_broadcastable(a, b);
    *ok &= fits;
    resize(&r, fits ? opdb_max(a.n, b.n) : 0, ok);
    for (int64_t i = 1; i <= r.n; i++) {
        int64_t p = i <= a.n ? a.v[a.n - i] : 1, q = i <= b.n ? b.v[b.n - i] : 1;
        r.v[r.n - i] = p == 1 ? q : p;
    }
    return r;
}

opdb_list opdb_range(int64_t lo, int64_t hi, bool *ok) {
    opdb_list r;
    bool fits = true;
    int64_t n = hi > lo ? opdb_sub(hi, lo, &fits) : 0;
    resize(&r, fits ? n : -1, ok);
    for (int64_t i = 0; i < r.n; i++)
        r.v[i] = lo + i;
    return r;
}

opdb_list opdb_cat(opdb_ints a, opdb_ints b, bool *ok) {
    opdb_list r;
    resize(&r, opdb_add(a.n, b.n, ok), ok);
    for (int64_t i = 0; i < r.n; i++)
        r.v[i] = i < a.n ? a.v[i] : b.v[i - a.n];
    return r;
}

opdb_list opdb_reduced(opdb_ints s, opdb_ints axes, bool keep_dims, bool *ok) {
    opdb_list r;
    bool valid = opdb_unique(axes);
    for (int64_t i = 0; i < axes.n; i++)
        valid &= axes.v[i] >= 0 && axes.v[i] < s.n;
    *ok &= valid;
    resize(&r, valid ? s.n : 0, ok); /* no longer than s, or [1] */
    if (!valid || r.n != s.n)
        return r;
    r.n = 0;
    for (int64_t i = 0; i < s.n; i++) {
        bool over = opdb_contains(axes, i);
        if (!over || keep_dims)
            r.v[r.n++] = over ? 1 : s.v[i];
    }
    if (r.n == 0)
        r.v[r.n++] = 1;
    return r;
}

opdb_list opdb_expand(opdb_ints s, int64_t n, bool *ok) {
    opdb_list r;
    bool fits = s.n == n || s.n == 1;
    *ok &= fits;
    resize(&r, fits ? n : 0, ok);
    for (int64_t i = 0; i < r.n; i++)
        r.v[i] = s.v[s.n == 1 ? 0 : i];
    return r;
}
