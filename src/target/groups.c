#include "target/groups.h"
#include "base/str.h"
#include "target/cgroup.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More is no limit but a number that was never meant; v1 has one near 2^63 where there is none. */
#define NO_LIMIT ((uint64_t)1 << 60)
#define LEVELS_MAX 64

struct group_source {
	const char *file, *key;
	uint64_t scale;
};

static const struct {
	const char *id;
	enum group_kind kind;
	struct group_source of[2]; /* v1, v2 */
} numbers[GROUP_NUMBERS_N] = {
#define NUMBER(name, id, kind, file1, key1, scale1, file2, key2, scale2)                                               \
	[GROUP_##name] = { id, GROUP_##kind, { { file1, key1, scale1 }, { file2, key2, scale2 } } },
	GROUP_NUMBERS(NUMBER)
#undef NUMBER
};

/* The controller of v1, and a file that each of its groups has, in v1 and v2. */
static const struct {
	const char *id, *controller, *known[2];
} kinds[GROUP_KINDS] = {
	[GROUP_CPU] = { "cpu", "cpu", { "cpu.cfs_quota_us", "cpu.max" } },
	[GROUP_MEMORY] = { "memory", "memory", { "memory.limit_in_bytes", "memory.current" } },
	[GROUP_PIDS] = { "pids", "pids", { "pids.current", "pids.current" } },
};

/* ---- files ---- */

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234", "oom_kill 3" */
static const char *behind_key(const char *text, const char *key)
{
	size_t n = strlen(key);
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		if (strncmp(p, key, n) != 0 || p[n] != ' ')
			continue;
		const char *total = memmem(p, strcspn(p, "\n"), " total=", 7);
		return total ? total + 7 : p + n + 1;
	}
	return NULL;
}

static uint64_t number_in(const char *text, const struct group_source *s)
{
	const char *p = text;
	if (s->key && *s->key)
		p = behind_key(text, s->key);
	else if (s->key)
		p += strcspn(p, " \n"), p += *p == ' ';
	if (!p || *p < '0' || *p > '9')
		return GROUP_NONE;
	uint64_t n = strtoull(p, NULL, 10);
	return n >= NO_LIMIT || n > GROUP_NONE / s->scale ? GROUP_NONE : n * s->scale;
}

/* Each file once: those of one stand together in the table. False when the group says nothing. */
static bool read_level(const struct cgroup_level *from, struct group_level *l)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	const char *file = NULL;
	bool any = false;
	for (size_t i = 0; i < GROUP_NUMBERS_N; i++) {
		const struct group_source *s = &numbers[i].of[l->v2];
		l->of[i] = GROUP_NONE;
		if (numbers[i].kind != l->kind || !s->file)
			continue;
		if (!str_eq(file, s->file)) {
			file = s->file;
			if (!cgroup_read(from, file, &text))
				buf_clear(&text);
		}
		l->of[i] = number_in(buf_cstr(&text), s);
		any |= text.len > 0;
	}
	return any;
}

void groups_add(struct groups *g, const char *proc, pid_t pid, enum group_kind kind)
{
	CLEANUP(cgroup_fini) struct cgroup found = { 0 };
	if (!pid)
		return;
	cgroup_add(&found, proc, pid, kinds[kind].controller, kinds[kind].known[0]);
	cgroup_add(&found, proc, pid, NULL, kinds[kind].known[1]);
	g->hidden |= found.hidden;
	for (size_t i = 0; i < found.n && g->levels.n < LEVELS_MAX; i++) {
		struct group_level l = { .kind = kind, .v2 = found.levels[i].v2 };
		if (!read_level(&found.levels[i], &l))
			continue;
		l.path = mem_strdup(found.levels[i].path);
		vec_push(&g->levels, l);
	}
}

void groups_fini(struct groups *g)
{
	vec_each(l, &g->levels)
		mem_free(l->path);
	vec_free(&g->levels);
	*g = (struct groups){ 0 };
}

/* ---- what they mean ---- */

double group_cpus(const struct group_level *l)
{
	uint64_t quota = l->of[GROUP_CPU_QUOTA], period = l->of[GROUP_CPU_PERIOD];
	if (!quota || !period || quota == GROUP_NONE || period == GROUP_NONE)
		return INFINITY;
	return (double)quota / (double)period;
}

uint64_t group_memory(const struct group_level *l)
{
	uint64_t used = l->of[GROUP_MEMORY_USED], idle = l->of[GROUP_MEMORY_IDLE];
	return used == GROUP_NONE || idle == GROUP_NONE ? used : used - MIN(idle, used);
}

static double limit_of(const struct group_level *l)
{
	if (l->kind == GROUP_CPU)
		return group_cpus(l);
	bool memory = l->kind == GROUP_MEMORY;
	uint64_t limit = l->of[memory ? GROUP_MEMORY_LIMIT : GROUP_PIDS_LIMIT];
	uint64_t used = l->of[memory ? GROUP_MEMORY_USED : GROUP_PIDS_USED];
	return limit == GROUP_NONE || used == GROUP_NONE ? INFINITY : (double)limit;
}

const struct group_level *groups_least(const struct groups *g, enum group_kind kind)
{
	const struct group_level *least = NULL;
	vec_each(l, &g->levels) {
		if (l->kind == kind && !isinf(limit_of(l)) && (!least || limit_of(l) < limit_of(least)))
			least = l;
	}
	return least;
}

/* ---- in a recording ---- */

json_t *groups_json(const struct groups *g)
{
	json_t *list = json_array();
	vec_each(l, &g->levels) {
		CLEANUP(buf_free) struct buf path = { 0 };
		json_t *of = json_object();
		utf8_add_valid(&path, l->path, strlen(l->path));
		for (size_t i = 0; i < GROUP_NUMBERS_N; i++)
			if (l->of[i] != GROUP_NONE)
				json_object_set_new(of, numbers[i].id, json_integer((json_int_t)l->of[i]));
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "kind", kinds[l->kind].id, "path",
						      buf_cstr(&path), "v2", l->v2, "of", of));
	}
	return json_pack("{s:b, s:o}", "hidden", g->hidden, "levels", list);
}

void groups_from_json(const json_t *json, struct groups *ret)
{
	const json_t *list = json_object_get(json, "levels");
	ret->hidden = json_get_bool(json, "hidden", false);
	for (size_t i = 0; i < MIN(json_array_size(list), (size_t)LEVELS_MAX); i++) {
		const json_t *o = json_array_get(list, i), *of = json_object_get(o, "of");
		struct group_level l = { .v2 = json_get_bool(o, "v2", false) };
		while (l.kind < GROUP_KINDS && !str_eq(kinds[l.kind].id, json_get_str(o, "kind", "")))
			l.kind++;
		if (l.kind == GROUP_KINDS)
			continue;
		for (size_t k = 0; k < GROUP_NUMBERS_N; k++) {
			int64_t n = json_get_int(of, numbers[k].id, -1);
			l.of[k] = n < 0 ? GROUP_NONE : (uint64_t)n;
		}
		l.path = mem_strdup(json_get_str(o, "path", ""));
		vec_push(&ret->levels, l);
	}
}
