#include "heap/walk.h"
#include "heap/internal.h"
#include <string.h>

#define WINDOW ((size_t)64 << 10)
#define TYPE_CACHE 4096u
#define MIN_OBJECT 24u
#define MAX_PARTS 65536
/* A thread that takes its next piece of generation 0 moves the end of the region before the piece is filled: what is
 * between is not yet objects. */
#define RAW_TAIL ((uint64_t)64 << 10)
#define SAMPLE_MAX 512

struct heap_walk {
	struct heap *h;
	const struct heap_outline *outline;
	size_t region, context;
	uint64_t at; /* the next object; 0 = the region has not begun */
	/* [window_start, window_end) of the image */
	uint8_t *window;
	uint64_t window_start, window_end;
	struct { /* by hash of its address */
		uint64_t method_table;
		const struct heap_type *type;
	} types[TYPE_CACHE];
	struct heap_health health;
	/* For the check: one of each type first, then further ones, ever rarer. */
	struct dac_objects sample;
	uint64_t sample_step, sample_next;
	VEC(bool) sampled; /* by type index */
	size_t n_sampled;
	/* The type whose instances make types at run time, NULL = not found yet; and what they made. */
	const struct heap_type *builder;
	struct emitted emitted;
};

struct heap_walk *heap_walk_new(struct heap *h, const struct heap_outline *outline)
{
	struct heap_walk *w = mem_zalloc(sizeof(*w));
	w->h = h;
	w->outline = outline;
	w->window = mem_alloc(WINDOW + 8);
	w->sample_step = 1;
	return w;
}

void heap_walk_free(struct heap_walk *w)
{
	if (!w)
		return;
	mem_free(w->window);
	vec_free(&w->sample);
	vec_free(&w->sampled);
	vec_free(&w->emitted);
	mem_free(w);
}

struct heap *heap_walk_heap(const struct heap_walk *w)
{
	return w->h;
}

struct heap_health heap_walk_health(const struct heap_walk *w)
{
	return w->health;
}

/* ---- memory ---- */

static const uint8_t *move_window(struct heap_walk *w, uint64_t addr, size_t len)
{
	/* References in the window are read as words. */
	uint64_t start = addr & ~(uint64_t)7, lead = addr - start;
	uint64_t end = w->region < w->outline->regions.n ? w->outline->regions.v[w->region].end : 0;
	size_t got, want = end > start ? (size_t)MIN(end - start, (uint64_t)WINDOW) : 0;
	image_read(w->h->image, start, w->window, MAX(want, len + lead), &got);
	w->window_start = start;
	w->window_end = start + got;
	return got >= len + lead ? w->window + lead : NULL;
}

/* len <= WINDOW bytes at addr; NULL when they are not all in the image. */
static inline const uint8_t *window_at(struct heap_walk *w, uint64_t addr, size_t len)
{
	uint64_t offset = addr - w->window_start, has = w->window_end - w->window_start;
	if (len <= has && offset <= has - len)
		return w->window + offset;
	return move_window(w, addr, len);
}

const uint8_t *heap_walk_bytes(struct heap_walk *w, const struct heap_found *found, uint64_t offset, size_t len)
{
	if (len > WINDOW || found->size < 8 || offset > found->size - 8 || len > found->size - 8 - offset)
		return NULL;
	return window_at(w, found->address + offset, len);
}

static const struct heap_type *type_at(struct heap_walk *w, uint64_t method_table)
{
	size_t i = (method_table * 0x9E3779B97F4A7C15u) >> 52;
	_Static_assert(TYPE_CACHE == 1u << 12, "as many as the hash has values");
	if (w->types[i].method_table != method_table) {
		w->types[i].method_table = method_table;
		w->types[i].type = heap_type(w->h, method_table);
		if (w->types[i].type && emitted_is_builder(w->types[i].type))
			w->builder = w->types[i].type;
	}
	return w->types[i].type;
}

/* ---- from object to object ---- */

/* Steps over what threads have taken and not filled. True when it moved. */
static bool skip_context(struct heap_walk *w, const struct heap_region *r)
{
	const struct heap_context *c = w->outline->contexts.v;
	size_t n = w->outline->contexts.n;
	while (w->context < n && c[w->context].ptr < w->at)
		w->context++;
	if (w->context >= n || c[w->context].ptr != w->at)
		return false;
	uint64_t next = MIN(c[w->context].limit + MIN_OBJECT, r->end);
	w->context++;
	w->health.unused_bytes += next - w->at;
	w->at = next;
	return true;
}

/* Fills in what is at w->at; false when that is no object. */
static bool look_at(struct heap_walk *w, const struct heap_region *r, struct heap_found *f)
{
	const uint8_t *p = r->end - w->at >= 16 ? window_at(w, w->at, 16) : NULL;
	uint64_t method_table;
	if (!p)
		return false;
	memcpy(&method_table, p, 8);
	uint32_t n = 0;
	memcpy(&n, p + 8, 4);
	/* The type may have to be learnt, which does not touch the window. */
	const struct heap_type *type = type_at(w, method_table & ~(uint64_t)7);
	if (!type || type->base_size < MIN_OBJECT - 2)
		return false;
	n = type->component_size ? n : 0;
	uint64_t size = (type->base_size + (uint64_t)n * type->component_size + 7) & ~(uint64_t)7;
	if (size < MIN_OBJECT || size > r->end - w->at)
		return false;
	*f = (struct heap_found){ .address = w->at, .size = size, .type = type, .region = (uint32_t)w->region, .n = n };
	return true;
}

/* Space that is reserved, but whose object is not written yet: it ends where the rest of its thread's reservation
 * begins. */
static bool skip_unborn(struct heap_walk *w, const struct heap_region *r)
{
	const struct heap_context *c = w->outline->contexts.v;
	const uint8_t *p = window_at(w, w->at, 8);
	uint64_t word = 1;
	if (p)
		memcpy(&word, p, 8);
	if (word || w->context >= w->outline->contexts.n || c[w->context].ptr >= r->end)
		return false;
	w->health.unused_bytes += c[w->context].ptr - w->at;
	w->at = c[w->context].ptr;
	return true;
}

static void end_region(struct heap_walk *w, const struct heap_region *r)
{
	uint64_t left = r->end - w->at;
	if (r->generation == HEAP_GEN0 && left <= RAW_TAIL) {
		w->health.unused_bytes += left;
		return;
	}
	w->health.lost_bytes += left;
	if (!w->health.lost_regions++)
		w->health.lost_at = w->at;
}

static bool first_of_type(struct heap_walk *w, uint32_t type)
{
	if (type < w->sampled.n && w->sampled.v[type])
		return false;
	if (w->n_sampled >= SAMPLE_MAX / 2)
		return false;
	while (w->sampled.n <= type)
		vec_push(&w->sampled, false);
	w->sampled.v[type] = true;
	w->n_sampled++;
	return true;
}

static void remember(struct heap_walk *w, const struct heap_found *f)
{
	if (w->sample.n >= SAMPLE_MAX)
		return;
	if (w->health.objects >= w->sample_next) {
		w->sample_step += w->sample_step / 16 + 1;
		w->sample_next = w->health.objects + w->sample_step;
	} else if (!first_of_type(w, f->type->index)) {
		return;
	}
	vec_push(&w->sample, ((struct dac_object){ f->address, f->type->address, f->size }));
}

static void count(struct heap_walk *w, const struct heap_found *f)
{
	if (f->type->kind == HEAP_FREE) {
		w->health.free_objects++;
		w->health.free_bytes += f->size;
		return;
	}
	remember(w, f);
	if (f->type == w->builder)
		emitted_note(w->h, f->address, &w->emitted);
	w->health.objects++;
	w->health.bytes += f->size;
}

bool heap_walk_next(struct heap_walk *w, struct heap_found *ret)
{
	for (; w->region < w->outline->regions.n; w->region++, w->at = 0) {
		const struct heap_region *r = &w->outline->regions.v[w->region];
		if (!w->at)
			w->at = r->start;
		while (w->at < r->end) {
			if (skip_context(w, r))
				continue;
			if (look_at(w, r, ret)) {
				w->at += ret->size;
				count(w, ret);
				return true;
			}
			if (!skip_unborn(w, r)) {
				end_region(w, r);
				break;
			}
		}
	}
	emitted_name(w->h, &w->emitted);
	return false;
}

bool heap_walk_again(struct heap_walk *w, uint64_t address, struct heap_found *ret)
{
	const struct heap_region *r = heap_region_at(w->outline, address);
	if (!r)
		return false;
	w->region = (size_t)(r - w->outline->regions.v);
	w->at = address;
	return look_at(w, r, ret);
}

/* ---- references ---- */

/* Series of plain types lie below the method table, the first nearest to it. */
static void read_series(struct heap *h, const struct heap_type *type, int64_t n, struct ref_map *map)
{
	map->parts = arena_zalloc(&h->arena, (size_t)n * sizeof(*map->parts));
	for (int64_t i = 0; i < n; i++) {
		uint64_t words[2]; /* size less that of the object, start */
		if (!heap_read(h, type->address - 24 - 16 * (uint64_t)i, words, sizeof(words)))
			return;
		if (words[1] < 8 || words[1] & 7 || words[0] & 7 || (int64_t)words[0] > 0 || words[1] > type->base_size)
			continue;
		map->parts[map->n++] = (struct ref_part){ words[1], (int64_t)words[0] };
	}
}

static void read_items(struct heap *h, const struct heap_type *type, int64_t n, struct ref_map *map)
{
	uint64_t bytes = 0;
	if (!heap_read_u64(h, type->address - 16, &map->start) || map->start < 8 || map->start & 7)
		return;
	map->parts = arena_zalloc(&h->arena, (size_t)n * sizeof(*map->parts));
	map->repeated = true;
	for (int64_t i = 0; i < n; i++) {
		uint32_t item[2]; /* references in a row, bytes to skip */
		if (!heap_read(h, type->address - 24 - 8 * (uint64_t)i, item, sizeof(item)) || item[1] & 7 ||
		    item[0] > MAX_PARTS) {
			bytes = 0;
			break;
		}
		bytes += 8ull * item[0] + item[1];
		map->parts[map->n++] = (struct ref_part){ item[0], item[1] };
	}
	/* Together they are one element, else they would never end or not fit. */
	if (bytes != type->component_size)
		map->n = 0;
}

const struct ref_map *heap_ref_map(struct heap *h, const struct heap_type *type)
{
	struct type_entry *e = heap_entry(h, type);
	int64_t n;
	if (e->has_map)
		return &e->map;
	e->has_map = true;
	if (!type->has_refs || !heap_read_u64(h, type->address - 8, (uint64_t *)&n) || n > MAX_PARTS || n < -MAX_PARTS)
		return &e->map;
	if (n > 0)
		read_series(h, type, n, &e->map);
	else if (n < 0)
		read_items(h, type, -n, &e->map);
	return &e->map;
}

/* A run of references, in portions of a window. */
static void deliver(struct heap_walk *w, uint64_t at, uint64_t end, heap_refs_fn on_refs, void *user)
{
	while (at < end) {
		size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW);
		const uint8_t *p = window_at(w, at, len);
		if (!p) /* a hole in the image */
			return;
		on_refs(user, at, (const uint64_t *)(const void *)p, len / 8);
		at += len;
	}
}

void heap_walk_refs(struct heap_walk *w, const struct heap_found *f, heap_refs_fn on_refs, void *user)
{
	if (!f->type->has_refs)
		return;
	const struct ref_map *map = heap_ref_map(w->h, f->type);
	uint64_t end = f->address + f->size - 8;
	if (!map->repeated) {
		for (uint32_t i = 0; i < map->n; i++) {
			const struct ref_part *p = &map->parts[i];
			int64_t len = p->size + (int64_t)f->size;
			uint64_t at = f->address + p->start;
			if (len > 0 && at < end)
				deliver(w, at, MIN(at + (uint64_t)len, end), on_refs, user);
		}
		return;
	}
	for (uint64_t at = f->address + map->start; map->n && at < end;)
		for (uint32_t i = 0; i < map->n && at < end; i++) {
			deliver(w, at, MIN(at + 8 * map->parts[i].start, end), on_refs, user);
			at += 8 * map->parts[i].start + (uint64_t)map->parts[i].size;
		}
}

/* ---- the check ---- */

struct err *heap_walk_check(struct heap_walk *w)
{
	uint64_t addresses[SAMPLE_MAX];
	struct dac_objects seen;
	for (size_t i = 0; i < w->sample.n; i++)
		addresses[i] = w->sample.v[i].object;
	/* cppcheck-suppress returnDanglingLifetime ; an error holds nothing of its arguments */
	TRY(w->h->source.objects(w->h->source.user, addresses, w->sample.n, &seen));
	struct err *err = NULL;
	for (size_t i = 0; i < seen.n && i < w->sample.n && !err; i++) {
		const struct dac_object *a = &w->sample.v[i], *b = &seen.v[i];
		/* The library does not round up. */
		if (b->type != a->type || ((b->size + 7) & ~(uint64_t)7) != a->size)
			err = err_new(ERR_UNSUPPORTED,
				      "this runtime lays out its heap in another way: at 0x%llx we see %llu bytes, its "
				      "own library %llu",
				      (unsigned long long)a->object, (unsigned long long)a->size,
				      (unsigned long long)(b->type == a->type ? b->size : 0));
	}
	dac_objects_free(&seen);
	return err;
}
