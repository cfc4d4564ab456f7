#pragma once
/* Little-endian numbers for the writers of files. */

#include "base/buf.h"
#include <string.h>

static inline void put(struct buf *b, uint64_t value, size_t bytes)
{
	buf_add(b, &value, bytes);
}

static inline void put_at(struct buf *b, size_t at, uint64_t value, size_t bytes)
{
	while (b->len < at + bytes)
		buf_char(b, 0);
	memcpy(b->data + at, &value, bytes);
}

static inline void pad(struct buf *b)
{
	while (b->len % 4)
		buf_char(b, 0);
}
