#include "build_activity.h"
#include <string.h>

#define BYTES 12

struct writer {
	uint8_t *bytes;
	size_t at;
	bool low;
};

static void put_nibble(struct writer *w, unsigned nibble)
{
	if (w->at >= BYTES)
		return;
	w->bytes[w->at] |= (uint8_t)(w->low ? nibble : nibble << 4);
	w->at += w->low;
	w->low = !w->low;
}

static void put_bytes(struct writer *w, uint32_t number, size_t size)
{
	for (size_t i = 0; i < size && w->at < BYTES; i++, number >>= 8)
		w->bytes[w->at++] = (uint8_t)number;
}

static void put_coded(struct writer *w, enum activity_form form, uint32_t number, bool nested)
{
	size_t size = number <= 0xff ? 1 : number <= 0xffff ? 2 : number <= 0xffffff ? 3 : 4;
	bool high = !w->low, folded = high && number < 4096;
	put_nibble(w, folded ? 0xC : 0xC + (unsigned)size - 1);
	if (!high) {
		put_bytes(w, number, size);
		return;
	}
	put_nibble(w, folded ? number >> 8 : 0);
	if (!folded)
		put_bytes(w, number, size);
	else if (form == ACTIVITY_FORM_NET8)
		put_bytes(w, number & 0xff, size); /* two bytes from 256 on: the second is 0 */
	else if (number > 0xff || !nested)
		put_bytes(w, number & 0xff, 1);
}

static void put_check(uint8_t ret[16])
{
	uint32_t words[4];
	memcpy(words, ret, 12);
	words[3] = (words[0] + words[1] + words[2] + 0x599D99ADu) ^ BUILD_ACTIVITY_PID;
	memcpy(ret, words, 16);
}

static struct writer put_path(uint8_t ret[16], enum activity_form form, const uint32_t *numbers, size_t n)
{
	struct writer w = { .bytes = ret };
	memset(ret, 0, 16);
	for (size_t i = 0; i < n; i++) {
		if (numbers[i] <= 10)
			put_nibble(&w, numbers[i]);
		else
			put_coded(&w, form, numbers[i], true);
	}
	return w;
}

void build_activity(uint8_t ret[16], enum activity_form form, const uint32_t *numbers, size_t n)
{
	put_path(ret, form, numbers, n);
	put_check(ret);
}

void build_activity_overflow(uint8_t ret[16], enum activity_form form, const uint32_t *numbers, size_t n,
			     uint32_t number)
{
	struct writer w = put_path(ret, form, numbers, n);
	put_nibble(&w, 0xB);
	put_coded(&w, form, number, false);
	put_check(ret);
}
