#pragma once
/* Growable bytes; also our string builder. Always NUL-terminated behind len once something was added.
 *
 * A buf has a limit (0 = BUF_LIMIT_DEFAULT). What would exceed it is not added, and `overflow` is set and stays set, so
 * writers need not check each call: check once at the end. */

#include "base/base.h"

#define BUF_LIMIT_DEFAULT ((size_t)1 << 30)

struct buf {
	char *data;
	size_t len, cap, limit;
	bool overflow;
};

void buf_free(struct buf *b);
void buf_clear(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_repeat(struct buf *b, const char *s, size_t times);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) PRINTF(2, 0);

/* Numbers and texts as bytes, little endian: each is what the cursor's function of the same name reads. */
#define BUF_WRITE(name, type)                                                                                          \
	static inline void name(struct buf *b, type v)                                                                 \
	{                                                                                                              \
		buf_add(b, &v, sizeof(v));                                                                             \
	}
BUF_WRITE(buf_u8, uint8_t)
BUF_WRITE(buf_u16, uint16_t)
BUF_WRITE(buf_u32, uint32_t)
BUF_WRITE(buf_u64, uint64_t)
BUF_WRITE(buf_i32, int32_t)
BUF_WRITE(buf_i64, int64_t)
BUF_WRITE(buf_f32, float)
BUF_WRITE(buf_f64, double)
void buf_varu64(struct buf *b, uint64_t v); /* LEB128 */
/* Its length as u32, or as LEB128, then its bytes. */
void buf_text(struct buf *b, const char *s, size_t len);
void buf_vartext(struct buf *b, const char *s, size_t len);

/* Room for n more bytes at data + len, for reading into; NULL past the limit. Then add to len. */
void *buf_room(struct buf *b, size_t n);
/* Drops n bytes from the front. */
void buf_consume(struct buf *b, size_t n);
/* The string, "" when empty; owned by the buf. */
const char *buf_cstr(const struct buf *b);
/* Hands the string to the caller (mem_free). */
char *buf_steal(struct buf *b);
