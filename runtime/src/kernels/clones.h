/* A function of loops is compiled for several generations of x86-64; the loader takes the best one.  Without
 * contraction of a * b + c (-ffp-contract=off) they all give the same bits.  OPDB_NO_CLONES leaves one.
 *
 * OPDB_FUSED_CLONES: where a product and a sum may be one rounding, on machines that have it: products of
 * matrices and approximated functions, whose bounds hold for both. */
#ifndef OPDB_CLONES_H
#define OPDB_CLONES_H

#if !defined(OPDB_NO_CLONES) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 &&                \
    defined(__x86_64__) && defined(__gnu_linux__)
#define OPDB_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OPDB_CLONES
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define OPDB_FUSED_CLONES OPDB_CLONES __attribute__((optimize("fp-contract=fast")))
#else
#define OPDB_FUSED_CLONES OPDB_CLONES
#endif

#endif
