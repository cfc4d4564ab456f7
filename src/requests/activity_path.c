#include "requests/activity_path.h"
#include "base/cursor.h"
#include "base/map.h"

#define PATH_BYTES 12
#define CHECK_WORD 0x599D99ADu
enum { CODE_END = 0, CODE_LAST_NUMBER = 0xA, CODE_OVERFLOW = 0xB, CODE_BYTES = 0xC };

enum activity_form activity_form_of(unsigned runtime_major)
{
	return runtime_major && runtime_major < 10 ? ACTIVITY_FORM_NET8 : ACTIVITY_FORM_NET10;
}

/* Where it reads: nibbles, and whole bytes in between. */
struct nibbles {
	const uint8_t *bytes;
	size_t at;
	bool low; /* the next one is the low half of that byte */
};

static unsigned take_nibble(struct nibbles *n)
{
	unsigned nibble = n->low ? n->bytes[n->at] & 15u : n->bytes[n->at] >> 4;
	n->at += n->low;
	n->low = !n->low;
	return nibble;
}

/* The number of the code 0xC..0xF that was just read. False when it does not fit. */
static bool take_number(struct nibbles *n, unsigned code, bool nested, enum activity_form form,
			struct activity_path *path, uint32_t *ret)
{
	size_t size = code - CODE_BYTES + 1;
	unsigned top = 0;
	bool was_high = n->low;
	if (was_high) { /* what is left of that byte */
		top = n->bytes[n->at++] & 15u;
		n->low = false;
	}
	*ret = ACTIVITY_NUMBER_UNKNOWN;
	if (was_high && size == 1 && !top && nested && form == ACTIVITY_FORM_NET10) {
		path->shared = true;
		return true;
	}
	if (n->at + size > PATH_BYTES)
		return false;
	for (size_t i = 0; i < size; i++)
		*ret |= (uint32_t)n->bytes[n->at++] << (8 * i);
	if (size == 1 && top) {
		*ret |= top << 8;
		n->at += form == ACTIVITY_FORM_NET8 && n->at < PATH_BYTES;
	}
	return true;
}

bool activity_path_decode(const uint8_t id[16], enum activity_form form, struct activity_path *ret)
{
	struct nibbles n = { .bytes = id };
	struct activity_path path = { 0 };
	while (n.at < PATH_BYTES && path.n < ACTIVITY_PATH_MAX && !path.overflow) {
		unsigned code = take_nibble(&n);
		if (code == CODE_END)
			break;
		path.overflow = code == CODE_OVERFLOW;
		if (path.overflow && n.at < PATH_BYTES)
			code = take_nibble(&n);
		uint32_t number = code;
		if (code > CODE_LAST_NUMBER) {
			if (code < CODE_BYTES || !take_number(&n, code, !path.overflow, form, &path, &number))
				return false;
		} else if (path.overflow) {
			return false;
		}
		path.numbers[path.n++] = number;
	}
	if (!path.n)
		return false;
	*ret = path;
	return true;
}

uint32_t activity_path_pid(const uint8_t id[16])
{
	struct cursor c = cursor_make(id, 16);
	uint32_t sum = CHECK_WORD;
	for (size_t i = 0; i < 3; i++)
		sum += cursor_u32(&c);
	return cursor_u32(&c) ^ sum;
}

uint64_t activity_path_key(const struct activity_path *path, size_t n)
{
	return hash_bytes(path->numbers, n * sizeof(*path->numbers), hash_seed() ^ (path->overflow && n == path->n));
}
