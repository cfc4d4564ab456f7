#include "build_malloc.h"

#include "build_core.h"
#include <stdlib.h>
#include <string.h>

void stage_put(uint8_t *bytes, size_t at, uint64_t v)
{
	memcpy(bytes + at, &v, sizeof(v));
}

uint64_t stage_word(const uint8_t *bytes, size_t at)
{
	uint64_t v;
	memcpy(&v, bytes + at, sizeof(v));
	return v;
}

static void put_state(uint8_t *state, uint64_t at, uint64_t top, uint64_t next, uint64_t system)
{
	stage_put(state, STATE_TOP, top);
	for (unsigned bin = 0; bin < 127; bin++)
		for (unsigned k = 0; k < 2; k++)
			stage_put(state, STATE_BINS + 16 * bin + 8 * k, at + STATE_BINS + 16 * bin - 16);
	stage_put(state, STATE_NEXT, next);
	stage_put(state, STATE_SYSTEM, system);
}

/* The bit of the chunk says that the one before is used: true of the first. */
static size_t chunk(uint8_t *heap, size_t at, uint64_t size, bool used)
{
	stage_put(heap, at + 8, size | (stage_word(heap, at + 8) & 1));
	stage_put(heap, at + size + 8, used);
	if (!used)
		stage_put(heap, at + size, size);
	return at + size;
}

static void top(uint8_t *heap, size_t at, size_t end)
{
	stage_put(heap, at + 8, (end - at) | (stage_word(heap, at + 8) & 1));
}

/* Main: 20 used of 48, a free one of 8000 with a whole page, a used one of 64, two cached of 48, top. */
static void fill_main(struct malloc_stage *s)
{
	size_t at = 0;
	uint8_t *h = s->main;
	stage_put(h, 8, 1);
	size_t cache = at;
	at = chunk(h, at, 0x290, true);
	for (unsigned i = 0; i < 20; i++)
		at = chunk(h, at, 48, true);
	at = chunk(h, at, 8000, false);
	at = chunk(h, at, 64, true);
	/* The thread's cache: two chunks of 48, links mixed with their addresses. */
	uint64_t a = MAIN_HEAP + at + 16, b = a + 48;
	at = chunk(h, at, 48, true);
	at = chunk(h, at, 48, true);
	stage_put(h, a - MAIN_HEAP, b ^ a >> 12);
	stage_put(h, b - MAIN_HEAP, 0 ^ b >> 12);
	uint16_t two = 2;
	memcpy(h + cache + 16 + 2 * 1, &two, 2);
	stage_put(h, cache + 16 + 128 + 8 * 1, a);
	top(h, at, MAIN_SIZE);
	put_state(s->libc + ARENA, LIBC + ARENA, MAIN_HEAP + at, OTHER_HEAP + INFO, MAIN_SIZE);
}

/* The other one: 10 used of 112, the last two of them in a fast bin. */
static void fill_other(struct malloc_stage *s)
{
	uint8_t *h = s->other;
	size_t at = (INFO + STATE_SIZE + 15) & ~(size_t)15, last = 0, before = 0;
	stage_put(h, 0, OTHER_HEAP + INFO);
	stage_put(h, 16, OTHER_SIZE);
	stage_put(h, 24, OTHER_SIZE);
	stage_put(h, at + 8, 1);
	for (unsigned i = 0; i < 10; i++) {
		before = last;
		last = at;
		at = chunk(h, at, 112, true);
	}
	top(h, at, OTHER_SIZE);
	put_state(h + INFO, OTHER_HEAP + INFO, OTHER_HEAP + at, LIBC + ARENA, OTHER_SIZE);
	stage_put(h, INFO + 16 + 8 * 5, OTHER_HEAP + last);
	stage_put(h, last + 16, (OTHER_HEAP + before) ^ (OTHER_HEAP + last + 16) >> 12);
	stage_put(h, before + 16, 0 ^ (OTHER_HEAP + before + 16) >> 12);
}

void stage_set(struct malloc_stage *s)
{
	*s = (struct malloc_stage){ .n_mapped = 1, .mapped_bytes = 2 * PAGE };
	fill_main(s);
	fill_other(s);
	stage_put(s->mapped, 8, 2 * PAGE | 2);
	stage_put(s->libc, PARAMETERS, 64);
	stage_put(s->libc, PARAMETERS + 8, 1032);
	stage_put(s->libc, PARAMETERS + 16, 7);
	stage_put(s->libc, PARAMETERS - 24, s->mapped_bytes);
	memcpy(s->libc + PARAMETERS - 40, &(uint32_t){ 65536 }, 4);
	memcpy(s->libc + PARAMETERS - 44, &(uint32_t){ (uint32_t)s->n_mapped }, 4);
}

struct image *stage_open(const struct malloc_stage *s)
{
	const struct core_segment segments[] = {
		{ MAIN_HEAP, MAIN_SIZE, s->main, PF_R | PF_W },
		{ MAPPED, 3 * PAGE, s->mapped, PF_R | PF_W },
		{ OTHER_HEAP, OTHER_SIZE, s->other, PF_R | PF_W },
		{ LIBC, 2 * PAGE, s->libc, PF_R | PF_W },
	};
	const struct core_file files[] = { { LIBC, LIBC + 2 * PAGE, 0, "/lib/libc.so.6" } };
	const struct core_spec spec = {
		.segments = segments, .n_segments = 4, .files = files, .n_files = 1, .pid = 7, .command = "shop"
	};
	CLEANUP(buf_free) struct buf core = { 0 };
	struct image *img;
	build_core(&core, &spec);
	struct err *err = image_open_core_fd(build_file(core.data, core.len), "test", NULL, NULL, &img);
	if (err)
		abort();
	return img;
}
