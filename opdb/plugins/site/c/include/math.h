#ifndef OPDB_WEB_MATH_H
#define OPDB_WEB_MATH_H
#define isnan(x) __builtin_isnan(x)
#endif
