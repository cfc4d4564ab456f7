#include "model/series.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include <math.h>
#include <string.h>

#define MAX_SERIES 4000
#define MAX_POINTS 3600
#define MAX_BYTES ((size_t)32 << 20)
#define FIRST_POINTS 32

struct series_set {
	struct series_limits limits;
	struct arena arena; /* texts */
	struct strtab keys; /* id = index */
	VEC(struct series *) all;
	uint64_t refused;
	size_t ring_bytes;
};

static const size_t columns_of[] = {
	[SERIES_GAUGE] = 1,
	[SERIES_RATE] = 2,
	[SERIES_HISTOGRAM] = 5,
};

struct series_set *series_set_new(const struct series_limits *limits)
{
	struct series_set *set = mem_zalloc(sizeof(*set));
	if (limits)
		set->limits = *limits;
	struct series_limits *l = &set->limits;
	l->max_series = l->max_series ? l->max_series : MAX_SERIES;
	l->max_points = l->max_points ? l->max_points : MAX_POINTS;
	l->max_bytes = l->max_bytes ? l->max_bytes : MAX_BYTES;
	return set;
}

void series_set_free(struct series_set *set)
{
	if (!set)
		return;
	vec_each(s, &set->all) {
		mem_free((*s)->when_ns);
		mem_free((*s)->values);
		mem_free(*s);
	}
	vec_free(&set->all);
	strtab_free(&set->keys);
	arena_free(&set->arena);
	mem_free(set);
}

static void forget(struct series *s)
{
	s->n = s->first = 0;
	s->seen = 0;
	for (size_t c = 0; c < SERIES_COLUMNS_MAX; c++)
		s->last[c] = s->min[c] = s->max[c] = NAN;
}

static void join_key(struct series_key key, struct buf *out)
{
	buf_add(out, key.provider, strlen(key.provider) + 1);
	buf_add(out, key.name, strlen(key.name) + 1);
	buf_str(out, key.tags);
}

const struct series *series_find(const struct series_set *set, struct series_key key)
{
	CLEANUP(buf_free) struct buf joined = { 0 };
	join_key(key, &joined);
	uint32_t id = strtab_find(&set->keys, joined.data, joined.len);
	return id == STRTAB_NONE ? NULL : set->all.v[id];
}

static struct series *make(struct series_set *set, struct series_key key, const struct series_info *info)
{
	struct series *s = mem_zalloc(sizeof(*s));
	s->key = (struct series_key){ .provider = arena_strdup(&set->arena, key.provider),
				      .name = arena_strdup(&set->arena, key.name),
				      .tags = arena_strdup(&set->arena, key.tags) };
	s->display = arena_strdup(&set->arena, info->display ? info->display : "");
	s->unit = arena_strdup(&set->arena, info->unit ? info->unit : "");
	s->kind = info->kind;
	s->meter = info->meter;
	s->columns = columns_of[info->kind];
	forget(s);
	vec_push(&set->all, s); /* NOLINT(bugprone-sizeof-expression): pointers are meant, callers hold them */
	return s;
}

struct series *series_put(struct series_set *set, struct series_key key, const struct series_info *info)
{
	CLEANUP(buf_free) struct buf joined = { 0 };
	join_key(key, &joined);
	uint32_t id = strtab_find(&set->keys, joined.data, joined.len);
	if (id != STRTAB_NONE)
		return set->all.v[id]->kind == info->kind ? set->all.v[id] : NULL;
	if (set->all.n >= set->limits.max_series || series_bytes(set) >= set->limits.max_bytes) {
		set->refused++;
		return NULL;
	}
	strtab_add(&set->keys, joined.data, joined.len);
	return make(set, key, info);
}

size_t series_count(const struct series_set *set)
{
	return set->all.n;
}

const struct series *series_at(const struct series_set *set, size_t i)
{
	return set->all.v[i];
}

uint64_t series_refused(const struct series_set *set)
{
	return set->refused;
}

size_t series_bytes(const struct series_set *set)
{
	return set->ring_bytes + set->arena.used_bytes + set->keys.bytes + set->all.n * sizeof(struct series);
}

/* Twice as large, in order of time, if the limits allow. */
static bool grow(struct series_set *set, struct series *s)
{
	size_t cap = MIN(s->cap ? s->cap * 2 : FIRST_POINTS, set->limits.max_points);
	size_t point = sizeof(int64_t) + s->columns * sizeof(double);
	if (cap <= s->cap || (s->cap && series_bytes(set) + (cap - s->cap) * point > set->limits.max_bytes))
		return false;
	int64_t *when = mem_array(cap, sizeof(*when));
	double *values = mem_array(cap * s->columns, sizeof(*values));
	for (size_t i = 0; i < s->n; i++)
		when[i] = series_point(s, i, values + i * s->columns);
	mem_free(s->when_ns);
	mem_free(s->values);
	set->ring_bytes += (cap - s->cap) * point;
	s->when_ns = when;
	s->values = values;
	s->cap = cap;
	s->first = 0;
	return true;
}

static void note_extremes(struct series *s)
{
	for (size_t c = 0; c < s->columns; c++) {
		s->min[c] = fmin(s->min[c], s->last[c]);
		s->max[c] = fmax(s->max[c], s->last[c]);
	}
}

void series_add(struct series_set *set, struct series *s, int64_t when_ns, const double *values)
{
	s->last_ns = s->seen ? MAX(s->last_ns, when_ns) : when_ns;
	s->seen++;
	for (size_t c = 0; c < s->columns; c++)
		s->last[c] = isfinite(values[c]) ? values[c] : NAN;
	note_extremes(s);
	if (s->n == s->cap && !grow(set, s)) {
		s->first = (s->first + 1) % s->cap;
		s->n--;
	}
	size_t at = (s->first + s->n++) % s->cap;
	s->when_ns[at] = s->last_ns;
	memcpy(s->values + at * s->columns, s->last, s->columns * sizeof(double));
}

int64_t series_point(const struct series *s, size_t i, double *ret_values)
{
	size_t at = (s->first + i) % s->cap;
	memcpy(ret_values, s->values + at * s->columns, s->columns * sizeof(double));
	return s->when_ns[at];
}

void series_set_reset(struct series_set *set)
{
	vec_each(s, &set->all)
		forget(*s);
}

void series_cells(const struct series *s, size_t column, int64_t from_ns, int64_t to_ns, double *ret, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ret[i] = NAN;
	if (!n || to_ns < from_ns || column >= s->columns)
		return;
	double width = ((double)to_ns - (double)from_ns) / (double)n;
	for (size_t i = 0; i < s->n; i++) {
		size_t at = (s->first + i) % s->cap;
		if (s->when_ns[at] < from_ns || s->when_ns[at] > to_ns)
			continue;
		double cell = width > 0 ? ((double)s->when_ns[at] - (double)from_ns) / width : 0;
		size_t c = MIN((size_t)cell, n - 1);
		ret[c] = fmax(ret[c], s->values[at * s->columns + column]);
	}
}

bool series_window(const struct series_set *set, int64_t *ret_from_ns, int64_t *ret_to_ns)
{
	bool any = false;
	vec_each(it, &set->all) {
		const struct series *s = *it;
		if (!s->n)
			continue;
		int64_t from = s->when_ns[s->first], to = s->last_ns;
		*ret_from_ns = any ? MIN(*ret_from_ns, from) : from;
		*ret_to_ns = any ? MAX(*ret_to_ns, to) : to;
		any = true;
	}
	return any;
}
