#include "base/str.h"
#include "profilers/profiler.h"

/* Stable order: help, pages and docs show them like this. */
#define PROFILERS(X)                                                                                                   \
	X(cpu_hotpaths)                                                                                                \
	X(off_cpu)                                                                                                     \
	X(runtime_pauses)                                                                                              \
	X(exceptions)                                                                                                  \
	X(lock_contention)                                                                                             \
	X(thread_pool)                                                                                                 \
	X(merged_call_stacks)                                                                                          \
	X(deadlocks)                                                                                                   \
	X(stuck_tasks)                                                                                                 \
	X(zombie_threads)                                                                                              \
	X(gc_survivors)                                                                                                \
	X(memory_leaks)                                                                                                \
	X(heap_stats)                                                                                                  \
	X(duplicated_strings)                                                                                          \
	X(wasted_collections)                                                                                          \
	X(gc_stats)                                                                                                    \
	X(allocations)                                                                                                 \
	X(jit)                                                                                                         \
	X(loader)                                                                                                      \
	X(crash)

#define PROFILER_EXTERN(name) extern const struct profiler profiler_##name;
PROFILERS(PROFILER_EXTERN)

#define PROFILER_ENTRY(name) &profiler_##name,
static const struct profiler *const all_profilers[] = { PROFILERS(PROFILER_ENTRY) };

const struct profiler *const *profiler_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(all_profilers);
	return all_profilers;
}

struct err *profiler_find(const char *name, const struct profiler **ret)
{
	struct buf known = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(all_profilers); i++) {
		const struct profiler *p = all_profilers[i];
		if (str_eq(p->id, name) || str_eq_nocase(p->uuid, name)) {
			buf_free(&known);
			*ret = p;
			return NULL;
		}
		buf_printf(&known, "%s%s", known.len ? ", " : "", p->id);
	}
	struct err *err = err_new(ERR_USAGE, "no profiler is called '%s'; there are %s", name, buf_cstr(&known));
	buf_free(&known);
	return err;
}

const char *profiler_next(const struct profiler *p, const char *finding)
{
	for (size_t i = 0; i < p->n_advice; i++) {
		if (str_eq(p->advice[i].finding, finding))
			return p->advice[i].next;
	}
	return NULL;
}

const struct param *profiler_param(const struct profiler *p, const char *key)
{
	for (size_t i = 0; i < p->n_params; i++) {
		if (str_eq(p->params[i].key, key))
			return &p->params[i];
	}
	return NULL;
}

struct err *profiler_check_way(const struct profiler *p, enum way way)
{
	if (way == WAY_AUTO)
		return NULL;
	CLEANUP(buf_free) struct buf known = { 0 };
	for (const enum way *w = p->ways; *w; w++) {
		if (*w == way)
			return NULL;
		buf_printf(&known, "%s%s", known.len ? ", " : "", way_name(*w));
	}
	return err_new(ERR_USAGE, "%s works by %s, not by '%s'", p->id, buf_cstr(&known), way_name(way));
}

const struct param *profiler_duration(const struct profiler *p)
{
	const struct param *duration = profiler_param(p, "duration");
	duration = duration ? duration : profiler_param(p, "duration_seconds");
	return duration && str_eq(duration->unit, "s") ? duration : NULL;
}
