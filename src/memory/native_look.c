#include "memory/native_look.h"
#include "base/fd.h"
#include "memory/memory_areas.h"
#include "target/target.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((uint64_t)4096)
#define PRESENT ((uint64_t)1 << 63) /* of a word of /proc/PID/pagemap */
#define STACK_END 8192		    /* where glibc keeps what it knows of a thread: at the upper end of its stack */

const char *const native_kind_names[NATIVE_KINDS] = {
	[NATIVE_HEAP] = "managed heap",
	[NATIVE_USED] = "malloc, in use",
	[NATIVE_CACHED] = "malloc, free, in caches",
	[NATIVE_TRIMMABLE] = "malloc, free, whole pages",
	[NATIVE_SCATTERED] = "malloc, free, scattered",
	[NATIVE_TOP] = "malloc, ends of arenas",
	[NATIVE_CODE] = "code made at run time",
	[NATIVE_LOADER] = "types and stubs",
	[NATIVE_STACKS] = "stacks of threads",
	[NATIVE_OLD_STACKS] = "stacks of ended threads",
	[NATIVE_ASSEMBLIES] = "assemblies",
	[NATIVE_LIBRARIES] = "native libraries",
	[NATIVE_FILES] = "other files",
	[NATIVE_SHARED] = "shared with other processes",
	[NATIVE_OTHER] = "other private memory",
};

/* ---- in the copy ---- */

struct native_drain {
	struct native_look *look;
	const struct image *image;
	int pagemap; /* of the living process; -1 = not known */
	struct memory_areas areas;
	struct malloc_look malloc;
};

static uint64_t resident(void *user, uint64_t start, uint64_t end)
{
	const struct native_drain *d = user;
	uint64_t words[512], sum = 0;
	for (uint64_t page = start / PAGE, last = end / PAGE; page < last;) {
		size_t want = (size_t)MIN(last - page, (uint64_t)ARRAY_SIZE(words));
		size_t n = fd_pread(d->pagemap, words, want * sizeof(*words), page * sizeof(*words)) / sizeof(*words);
		for (size_t i = 0; i < n; i++)
			sum += words[i] & PRESENT ? PAGE : 0;
		if (n < want)
			break;
		page += n;
	}
	return sum;
}

/* A stack ends with what glibc knows of its thread, which begins with its own address, twice. No thread of the image is in
 * this one: glibc keeps it for the next. */
static bool is_old_stack(const struct image *img, const struct memory_area *a)
{
	uint64_t words[STACK_END / sizeof(uint64_t)], at = a->end - STACK_END;
	if (!a->writable || a->end - a->start < STACK_END || !image_read_all(img, at, words, sizeof(words)))
		return false;
	for (size_t i = 0; i + 2 < ARRAY_SIZE(words); i += 2)
		if (words[i] == at + i * sizeof(*words) && words[i + 2] == words[i])
			return true;
	return false;
}

/* How much of a mapping is in the range, in RAM. Without knowledge of pages its resident part is taken for even. */
static uint64_t part_of(const struct native_drain *d, const struct memory_area *a, uint64_t start, uint64_t end)
{
	start = MAX(start, a->start);
	end = MIN(end, a->end);
	if (start >= end)
		return 0;
	if (start == a->start && end == a->end)
		return a->rss;
	if (d->pagemap >= 0)
		return MIN(resident((void *)(uintptr_t)d, start, end), a->rss);
	return (uint64_t)((double)a->rss * ratio(end - start, a->end - a->start));
}

/* Of private memory: what belongs to arenas, to mapped chunks, and to nobody that is known. */
static void divide(struct native_drain *d, const struct memory_area *a, uint64_t *arenas)
{
	struct native_look *look = d->look;
	uint64_t in_arenas = 0, mapped = 0;
	vec_each(h, &d->malloc.heaps)
		if (h->start < a->end && h->end > a->start)
			in_arenas += part_of(d, a, h->start, h->end);
	in_arenas = MIN(in_arenas, a->rss);
	vec_each(r, &d->malloc.ranges)
		if (r->start < a->end && r->start + r->size > a->start)
			mapped += part_of(d, a, r->start, r->start + r->size);
	mapped = MIN(mapped, a->rss - in_arenas);
	uint64_t rest = a->rss - in_arenas - mapped;
	*arenas += in_arenas;
	look->kind[NATIVE_USED] += mapped;
	look->kind[rest == a->rss && is_old_stack(d->image, a) ? NATIVE_OLD_STACKS : NATIVE_OTHER] += rest;
}

static uint64_t take_from(uint64_t *left, uint64_t bytes)
{
	uint64_t taken = MIN(*left, bytes);
	*left -= taken;
	return taken;
}

/* What is free is measured or counted; the rest of the arenas' resident memory is in use. */
static void divide_arenas(struct native_look *look, uint64_t resident_bytes, uint64_t top)
{
	uint64_t left = resident_bytes;
	uint64_t free_bytes = look->state[MALLOC_FREE].bytes;
	look->kind[NATIVE_TRIMMABLE] = take_from(&left, look->trimmable);
	look->kind[NATIVE_TOP] = take_from(&left, top);
	look->kind[NATIVE_SCATTERED] = take_from(&left, free_bytes - MIN(free_bytes, look->whole_pages));
	look->kind[NATIVE_CACHED] = take_from(&left, look->state[MALLOC_CACHED].bytes);
	look->kind[NATIVE_USED] += left;
}

static void sum_areas(struct native_drain *d)
{
	static const enum native_kind of[MEMORY_KINDS] = {
		[MEMORY_HEAP] = NATIVE_HEAP,	       [MEMORY_CODE] = NATIVE_CODE,
		[MEMORY_LOADER] = NATIVE_LOADER,       [MEMORY_STACKS] = NATIVE_STACKS,
		[MEMORY_ANONYMOUS] = NATIVE_OTHER,     [MEMORY_ASSEMBLIES] = NATIVE_ASSEMBLIES,
		[MEMORY_LIBRARIES] = NATIVE_LIBRARIES, [MEMORY_FILES] = NATIVE_FILES,
		[MEMORY_SHARED] = NATIVE_SHARED,
	};
	struct native_look *look = d->look;
	uint64_t arenas = 0, top = 0;
	vec_each(a, &d->areas) {
		look->rss += a->rss;
		look->swap += a->swap;
		look->huge += a->huge;
		if (a->kind == MEMORY_ANONYMOUS)
			divide(d, a, &arenas);
		else
			look->kind[of[a->kind]] += a->rss;
	}
	vec_each(a, &d->malloc.arenas)
		top += a->top_resident;
	if (look->rss)
		divide_arenas(look, arenas, top);
}

static void sum_arenas(struct native_look *look, const struct malloc_look *m)
{
	look->n_arenas = (uint32_t)m->arenas.n;
	look->understood = m->arenas.n && !m->doubt;
	look->mapped_known = m->mapped.known;
	look->mapped_found = m->mapped.found;
	look->mapped = m->mapped.sum;
	look->arena_max = m->arena_max;
	look->n_sizes = (uint32_t)m->sizes.n;
	for (size_t i = 0; i < m->sizes.n && i < NATIVE_SIZES_MAX; i++)
		vec_push(&look->sizes, m->sizes.v[i]);
	vec_each(a, &m->arenas) {
		for (unsigned s = 0; s < MALLOC_STATES; s++) {
			look->state[s].chunks += a->state[s].chunks;
			look->state[s].bytes += a->state[s].bytes;
		}
		look->trimmable += a->trimmable;
		look->whole_pages += a->whole_pages;
		if (look->arenas.n < NATIVE_ARENAS_MAX)
			vec_push(&look->arenas, *a);
		look->doubtful += a->doubt != NULL;
		look->doubtful_bytes += a->doubt ? a->system : 0;
	}
}

/* ---- what is written down ---- */

/* The fields that are numbers, in the order of the recording. */
#define EACH_FIELD(X)                                                                                                  \
	X(rss)                                                                                                         \
	X(swap)                                                                                                        \
	X(huge)                                                                                                        \
	X(page_tables)                                                                                                 \
	X(pages_known)                                                                                                 \
	X(threads)                                                                                                     \
	X(understood)                                                                                                  \
	X(trimmable)                                                                                                   \
	X(whole_pages)                                                                                                 \
	X(n_arenas)                                                                                                    \
	X(doubtful)                                                                                                    \
	X(doubtful_bytes)                                                                                              \
	X(mapped_known)                                                                                                \
	X(mapped_found)                                                                                                \
	X(arena_max)                                                                                                   \
	X(n_sizes)                                                                                                     \
	X(mapped.chunks)                                                                                               \
	X(mapped.bytes)

void native_look_write(const struct native_look *look, struct buf *out)
{
#define WRITE(field) buf_u64(out, look->field);
	EACH_FIELD(WRITE)
#undef WRITE
	for (unsigned k = 0; k < NATIVE_KINDS; k++)
		buf_u64(out, look->kind[k]);
	buf_add(out, look->state, sizeof(look->state));
	buf_u32(out, look->allocator.kind);
	buf_text(out, look->allocator.file, strlen(look->allocator.file));
	buf_u32(out, (uint32_t)look->arenas.n);
	vec_each(a, &look->arenas) {
		buf_u8(out, (uint8_t)((a->doubt != NULL) << 1 | a->main));
		buf_u32(out, a->heaps);
		buf_u64(out, a->system);
		buf_u64(out, a->trimmable);
		buf_u64(out, a->whole_pages);
		buf_u64(out, a->top_resident);
		buf_add(out, a->state, sizeof(a->state));
	}
	buf_u32(out, (uint32_t)look->sizes.n);
	buf_add(out, look->sizes.v, look->sizes.n * sizeof(*look->sizes.v));
}

static void read_sums(struct cursor *in, struct malloc_sum state[MALLOC_STATES])
{
	for (unsigned s = 0; s < MALLOC_STATES; s++) {
		state[s].chunks = cursor_u64(in);
		state[s].bytes = cursor_u64(in);
	}
}

static void read_arena(struct cursor *in, struct malloc_arena *a)
{
	uint8_t flags = cursor_u8(in);
	*a = (struct malloc_arena){ .main = flags & 1, .doubt = flags & 2 ? "" : NULL };
	a->heaps = cursor_u32(in);
	a->system = cursor_u64(in);
	a->trimmable = cursor_u64(in);
	a->whole_pages = cursor_u64(in);
	a->top_resident = cursor_u64(in);
	read_sums(in, a->state);
}

static struct err *take(void *user, struct cursor *in)
{
	struct native_look *look = user;
	size_t len;
#define READ(field) look->field = (typeof(look->field))cursor_u64(in);
	EACH_FIELD(READ)
#undef READ
	for (unsigned k = 0; k < NATIVE_KINDS; k++)
		look->kind[k] = cursor_u64(in);
	read_sums(in, look->state);
	uint32_t kind = cursor_u32(in);
	const char *file = cursor_text(in, MALLOC_NAME_MAX - 1, &len);
	look->allocator = (struct malloc_allocator){ .kind = kind <= MALLOC_OTHER ? kind : MALLOC_OTHER };
	if (file)
		memcpy(look->allocator.file, file, len);
	uint32_t arenas = cursor_u32(in);
	for (uint32_t i = 0; i < arenas && i < NATIVE_ARENAS_MAX && cursor_ok(in); i++)
		read_arena(in, vec_add(&look->arenas));
	uint32_t sizes = cursor_u32(in);
	for (uint32_t i = 0; i < sizes && i < NATIVE_SIZES_MAX && cursor_ok(in); i++) {
		uint64_t size = cursor_u64(in);
		vec_push(&look->sizes, ((struct malloc_size){ size, cursor_u64(in) }));
	}
	if (!cursor_ok(in) || arenas > NATIVE_ARENAS_MAX || sizes > NATIVE_SIZES_MAX)
		return err_new(ERR_BAD_DATA, "the recording of the native memory is cut short");
	return NULL;
}

/* ---- the look ---- */

static int by_start(const void *a, const void *b)
{
	const struct image_range *x = a, *y = b;
	return CMP(x->start, y->start);
}

/* The managed heap may hold anything that looks like a chunk, and is large. */
static void look_at_malloc(struct native_drain *d, const struct heap_outline *outline)
{
	VEC(struct image_range) skip = { 0 };
	vec_each(r, &outline->regions)
		vec_push(&skip, ((struct image_range){ r->start, MAX(r->end, r->committed) - r->start }));
	vec_sort(&skip, by_start);
	const struct malloc_ask ask = {
		.resident = d->pagemap >= 0 ? resident : NULL, .user = d, .skip = skip.v, .n_skip = skip.n
	};
	malloc_look(d->image, &ask, &d->malloc);
	vec_free(&skip);
}

static uint64_t page_tables(pid_t pid)
{
	CLEANUP(buf_free) struct buf status = { 0 };
	const char *at = file_text(&status, "/proc/%d/status", (int)pid) ? strstr(buf_cstr(&status), "\nVmPTE:") : NULL;
	return at ? strtoull(at + strlen("\nVmPTE:"), NULL, 10) * 1024 : 0;
}

static void look_at_process(struct native_drain *d, const struct target *t, const struct heap_outline *outline)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)t->pid);
	d->pagemap = open(path, O_RDONLY | O_CLOEXEC);
	d->look->pages_known = d->pagemap >= 0;
	d->look->page_tables = page_tables(t->pid);
	err_ignore(memory_areas_of(t->pid, d->image, outline, &d->areas));
}

static struct err *drain(void *user, struct image_exam *look, struct buf *out)
{
	static const char *const callers[] = { "libcoreclr.so", "libSystem.Native.so", "libclrjit.so", NULL };
	struct native_look seen = { .allocator = malloc_allocator_of(look->image, callers) };
	struct native_drain d = { .look = &seen, .image = look->image, .pagemap = -1 };
	CLEANUP(heap_closep) struct heap *h = NULL;
	CLEANUP(heap_outline_free) struct heap_outline outline = { 0 };
	const struct native_look *asked = user;
	size_t threads;
	TRY(heap_open(look->image, look->dac, &h));
	TRY(heap_outline_of(h, look->dac, &outline));
	exam_progress(asked->exam, -1, "reading the native heap");
	image_threads(look->image, &threads);
	seen.threads = (uint32_t)threads;
	if (!look->facts.core)
		look_at_process(&d, &asked->exam->patient->target, &outline);
	if (seen.allocator.kind == MALLOC_GLIBC || seen.allocator.kind == MALLOC_UNKNOWN)
		look_at_malloc(&d, &outline);
	sum_arenas(&seen, &d.malloc);
	sum_areas(&d);
	native_look_write(&seen, out);
	native_look_fini(&seen);
	malloc_look_free(&d.malloc);
	vec_free(&d.areas);
	if (d.pagemap >= 0)
		close(d.pagemap);
	return NULL;
}

struct err *native_look(struct native_look *look, struct exam *exam, const char *part)
{
	struct image_exam_part p = {
		.name = part, .version = NATIVE_LOOK_VERSION, .heap = true, .drain = drain, .take = take, .user = look
	};
	look->exam = exam;
	TRY(exam_image(exam, &p));
	look->facts = p.facts;
	return NULL;
}

void native_look_fini(struct native_look *look)
{
	vec_free(&look->arenas);
	vec_free(&look->sizes);
}
