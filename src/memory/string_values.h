#pragma once
/* Equal strings of a heap: which object has which value. Read while the heap is walked, kept in the recording behind
 * the heap's graph. Values are told apart by a seeded hash of 64 bits and their length. */

#include "memory/heap_look.h"

#define STRING_TEXT_UNITS 1024 /* of a value's text that are kept */
#define STRING_TEXTS 5000      /* values whose text is kept: those that have most in copies */

struct string_value {
	const char *text;  /* NULL = not kept */
	uint32_t text_len; /* in bytes; it may hold NULs */
	uint32_t length;   /* in UTF-16 units, 0 when the text is not kept */
	/* Filled in by string_values_count(): */
	uint32_t copies, garbage; /* that are reachable; that are not */
	uint64_t bytes, each;	  /* of the held ones; of one */
};
struct string_values {
	struct arena arena;
	VEC(struct string_value) values; /* those with copies, and the one that was asked for */
	uint32_t *of_string;		 /* by string in order of address: value + 1; 0 = there is no other like it */
	uint32_t n_strings;
	uint32_t unread; /* strings whose text is not in the image */
	struct string_reader *reader;
};

/* Makes a look read the values too; the text of `wanted` is kept even when it exists only once (may be NULL). */
void string_values_watch(struct string_values *s, struct heap_look *look, const char *wanted);
/* Counts copies; the graph must be dominated. */
struct err *string_values_count(struct string_values *s, const struct heapgraph *g) MUST_USE;
static inline uint64_t string_wasted(const struct string_value *v)
{
	return v->copies > 1 ? v->bytes - v->each : 0;
}
void string_values_fini(struct string_values *s);

/* Its text, cut after max_chars; appended. */
void string_show(const struct string_value *v, size_t max_chars, struct buf *out);
