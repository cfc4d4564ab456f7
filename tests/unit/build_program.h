#pragma once
/* Writes what programs are made of: assemblies that define types, and single-file programs. */

#include "base/buf.h"

struct build_type {
	const char *space, *name; /* "+Inner": one that stands in another */
};
struct build_types {
	const struct build_type *v;
	size_t n;
	bool wide;	    /* heaps */
	uint32_t n_refs;    /* types of others: many make indexes wide */
	uint32_t n_methods; /* likewise; only counted */
};
/* PE32 with one section, rva 0x2000 at file offset 0x200. */
void build_typed_assembly(const struct build_types *types, struct buf *out);

struct build_part {
	const char *path;
	const struct buf *bytes;
	bool packed;
};
/* The list of a single-file program's files, which begin at `first`, one behind the other. major is 2 or 6. */
void build_bundle_list(const struct build_part *parts, size_t n, uint32_t major, uint64_t first, struct buf *out);
/* An ELF file with one segment of data, the files, the list. */
void build_bundle(const struct build_part *parts, size_t n, uint32_t major, struct buf *out);
