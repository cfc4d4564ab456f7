#pragma once
/* Writes portable PDBs and assemblies that name them. */

#include "base/buf.h"

struct build_pdb_point {
	uint32_t il;
	uint32_t line; /* 0 = hidden */
	uint32_t column;
	uint32_t document; /* row number from 1; 0 = as before */
};
struct build_pdb_local {
	uint32_t slot;
	const char *name;
	uint32_t il, len; /* of its scope */
};
struct build_pdb_method { /* row number = place in the list + 1 */
	const struct build_pdb_point *points;
	size_t n_points;
	const struct build_pdb_local *locals;
	size_t n_locals;
	uint32_t document; /* 0: it says so in its points */
	uint32_t kickoff;  /* row of the method of which it is the state machine */
	const uint32_t *awaits;
	size_t n_awaits;
};
struct build_pdb {
	uint8_t id[20];
	const char *const *documents; /* with '/' between the parts */
	size_t n_documents;
	const struct build_pdb_method *methods;
	size_t n_methods;
	uint32_t assembly_rows; /* of other tables: many make indexes wide */
	bool wide;		/* heaps too */
};
void build_pdb(const struct build_pdb *b, struct buf *out);

/* An assembly with a debug directory: the id (NULL = none), and the PDB inside (NULL = none). */
void build_assembly(const uint8_t *id, const struct buf *embedded, struct buf *out);
