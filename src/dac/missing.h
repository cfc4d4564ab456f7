#pragma once
/* Which files would help to read a process, a core or a file, and are not on this machine: debug files of stripped
 * libraries, PDBs, a data-access library; of a core from elsewhere the libraries and assemblies themselves.
 *
 * Looks only. */

#include "base/map.h"
#include "base/vec.h"
#include "symbols/cache.h"

struct target;

struct dac_missing {
	VEC(struct symbol_file) files;
	size_t here; /* of the same kinds, that are there */
	bool wanted[SYMBOL_KINDS];
	struct strtab keys;
};
void dac_missing_fini(struct dac_missing *m);

struct err *dac_missing_of_process(struct dac_missing *m, const struct target *target) MUST_USE;
/* A library, a program, an assembly or a core. */
struct err *dac_missing_of_file(struct dac_missing *m, const char *path) MUST_USE;
struct err *dac_missing_of_core(struct dac_missing *m, const char *path) MUST_USE;
