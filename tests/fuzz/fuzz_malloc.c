/* Arenas of malloc whose memory is hostile: a good process, in which the input replaces words. */
#include "build_malloc.h"
#include "malloc/arenas.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGE = 10 }; /* where, two bytes: a word of the memory, part by part; what, eight */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct malloc_stage s;
	const struct malloc_ask ask = { 0 };
	struct malloc_look look;
	stage_set(&s);
	for (size_t i = 0; i + CHANGE <= len; i += CHANGE) {
		uint16_t where;
		memcpy(&where, data + i, sizeof(where));
		size_t at = (size_t)where * 8;
		if (at + 8 <= offsetof(struct malloc_stage, at))
			memcpy((uint8_t *)&s + at, data + i + sizeof(where), 8);
	}
	struct image *img = stage_open(&s);
	malloc_look(img, &ask, &look);
	vec_each(a, &look.arenas) {
		uint64_t sum = 0;
		for (unsigned k = 0; k < MALLOC_STATES; k++)
			sum += a->state[k].bytes;
		if (a->doubt ? sum != 0 : sum > a->system)
			abort();
	}
	malloc_look_free(&look);
	image_close(img);
	return 0;
}
