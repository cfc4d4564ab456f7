#pragma once
/* Bounded little-endian reader over untrusted bytes.
 *
 * The first short read makes it bad; from then on everything reads as zero. Check cursor_ok() once per record. */

#include "base/base.h"
#include <string.h>

struct cursor {
	const uint8_t *p, *end;
	bool bad;
};

static inline struct cursor cursor_make(const void *data, size_t len)
{
	/* An empty input may be NULL, and NULL + 0 is undefined in C. */
	static const uint8_t nothing;
	return data ? (struct cursor){ data, (const uint8_t *)data + len, false }
		    : (struct cursor){ &nothing, &nothing, len != 0 };
}
static inline bool cursor_ok(const struct cursor *c)
{
	return !c->bad;
}
static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}
/* n bytes, or NULL (and bad). */
static inline const uint8_t *cursor_take(struct cursor *c, size_t n)
{
	if (c->bad || n > cursor_left(c)) {
		c->bad = true;
		return NULL;
	}
	const uint8_t *p = c->p;
	c->p += n;
	return p;
}
#define CURSOR_READ(name, type)                                                                                        \
	static inline type name(struct cursor *c)                                                                      \
	{                                                                                                              \
		type v = 0;                                                                                            \
		const uint8_t *p = cursor_take(c, sizeof(v));                                                          \
		if (p)                                                                                                 \
			memcpy(&v, p, sizeof(v));                                                                      \
		return v;                                                                                              \
	}
CURSOR_READ(cursor_u8, uint8_t)
CURSOR_READ(cursor_u16, uint16_t)
CURSOR_READ(cursor_u32, uint32_t)
CURSOR_READ(cursor_u64, uint64_t)
CURSOR_READ(cursor_i32, int32_t)
CURSOR_READ(cursor_i64, int64_t)
CURSOR_READ(cursor_f32, float)
CURSOR_READ(cursor_f64, double)

/* LEB128; more than 5 (10) bytes, or bits beyond the type, are bad. */
uint32_t cursor_varu32(struct cursor *c);
uint64_t cursor_varu64(struct cursor *c);

/* A text behind its length; NULL (and bad) when that is more than max. Not terminated. */
const char *cursor_text(struct cursor *c, size_t max, size_t *ret_len);
const char *cursor_vartext(struct cursor *c, size_t max, size_t *ret_len);

/* A NUL-terminated UTF-16LE string: its units without the NUL. */
struct utf16_span {
	const uint8_t *units;
	size_t n;
};
struct utf16_span cursor_utf16z(struct cursor *c);
