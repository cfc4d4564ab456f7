/* In the recording: tag u32; then numbers as LEB128: values, texts, each { length, bytes, text }, unread, strings, each
 * { value + 1, or 0 }. Values come in order of what their copies take. */

#include "memory/string_values.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>

#define TAG 0x53525453u /* "STRS" */
#define STRING_FIRST 12 /* offset of the first unit */
#define PORTION ((size_t)64 << 10)
#define VALUE_NONE UINT32_MAX

/* ---- while the heap is walked ---- */

struct string_met {
	uint64_t first; /* address of the first one */
	uint32_t length, copies;
};

struct string_reader {
	uint64_t seed;
	struct map_u64 by_hash; /* index of a value + 1 */
	VEC(struct string_met) values;
	VEC(uint32_t) of_string; /* index, or VALUE_NONE */
	uint32_t unread;
	bool has_wanted;
	uint64_t wanted; /* its hash */
};

static uint64_t hash_units(const void *units, size_t len, uint64_t seed, uint64_t so_far)
{
	return hash_bytes(units, len, seed ^ so_far);
}

/* false: it is not all in the image. */
static bool hash_string(const struct string_reader *r, struct heap_walk *walk, const struct heap_found *found,
			uint64_t *ret)
{
	uint64_t len = 2 * (uint64_t)found->n, hash = found->n;
	for (uint64_t at = 0; at < len; at += PORTION) {
		size_t part = (size_t)MIN(len - at, (uint64_t)PORTION);
		const uint8_t *units = heap_walk_bytes(walk, found, STRING_FIRST + at, part);
		if (!units)
			return false;
		hash = hash_units(units, part, r->seed, hash);
	}
	*ret = hash;
	return true;
}

static void on_object(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number)
{
	struct string_values *s = user;
	struct string_reader *r = s->reader;
	uint64_t hash;
	(void)number;
	if (found->type->kind != HEAP_STRING)
		return;
	if (!hash_string(r, walk, found, &hash)) {
		vec_push(&r->of_string, VALUE_NONE);
		r->unread++;
		return;
	}
	uint64_t *at = map_u64_put(&r->by_hash, hash, NULL);
	if (!*at) {
		vec_push(&r->values, ((struct string_met){ .first = found->address, .length = found->n }));
		*at = r->values.n;
	}
	r->values.v[*at - 1].copies++;
	vec_push(&r->of_string, (uint32_t)(*at - 1));
}

/* ---- writing it down ---- */

static uint64_t met_wasted(const struct string_met *v)
{
	return (uint64_t)(v->copies - 1) * (v->length + 11ull);
}

struct string_ranked {
	uint64_t wasted;
	uint32_t value;
};

static int most_wasted_first(const void *a, const void *b)
{
	const struct string_ranked *x = a, *y = b;
	return CMP(y->wasted, x->wasted) ?: CMP(x->value, y->value);
}

VEC_TYPE(string_ranks, struct string_ranked);

/* Those with copies; the one that was asked for comes first in any case. */
static void rank(const struct string_reader *r, struct string_ranks *ret)
{
	const uint64_t *wanted = r->has_wanted ? map_u64_get(&r->by_hash, r->wanted) : NULL;
	for (uint32_t i = 0; i < r->values.n; i++) {
		if (wanted && *wanted - 1 == i)
			vec_push(ret, ((struct string_ranked){ UINT64_MAX, i }));
		else if (r->values.v[i].copies > 1)
			vec_push(ret, ((struct string_ranked){ met_wasted(&r->values.v[i]), i }));
	}
	vec_sort(ret, most_wasted_first);
}

static void on_done(void *user, struct heap *h, struct buf *out)
{
	struct string_values *s = user;
	struct string_reader *r = s->reader;
	struct string_ranks ranks = { 0 };
	CLEANUP(buf_free) struct buf text = { 0 };
	rank(r, &ranks);
	buf_u32(out, TAG);
	buf_varu64(out, ranks.n);
	buf_varu64(out, MIN(ranks.n, (size_t)STRING_TEXTS));
	for (size_t i = 0; i < ranks.n && i < STRING_TEXTS; i++) {
		const struct string_met *v = &r->values.v[ranks.v[i].value];
		buf_clear(&text);
		heap_string(h, v->first, STRING_TEXT_UNITS, &text, NULL);
		buf_varu64(out, v->length);
		buf_vartext(out, text.data, text.len);
	}
	buf_varu64(out, r->unread);
	/* From here on a value's place in the order is its number. */
	vec_each(v, &r->values)
		v->copies = 0;
	for (size_t i = 0; i < ranks.n; i++)
		r->values.v[ranks.v[i].value].copies = (uint32_t)i + 1;
	buf_varu64(out, r->of_string.n);
	vec_each(v, &r->of_string)
		buf_varu64(out, *v == VALUE_NONE ? 0 : r->values.v[*v].copies);
	vec_free(&ranks);
}

/* ---- reading it back ---- */

static bool take_texts(struct string_values *s, struct cursor *in, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		size_t bytes;
		uint64_t length = cursor_varu64(in);
		const char *text = cursor_vartext(in, 4 * STRING_TEXT_UNITS, &bytes);
		if (!text || length > UINT32_MAX)
			return false;
		s->values.v[i].length = (uint32_t)length;
		s->values.v[i].text = arena_dup(&s->arena, text, bytes);
		s->values.v[i].text_len = (uint32_t)bytes;
	}
	return true;
}

static bool take_strings(struct string_values *s, struct cursor *in)
{
	uint64_t unread = cursor_varu64(in), n = cursor_varu64(in);
	if (!cursor_ok(in) || n > cursor_left(in) || n >= UINT32_MAX)
		return false;
	s->unread = (uint32_t)MIN(unread, n);
	s->n_strings = (uint32_t)n;
	s->of_string = mem_array(MAX(n, (uint64_t)1), sizeof(*s->of_string));
	for (uint64_t i = 0; i < n; i++) {
		uint64_t value = cursor_varu64(in);
		if (value > s->values.n)
			return false;
		s->of_string[i] = (uint32_t)value;
	}
	return cursor_ok(in);
}

static struct err *take_more(void *user, struct cursor *in)
{
	struct string_values *s = user;
	if (cursor_u32(in) != TAG)
		return err_new(ERR_UNSUPPORTED,
			       "the recording holds no strings: it was made by a profiler that does not read them");
	uint64_t n = cursor_varu64(in), texts = cursor_varu64(in);
	/* A value is there at least once, which takes a byte. */
	if (!cursor_ok(in) || n > cursor_left(in) || texts > n)
		return err_new(ERR_BAD_DATA, "the recording's strings are damaged");
	for (uint64_t i = 0; i < n; i++)
		vec_push(&s->values, (struct string_value){ 0 });
	if (!take_texts(s, in, texts) || !take_strings(s, in))
		return err_new(ERR_BAD_DATA, "the recording's strings are damaged");
	return NULL;
}

/* ---- together ---- */

void string_values_watch(struct string_values *s, struct heap_look *look, const char *wanted)
{
	struct string_reader *r = s->reader = mem_zalloc(sizeof(*r));
	r->seed = hash_seed();
	if (!str_empty(wanted)) {
		CLEANUP(buf_free) struct buf units = { 0 };
		utf16_from_utf8(&units, wanted);
		r->has_wanted = true;
		r->wanted = hash_units(units.data, units.len, r->seed, units.len / 2);
	}
	look->on_object = on_object;
	look->on_done = on_done;
	look->take_more = take_more;
	look->user = s;
}

struct err *string_values_count(struct string_values *s, const struct heapgraph *g)
{
	uint32_t k = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		if (g->types.v[g->type[i]].kind != GRAPH_STRING)
			continue;
		uint32_t value = k < s->n_strings ? s->of_string[k] : 0;
		k++;
		if (!value)
			continue;
		struct string_value *v = &s->values.v[value - 1];
		if (heapgraph_reached(g, i)) {
			v->copies++;
			v->each = (uint64_t)g->units[i] * 8;
			v->bytes += v->each;
		} else {
			v->garbage++;
		}
	}
	return k == s->n_strings ? NULL : err_new(ERR_BAD_DATA, "the recording's strings are not those of its heap");
}

void string_values_fini(struct string_values *s)
{
	if (s->reader) {
		map_u64_free(&s->reader->by_hash);
		vec_free(&s->reader->values);
		vec_free(&s->reader->of_string);
		mem_free(s->reader);
	}
	vec_free(&s->values);
	mem_free(s->of_string);
	arena_free(&s->arena);
}

/* ---- how they are shown ---- */

void string_show(const struct string_value *v, size_t max_chars, struct buf *out)
{
	size_t chars = 0;
	for (size_t at = 0; at < v->text_len; chars++) {
		uint32_t cp = 0xFFFD;
		size_t n = utf8_decode(v->text + at, v->text_len - at, &cp);
		if (chars >= max_chars)
			break;
		cp = n && !cp ? 0x2400 : cp; /* the picture of a NUL */
		utf8_encode(out, cp);
		at += n ? n : 1;
	}
	if (v->length > chars && (chars >= max_chars || v->length > STRING_TEXT_UNITS))
		buf_str(out, "…");
}
