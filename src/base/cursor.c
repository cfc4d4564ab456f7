#include "base/cursor.h"

static uint64_t varint(struct cursor *c, unsigned bits)
{
	uint64_t v = 0;
	const uint8_t *p = c->p;
	for (unsigned shift = 0; !c->bad && p < c->end && shift < bits; shift += 7) {
		uint8_t byte = *p++;
		uint64_t part = byte & 0x7f;
		if (bits - shift < 7 && part >> (bits - shift))
			break;
		v |= part << shift;
		if (!(byte & 0x80)) {
			c->p = p;
			return v;
		}
	}
	c->bad = true;
	return 0;
}

uint32_t cursor_varu32(struct cursor *c)
{
	return (uint32_t)varint(c, 32);
}

uint64_t cursor_varu64(struct cursor *c)
{
	return varint(c, 64);
}

static const char *take_text(struct cursor *c, uint64_t len, size_t max, size_t *ret_len)
{
	c->bad |= len > max;
	*ret_len = c->bad ? 0 : (size_t)len;
	return (const char *)cursor_take(c, *ret_len);
}

const char *cursor_text(struct cursor *c, size_t max, size_t *ret_len)
{
	return take_text(c, cursor_u32(c), max, ret_len);
}

const char *cursor_vartext(struct cursor *c, size_t max, size_t *ret_len)
{
	return take_text(c, cursor_varu64(c), max, ret_len);
}

/* Four units at once until one of them is zero (the borrow reaches the top bit of a zero unit). */
static const uint8_t *skip_units(const uint8_t *p, const uint8_t *end)
{
	for (uint64_t four; end - p >= 8; p += 8) {
		memcpy(&four, p, 8);
		if ((four - 0x0001000100010001ULL) & ~four & 0x8000800080008000ULL)
			break;
	}
	return p;
}

struct utf16_span cursor_utf16z(struct cursor *c)
{
	const uint8_t *start = c->p;
	if (c->bad)
		return (struct utf16_span){ 0 };
	for (const uint8_t *p = skip_units(start, c->end); c->end - p >= 2; p += 2) {
		if (!p[0] && !p[1]) {
			c->p = p + 2;
			return (struct utf16_span){ start, (size_t)(p - start) / 2 };
		}
	}
	c->bad = true;
	return (struct utf16_span){ 0 };
}
