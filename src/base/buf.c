#include "base/buf.h"
#include <stdio.h>
#include <string.h>

void buf_free(struct buf *b)
{
	mem_free(b->data);
	*b = (struct buf){ .limit = b->limit };
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->overflow = false;
	if (b->data)
		b->data[0] = '\0';
}

void *buf_room(struct buf *b, size_t n)
{
	size_t limit = b->limit ? b->limit : BUF_LIMIT_DEFAULT;
	if (n > limit || b->len > limit - n) {
		b->overflow = true;
		return NULL;
	}
	size_t want = b->len + n + 1;
	if (want > b->cap) {
		size_t cap = MAX(want, b->cap * 2);
		cap = MAX(cap, (size_t)64);
		b->data = mem_realloc(b->data, cap);
		b->cap = cap;
	}
	return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	char *room = buf_room(b, len);
	if (!room)
		return;
	if (len)
		memcpy(room, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

#define VARU64_MAX 10

static size_t put_varu64(uint8_t *at, uint64_t v)
{
	size_t n = 0;
	for (; v > 0x7F; v >>= 7)
		at[n++] = (uint8_t)(v | 0x80);
	at[n++] = (uint8_t)v;
	return n;
}

void buf_varu64(struct buf *b, uint64_t v)
{
	uint8_t bytes[VARU64_MAX];
	size_t limit = b->limit ? b->limit : BUF_LIMIT_DEFAULT;
	/* Heaps are written with this, number by number: straight in where there is room for any. */
	if (b->cap - b->len > VARU64_MAX && b->len + VARU64_MAX <= limit) {
		b->len += put_varu64((uint8_t *)b->data + b->len, v);
		b->data[b->len] = '\0';
		return;
	}
	buf_add(b, bytes, put_varu64(bytes, v));
}

void buf_text(struct buf *b, const char *s, size_t len)
{
	buf_u32(b, (uint32_t)len);
	buf_add(b, s, len);
}

void buf_vartext(struct buf *b, const char *s, size_t len)
{
	buf_varu64(b, len);
	buf_add(b, s, len);
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_repeat(struct buf *b, const char *s, size_t times)
{
	for (size_t i = 0; i < times && !b->overflow; i++)
		buf_str(b, s);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	char small[256];
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(small, sizeof(small), fmt, ap);
	if (n >= 0 && (size_t)n < sizeof(small)) {
		buf_add(b, small, (size_t)n);
	} else if (n >= 0) {
		CLEANUP(mem_freep) char *text = mem_vprintf(fmt, again);
		buf_add(b, text, (size_t)n);
	}
	va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_consume(struct buf *b, size_t n)
{
	n = MIN(n, b->len);
	if (!n)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}

const char *buf_cstr(const struct buf *b)
{
	return b->len ? b->data : "";
}

char *buf_steal(struct buf *b)
{
	char *s = b->data ? b->data : mem_strdup("");
	*b = (struct buf){ .limit = b->limit };
	return s;
}
