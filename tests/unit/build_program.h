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
	bool code;	    /* for x86-64 */
	uint32_t n_refs;    /* types of others: many make indexes wide */
	uint32_t n_methods; /* likewise; only counted */
};
/* PE32 of any machine, or PE32+ for x86-64; one section, rva 0x2000 at file offset 0x200. */
void build_typed_assembly(const struct build_types *types, struct buf *out);

struct build_part {
	const char *path;
	const struct buf *bytes;
	bool packed;
};
/* The list of a single-file program's files, which begin at `first`, one behind the other. major is 2 or 6. */
void build_bundle_list(const struct build_part *parts, size_t n, uint32_t major, uint64_t first, struct buf *out);
/* What stands in the data of a single-file program, behind the place of its list. */
#define BUILD_BUNDLE_MARK                                                                                              \
	0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32, 0x13, 0xf5,    \
		0xb9, 0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae
/* An ELF file with one segment of data, the files, the list. */
void build_bundle(const struct build_part *parts, size_t n, uint32_t major, struct buf *out);
