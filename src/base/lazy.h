/* Libraries that only some commands need, opened when such a command runs: linked, they would cost every other run
 * megabytes and milliseconds. The functions keep their types; a list names each once:
 *
 *	#define CAPSTONE(X) X(cs_, open) X(cs_, disasm)
 *	static struct { CAPSTONE(LAZY_MEMBER) } capstone;
 *	static const char *const capstone_names[] = { CAPSTONE(LAZY_NAME) };
 *	TRY(lazy_load(SO_CAPSTONE, capstone_names, ARRAY_SIZE(capstone_names), &capstone));
 *	capstone.open(...)
 *
 * What is open stays open. Threads may load side by side. */
#ifndef BASE_LAZY_H
#define BASE_LAZY_H

#include "base/err.h"
#include "base/libraries.h" /* SO_...; made by the build */
#include <stddef.h>

#define LAZY_MEMBER(prefix, function) __typeof__(prefix##function) *function;
#define LAZY_NAME(prefix, function) #prefix #function,

/* Fills table, an array of n function pointers in the order of names; does nothing when that was done before.
 * ERR_NOT_FOUND (the table stays empty) when the library or a function is not there. */
struct err *lazy_load(const char *soname, const char *const *names, size_t n, void *table) MUST_USE;

#endif
