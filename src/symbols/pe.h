#pragma once
/* One PE file with ReadyToRun code: the table of its functions and the runtime's unwind data for them. Hostile-safe.
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
};

/* False when it is no PE file with 64-bit code. */
bool pe_parse(const void *bytes, size_t len, struct pe *ret);
bool pe_rva(const struct pe *pe, uint64_t offset, uint32_t *ret_rva);
/* Bytes from there to the end of their section, or NULL. */
const uint8_t *pe_at(const struct pe *pe, uint32_t rva, size_t *ret_len);
/* The function around the address. */
struct pe_function {
	uint32_t begin, end, unwind; /* all relative to the image */
};
bool pe_function(const struct pe *pe, uint32_t rva, struct pe_function *ret);
