/* How generated validators report: one violation per broken rule, and the values that broke it as
 * `x.rank = 3, axes = [3]`.  A text that does not fit ends in "...". */
#ifndef OPDB_REPORT_H
#define OPDB_REPORT_H

#include "opdb/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds a violation.  `rule`, `sentence` and `why` are kept as pointers and must outlive the report.
 * Returns NULL, and counts it in `dropped`, when the report is full. */
opdb_violation *opdb_broken(opdb_report *report, const char *rule, const char *sentence, const char *why,
                            bool undecidable, opdb_strength strength);

/* Adds a fault of a vendor library that the op meets.  The texts are kept as pointers. */
opdb_violation *opdb_hit(opdb_report *report, const char *erratum, const char *title, const char *why,
                         const char *effect);

/* Whether a violation is more than a warning; those that were dropped count. */
bool opdb_is_broken(const opdb_report *report);

/* A violation on one line: the rule, why, what must hold, the values; cut where it does not fit. */
void opdb_violation_text(const opdb_violation *v, char *text, size_t size);

/* Append one value.  `v` may be NULL: nothing happens. */
void opdb_got_int(opdb_violation *v, const char *name, int64_t value);
void opdb_got_ints(opdb_violation *v, const char *name, opdb_ints value); /* [1, 2] */
void opdb_got_real(opdb_violation *v, const char *name, double value);    /* %.9g; inf, -inf, nan */
void opdb_got_name(opdb_violation *v, const char *name, const char *value);
void opdb_got_bool(opdb_violation *v, const char *name, bool value); /* true, false */

#ifdef __cplusplus
}
#endif
#endif
