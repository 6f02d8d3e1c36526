/* Reports of broken rules; see opdb/report.h. */
#include "opdb/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

opdb_violation *opdb_broken(opdb_report *report, const char *rule, const char *sentence, const char *why,
                            bool undecidable, opdb_strength strength) {
    if (report->n >= OPDB_MAX_VIOLATIONS) {
        report->dropped++;
        return NULL;
    }
    opdb_violation *v = &report->v[report->n++];
    v->rule = rule;
    v->sentence = sentence;
    v->why = why;
    v->undecidable = undecidable;
    v->strength = strength;
    v->erratum = v->effect = "";
    v->got[0] = '\0';
    return v;
}

opdb_violation *opdb_hit(opdb_report *report, const char *erratum, const char *title, const char *why,
                         const char *effect) {
    opdb_violation *v = opdb_broken(report, erratum, title, why, false, OPDB_ERRATUM);
    if (v != NULL) {
        v->erratum = erratum;
        v->effect = effect;
    }
    return v;
}

bool opdb_is_broken(const opdb_report *report) {
    for (size_t i = 0; i < report->n; i++)
        if (report->v[i].strength == OPDB_REQUIRE)
            return true;
    return report->dropped > 0;
}

/* Appends; what does not fit is cut and the end becomes "...", where later appends stop too. */
static void append(opdb_violation *v, const char *text) {
    const size_t room = OPDB_MAX_GOT - 1;
    size_t used = strlen(v->got), length = strlen(text);
    if (length <= room - used) {
        memcpy(v->got + used, text, length + 1);
        return;
    }
    memcpy(v->got + used, text, room - used);
    memcpy(v->got + room - 3, "...", 4);
}

static void append_int(opdb_violation *v, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    append(v, text);
}

/* Starts `name = `; false where there is nothing to write to. */
static bool start(opdb_violation *v, const char *name) {
    if (v == NULL)
        return false;
    if (v->got[0] != '\0')
        append(v, ", ");
    append(v, name);
    append(v, " = ");
    return true;
}

void opdb_got_int(opdb_violation *v, const char *name, int64_t value) {
    if (start(v, name))
        append_int(v, value);
}

void opdb_got_ints(opdb_violation *v, const char *name, opdb_ints value) {
    if (!start(v, name))
        return;
    append(v, "[");
    for (int64_t i = 0; i < value.n && strlen(v->got) < OPDB_MAX_GOT - 1; i++) {
        if (i > 0)
            append(v, ", ");
        append_int(v, value.v[i]);
    }
    append(v, "]");
}

void opdb_got_real(opdb_violation *v, const char *name, double value) {
    char text[32];
    if (!start(v, name))
        return;
    snprintf(text, sizeof text, "%.9g", value);
    for (char *c = text; *c != '\0'; c++)
        if (*c == ',')
            *c = '.';                       /* a locale's decimal comma */
    append(v, isnan(value) ? "nan" : text); /* C may write -nan */
}

void opdb_got_name(opdb_violation *v, const char *name, const char *value) {
    if (start(v, name))
        append(v, value);
}

void opdb_got_bool(opdb_violation *v, const char *name, bool value) {
    opdb_got_name(v, name, value ? "true" : "false");
}

void opdb_violation_text(const opdb_violation *v, char *text, size_t size) {
    snprintf(text, size, "%s: %s%s%s%s%s%s", v->rule, v->why, v->why[0] != '\0' ? " Rule: " : "", v->sentence,
             v->got[0] != '\0' ? "; got " : "", v->got, v->undecidable ? " (cannot be evaluated)" : "");
}
