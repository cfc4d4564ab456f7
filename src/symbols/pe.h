#pragma once
/* One PE file: its debug directory; with ReadyToRun code also the table of its functions and the runtime's unwind data
 * for them. Safe for hostile input.
 *
 * Knows no process. Takes bytes that the caller keeps. */

#include "base/base.h"

struct pe {
	const uint8_t *bytes;
	size_t len;
	struct pe_section {
		uint32_t rva, size, offset, file_size;
	} sections[32];
	size_t n_sections;
	uint32_t functions_rva, functions_size; /* the exception directory */
	uint32_t debug_rva, debug_size;		/* the debug directory */
	uint32_t cli_rva;			/* where an assembly says where its metadata is; 0 = it is none */
	uint32_t stamp, image_size;		/* tell one build from another */
	bool loaded;				/* sections lie at their addresses, not where the file has them */
};

/* False when it is no PE file with 64-bit code. */
bool pe_parse(const void *bytes, size_t len, struct pe *ret);
/* The same for any assembly, of whatever machine. */
bool pe_parse_any(const void *bytes, size_t len, struct pe *ret);
/* The same as the runtime lays it out in memory: sections at their own addresses. */
bool pe_parse_loaded(const void *bytes, size_t len, struct pe *ret);
/* A living process has the same headers at the beginning of the mapping: enough to identify the build. */
bool pe_identity(const void *headers, size_t len, uint32_t *ret_stamp, uint32_t *ret_image_size);
bool pe_rva(const struct pe *pe, uint64_t offset, uint32_t *ret_rva);
/* Bytes from there to the end of their section, or NULL. */
const uint8_t *pe_at(const struct pe *pe, uint32_t rva, size_t *ret_len);
/* The function around the address. */
struct pe_function {
	uint32_t begin, end, unwind; /* all relative to the image */
};
bool pe_function(const struct pe *pe, uint32_t rva, struct pe_function *ret);

/* An entry of the debug directory; bytes lie in the file. */
enum { PE_DEBUG_CODEVIEW = 2, PE_DEBUG_EMBEDDED_PDB = 17 };
struct pe_debug {
	uint32_t type, stamp;
	uint16_t major, minor;
	const uint8_t *bytes;
	size_t len;
};
/* The i-th entry whose bytes are there; false at the end. *i begins at 0. */
bool pe_debug_next(const struct pe *pe, size_t *i, struct pe_debug *ret);
