/* Writes Qualcomm's latency estimate of each graph that a program finalizes, even if the program asks for
 * none.
 *
 * If OPDB_QNN_ESTIMATES names a file, each QnnGraph_finalize gets a profile of its own if the program gave
 * none, and a line of JSON is appended to the file: {"code": 0, "ops": {"Conv2d": 52, ...}, "events":
 * {"2006": 1547003, ...}}.  Events are those of type 2000 to 2099 (names: specs/abi/htp.yaml;
 * docs/guides/cost.md says what they are worth).  Ops are counted per graph, from its first node to its
 * finalization. */
#ifndef OPDB_FORWARD_ESTIMATES_H
#define OPDB_FORWARD_ESTIMATES_H

typedef void (*opdb_function)(void);

/* Puts wrappers into a table of `n` functions of QnnInterface if the variable is set; else changes nothing.
 */
void opdb_estimates_install(opdb_function *functions, unsigned n);

#endif
