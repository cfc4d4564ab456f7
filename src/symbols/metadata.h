#pragma once
/* The metadata of assemblies and of portable PDBs (ECMA-335 II.24): its streams, and the types that an assembly
 * defines.
 *
 * Knows no process. Safe for hostile input. Not for threads. */

#include "base/cursor.h"
#include "base/err.h"

struct span {
	const uint8_t *p;
	size_t len;
};
struct metadata {
	struct span pdb, tables, strings, blobs, guids; /* p is NULL where there is none */
};
/* False when it is none, or damaged. Streams lie in the bytes, which the caller keeps. */
bool metadata_streams(const uint8_t *bytes, size_t len, struct metadata *ret);

#define METADATA_TABLES 64
/* The row counts of the tables whose bits are set; those of `from` up to `to` are kept. */
bool metadata_counts(struct cursor *c, uint64_t valid, uint32_t counts[METADATA_TABLES], unsigned from, unsigned to);

/* A part of a file that is an assembly: the whole, or that of a single-file program. */
struct assembly_file {
	int fd;
	uint64_t offset, size;
};
/* Types that are not nested; space is "" for those without a namespace. Texts are valid during the call. */
typedef void (*assembly_type)(void *user, const char *space, const char *name);
struct err *assembly_types(const struct assembly_file *file, assembly_type each, void *user) MUST_USE;
struct err *assembly_types_from_bytes(const uint8_t *bytes, size_t len, assembly_type each, void *user) MUST_USE;
