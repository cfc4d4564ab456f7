#pragma once
/* The files that code comes from, as the runtime lists them: the id of a module in, its path and the id of its PDB out.
 * Bounded. An id may be used again
 * after an unload: what was told last counts. */

#include "base/map.h"
#include "base/vec.h"
#include "nettrace/nettrace.h"

#define MODULE_PDB_BYTES 16
struct clr_module_file {
	const char *path;
	const uint8_t *pdb; /* MODULE_PDB_BYTES; NULL = not told */
};

struct clr_modules_entry {
	uint32_t path; /* in paths */
	bool has_pdb;
	uint8_t pdb[MODULE_PDB_BYTES];
};
struct clr_modules {
	struct map_u64 by_id; /* -> place in v + 1 */
	VEC(struct clr_modules_entry) v;
	struct strtab paths;
};
void clr_modules_free(struct clr_modules *m);
/* Takes events of modules that are loaded or listed, ignores all others. */
void clr_modules_event(struct clr_modules *m, const struct nettrace_event *event);
/* False when the module was not told. Valid until the next event. */
bool clr_modules_find(const struct clr_modules *m, uint64_t id, struct clr_module_file *ret);
