/* The heap of glibc in images that a writer makes, good ones and hostile ones. A real one: tests/e2e/test_native_memory.py. */
#include "unit.h"

#include "base/base.h"
#include "build_core.h"
#include "build_malloc.h"
#include "malloc/allocator.h"
#include "malloc/arenas.h"
#include <elf.h>

static void look_at(const struct malloc_stage *s, const struct malloc_ask *ask, struct malloc_look *look)
{
	struct image *img = stage_open(s);
	malloc_look(img, ask, look);
	image_close(img);
}

static uint64_t of_size(const struct malloc_look *look, uint64_t size)
{
	vec_each(s, &look->sizes)
		if (s->size == size)
			return s->chunks;
	return 0;
}

static void assert_sum(const struct malloc_arena *a, enum malloc_state state, uint64_t chunks, uint64_t bytes)
{
	assert_int_equal(a->state[state].chunks, chunks);
	assert_int_equal(a->state[state].bytes, bytes);
}

static const struct malloc_ask nothing_known = { 0 };

static void chunks_by_what_they_are(void **state UNUSED)
{
	struct malloc_stage s;
	struct malloc_look look;
	stage_set(&s);
	look_at(&s, &nothing_known, &look);
	assert_null(look.doubt);
	assert_int_equal(look.arenas.n, 2);
	const struct malloc_arena *m = &look.arenas.v[0], *o = &look.arenas.v[1];
	assert_null(m->doubt);
	assert_null(o->doubt);
	assert_true(m->main && !o->main);
	assert_sum(m, MALLOC_USED, 22, 0x290 + 20 * 48 + 64);
	assert_sum(m, MALLOC_CACHED, 2, 96);
	assert_sum(m, MALLOC_FREE, 1, 8000);
	assert_sum(m, MALLOC_TOP, 1, MAIN_SIZE - 0x290 - 22 * 48 - 8000 - 64);
	assert_sum(o, MALLOC_USED, 8, 8 * 112);
	assert_sum(o, MALLOC_CACHED, 2, 2 * 112);
	assert_int_equal(of_size(&look, 48), 20);
	assert_int_equal(of_size(&look, 112), 8);
	assert_int_equal(look.caches, 1);
	assert_int_equal(look.lists_unread, 0);
	/* Whole pages of the free chunk: it lies from 0x650 on. */
	assert_int_equal(m->trimmable, PAGE);
	malloc_look_free(&look);
}

static void mapped_chunks_are_checked(void **state UNUSED)
{
	struct malloc_stage s;
	struct malloc_look look;
	stage_set(&s);
	look_at(&s, &nothing_known, &look);
	assert_true(look.mapped.known && look.mapped.found);
	assert_int_equal(look.ranges.n, 1);
	assert_int_equal(look.ranges.v[0].start, MAPPED);
	assert_int_equal(of_size(&look, 2 * PAGE), 1);
	malloc_look_free(&look);
	/* glibc counts another one: what was found is not all. */
	memcpy(s.libc + PARAMETERS - 44, &(uint32_t){ 2 }, 4);
	look_at(&s, &nothing_known, &look);
	assert_true(look.mapped.known && !look.mapped.found);
	assert_int_equal(look.mapped.sum.chunks, 2);
	assert_int_equal(look.ranges.n, 0);
	assert_int_equal(of_size(&look, 2 * PAGE), 0);
	malloc_look_free(&look);
	/* Elsewhere there is something that looks so, and is skipped. */
	const struct image_range skip = { MAPPED, 3 * PAGE };
	const struct malloc_ask ask = { .skip = &skip, .n_skip = 1 };
	look_at(&s, &ask, &look);
	assert_int_equal(look.ranges.n, 0);
	malloc_look_free(&look);
}

static uint64_t nothing_resident(void *user, uint64_t start, uint64_t end)
{
	++*(unsigned *)user;
	assert_true(start < end && !((start | end) & (PAGE - 1)));
	return 0;
}

static void only_what_is_resident_can_come_back(void **state UNUSED)
{
	struct malloc_stage s;
	struct malloc_look look;
	unsigned asked = 0;
	const struct malloc_ask ask = { .resident = nothing_resident, .user = &asked };
	stage_set(&s);
	look_at(&s, &ask, &look);
	assert_int_equal(look.arenas.v[0].trimmable, 0);
	assert_int_equal(look.arenas.v[0].whole_pages, PAGE);
	assert_true(asked >= 1);
	malloc_look_free(&look);
}

/* Of an arena that does not add up nothing is said, and the others are not touched by it. */
static void a_wrong_guess_has_no_numbers(void **state UNUSED)
{
	static const struct {
		size_t at; /* in the other heap */
		uint64_t value;
	} wrong[] = {
		{ INFO + STATE_SYSTEM, OTHER_SIZE + PAGE },	    /* it counts more */
		{ INFO + STATE_SYSTEM, PAGE },			    /* or less */
		{ 0, OTHER_HEAP + 8 },				    /* its heap is another arena's */
		{ 16, (uint64_t)1 << 60 },			    /* a heap of 2^60 */
		{ 8, OTHER_HEAP },				    /* a circle of heaps */
		{ 8, 0x1234 },					    /* a heap before that is none */
		{ 0x8d0 + 8, (uint64_t)1 << 60 | 1 },		    /* a chunk of 2^60 */
		{ 0x8d0 + 8, 1 },				    /* of 0 */
		{ 0x8d0 + 8, 24 | 1 },				    /* of no multiple */
		{ 0x8d0 + 8, ~(uint64_t)7 | 1 },		    /* that wraps around */
		{ INFO + STATE_TOP, OTHER_HEAP + OTHER_SIZE - 16 }, /* a top that no chunk leads to */
		{ INFO + STATE_TOP, 0x10 },			    /* far away */
	};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct malloc_stage s;
		struct malloc_look look;
		stage_set(&s);
		stage_put(s.other, wrong[i].at, wrong[i].value);
		look_at(&s, &nothing_known, &look);
		assert_null(look.doubt);
		assert_null(look.arenas.v[0].doubt);
		const struct malloc_arena *o = &look.arenas.v[1];
		if (!o->doubt)
			fail_msg("wrong in way %zu, and no doubt", i);
		for (unsigned k = 0; k < MALLOC_STATES; k++)
			assert_sum(o, k, 0, 0);
		assert_int_equal(of_size(&look, 112), 0);
		assert_int_equal(look.heaps.n, 1);
		malloc_look_free(&look);
	}
}

static void arenas_that_lead_nowhere(void **state UNUSED)
{
	static const uint64_t next[] = { OTHER_HEAP + INFO, OTHER_HEAP + 0x800, 8, ~(uint64_t)0 };
	for (size_t i = 0; i < ARRAY_SIZE(next); i++) {
		struct malloc_stage s;
		struct malloc_look look;
		stage_set(&s);
		stage_put(s.other, INFO + STATE_NEXT, next[i]);
		look_at(&s, &nothing_known, &look);
		assert_non_null(look.doubt);
		assert_int_equal(look.arenas.n + look.heaps.n + look.sizes.n, 0);
		malloc_look_free(&look);
	}
}

/* Lists of free chunks that are circles, or lead out of memory: they end, and count as used. */
static void lists_without_an_end(void **state UNUSED)
{
	struct malloc_stage s;
	struct malloc_look look;
	stage_set(&s);
	uint64_t last = stage_word(s.other, INFO + 16 + 8 * 5), at = last + 16;
	stage_put(s.other, at - OTHER_HEAP, last ^ at >> 12);
	uint64_t cached = stage_word(s.main, 16 + 128 + 8);
	stage_put(s.main, cached - MAIN_HEAP, cached ^ cached >> 12);
	look_at(&s, &nothing_known, &look);
	assert_sum(&look.arenas.v[0], MALLOC_CACHED, 0, 0);
	assert_sum(&look.arenas.v[1], MALLOC_CACHED, 0, 0);
	assert_sum(&look.arenas.v[1], MALLOC_USED, 10, 10 * 112);
	assert_int_equal(look.caches, 0);
	assert_int_equal(look.lists_unread, 1);
	malloc_look_free(&look);
}

static void a_process_without_arenas(void **state UNUSED)
{
	struct malloc_stage s;
	struct malloc_look look;
	stage_set(&s);
	memset(s.libc, 0, sizeof(s.libc));
	look_at(&s, &nothing_known, &look);
	assert_non_null(look.doubt);
	assert_false(look.mapped.known);
	malloc_look_free(&look);
}

/* Every word of the allocator's own data replaced by something hostile: it ends, and sums never exceed what there is. */
static void every_word_hostile(void **state UNUSED)
{
	static const uint64_t values[] = { 0, 1, (uint64_t)1 << 60, ~(uint64_t)0, OTHER_HEAP, MAIN_HEAP + 17 };
	struct malloc_stage *s = test_malloc(sizeof(*s));
	for (size_t at = 0; at + 8 <= INFO + STATE_SIZE + 10 * 112; at += 8) {
		struct malloc_look look;
		stage_set(s);
		stage_put(s->other, at, values[at / 8 % ARRAY_SIZE(values)]);
		look_at(s, &nothing_known, &look);
		vec_each(a, &look.arenas) {
			uint64_t sum = 0;
			for (unsigned k = 0; k < MALLOC_STATES; k++)
				sum += a->state[k].bytes;
			assert_true(a->doubt ? !sum : sum <= a->system);
		}
		malloc_look_free(&look);
	}
	test_free(s);
}

/* ---- which allocator ---- */

#define LIBRARY 0x7c0000000000

/* A library whose one relocation binds `malloc` to an address. */
static void build_caller(uint8_t page[2 * PAGE], uint64_t to)
{
	enum { DYNAMIC = 0x400, STRINGS = 0x600, SYMBOLS = 0x700, RELOCATIONS = 0x800, SLOT = 0x1000 };
	Elf64_Ehdr head = { .e_phoff = 64, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2 };
	const Elf64_Phdr table[] = { { .p_type = PT_LOAD, .p_memsz = 2 * PAGE, .p_filesz = 2 * PAGE },
				     { .p_type = PT_DYNAMIC, .p_vaddr = DYNAMIC, .p_memsz = 6 * sizeof(Elf64_Dyn) } };
	const Elf64_Dyn dynamic[] = { { DT_STRTAB, { LIBRARY + STRINGS } }, /* as glibc leaves it, and as in the file */
				      { DT_SYMTAB, { SYMBOLS } },
				      { DT_JMPREL, { RELOCATIONS } },
				      { DT_PLTRELSZ, { 2 * sizeof(Elf64_Rela) } },
				      { DT_NULL, { 0 } } };
	const Elf64_Sym symbols[] = { { 0 }, { .st_name = 1 }, { .st_name = 10 } };
	const Elf64_Rela relocations[] = { { SLOT + 8, ELF64_R_INFO(1, R_X86_64_JUMP_SLOT), 0 },
					   { SLOT, ELF64_R_INFO(2, R_X86_64_JUMP_SLOT), 0 } };
	memset(page, 0, 2 * PAGE);
	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	head.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(page, &head, sizeof(head));
	memcpy(page + 64, table, sizeof(table));
	memcpy(page + DYNAMIC, dynamic, sizeof(dynamic));
	memcpy(page + STRINGS, "\0malloc_x\0malloc\0", 17);
	memcpy(page + SYMBOLS, symbols, sizeof(symbols));
	memcpy(page + RELOCATIONS, relocations, sizeof(relocations));
	stage_put(page, SLOT, to);
}

static struct malloc_allocator allocator_in(const char *path, uint64_t to)
{
	static const char *const asked[] = { "libabsent.so", "libcaller.so", NULL };
	static uint8_t caller[2 * PAGE], other[BUILD_ELF_LEN];
	build_caller(caller, to);
	build_elf(other, (const uint8_t *)"12345678901234567890", 20);
	const struct core_segment segments[] = { { LIBRARY, 2 * PAGE, caller, PF_R | PF_W },
						 { LIBC, PAGE, other, PF_R | PF_X } };
	const struct core_file files[] = { { LIBRARY, LIBRARY + 2 * PAGE, 0, "/app/libcaller.so" },
					   { LIBC, LIBC + PAGE, 0, path } };
	const struct core_spec spec = {
		.segments = segments, .n_segments = 2, .files = files, .n_files = 2, .pid = 7, .command = "shop"
	};
	CLEANUP(buf_free) struct buf core = { 0 };
	CLEANUP(image_closep) struct image *img = NULL;
	build_core(&core, &spec);
	assert_ok(image_open_core_fd(build_file(core.data, core.len), "test", NULL, NULL, &img));
	return malloc_allocator_of(img, asked);
}

static void the_allocator_is_named(void **state UNUSED)
{
	static const struct {
		const char *path;
		enum malloc_kind kind;
		const char *name;
	} cases[] = {
		{ "/usr/lib/libc.so.6", MALLOC_GLIBC, "glibc" },
		{ "/lib/libc-2.31.so", MALLOC_GLIBC, "glibc" },
		{ "/usr/lib/libjemalloc.so.2", MALLOC_JEMALLOC, "jemalloc" },
		{ "/opt/libmimalloc-secure.so.2.0", MALLOC_MIMALLOC, "mimalloc" },
		{ "/usr/lib/libtcmalloc_minimal.so.4", MALLOC_TCMALLOC, "tcmalloc" },
		{ "/lib/ld-musl-x86_64.so.1", MALLOC_MUSL, "musl" },
		{ "/opt/libown.so", MALLOC_OTHER, "libown.so" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct malloc_allocator a = allocator_in(cases[i].path, LIBC + 0x40);
		assert_int_equal(a.kind, cases[i].kind);
		assert_string_equal(malloc_allocator_name(&a), cases[i].name);
	}
}

static void an_allocator_that_is_not_known(void **state UNUSED)
{
	assert_int_equal(allocator_in("/lib/libc.so.6", 0).kind, MALLOC_UNKNOWN);
	assert_int_equal(allocator_in("/lib/libc.so.6", 0x1234).kind, MALLOC_UNKNOWN);
	/* Not bound yet: it leads back into the library itself. */
	assert_int_equal(allocator_in("/lib/libc.so.6", LIBRARY + 0x30).kind, MALLOC_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_by_what_they_are),
		cmocka_unit_test(mapped_chunks_are_checked),
		cmocka_unit_test(only_what_is_resident_can_come_back),
		cmocka_unit_test(a_wrong_guess_has_no_numbers),
		cmocka_unit_test(arenas_that_lead_nowhere),
		cmocka_unit_test(lists_without_an_end),
		cmocka_unit_test(a_process_without_arenas),
		cmocka_unit_test(every_word_hostile),
		cmocka_unit_test(the_allocator_is_named),
		cmocka_unit_test(an_allocator_that_is_not_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
