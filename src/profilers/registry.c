#include "base/str.h"
#include "profilers/profiler.h"

extern const struct profiler profiler_allocations, profiler_exceptions, profiler_gc_stats, profiler_jit,
	profiler_runtime_pauses;

/* Stable order: help, pages and docs show them like this. */
static const struct profiler *const PROFILERS[] = {
	&profiler_runtime_pauses, &profiler_exceptions, &profiler_gc_stats, &profiler_allocations, &profiler_jit,
};

const struct profiler *const *profiler_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(PROFILERS);
	return PROFILERS;
}

struct err *profiler_find(const char *name, const struct profiler **ret)
{
	struct buf known = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(PROFILERS); i++) {
		const struct profiler *p = PROFILERS[i];
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
