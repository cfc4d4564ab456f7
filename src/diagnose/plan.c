#include "diagnose/plan.h"
#include "base/str.h"
#include <stdlib.h>

#define PARAMS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct examination examinations[] = {
	{ .profiler = "thread-pool", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "lock-contention", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "exceptions", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "gc-stats", .params = PARAMS("duration", "6"), .cost = 6 },
	{ .profiler = "runtime-pauses", .params = PARAMS("duration", "6"), .covered_by = "gc-stats", .cost = 6 },
	{ .profiler = "cpu-hotpaths", .params = PARAMS("duration_seconds", "5"), .cost = 6 },
	{ .profiler = "off-cpu", .params = PARAMS("duration", "5"), .cost = 7 },
	{ .profiler = "deadlocks", .stops = true, .always = true, .cost = 3 },
	{ .profiler = "stuck-tasks", .stops = true, .always = true, .cost = 4 },
	{ .profiler = "zombie-threads", .params = PARAMS("interval", "3"), .stops = true, .always = true, .cost = 5 },
	{ .profiler = "memory-leaks", .params = PARAMS("duration", "10", "looks", "3"), .stops = true, .cost = 15 },
};

const struct examination *plan_examination(const char *profiler)
{
	for (size_t i = 0; i < ARRAY_SIZE(examinations); i++)
		if (str_eq(examinations[i].profiler, profiler))
			return &examinations[i];
	return NULL;
}

static struct plan_step *step_of(struct plan *p, const struct examination *e)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->steps[i].examination == e)
			return &p->steps[i];
	return NULL;
}

static void add(struct plan *p, const struct examination *e, const struct rule *because, unsigned score)
{
	if (p->n < PLAN_MAX)
		p->steps[p->n++] = (struct plan_step){ e, because, score };
}

static int highest_first(const void *a, const void *b)
{
	const struct judgement *x = *(const struct judgement *const *)a, *y = *(const struct judgement *const *)b;
	return x->score != y->score ? CMP(y->score, x->score) : CMP(x, y);
}

static int cheapest_first(const void *a, const void *b)
{
	const struct plan_step *x = a, *y = b;
	return x->examination->cost != y->examination->cost ? CMP(x->examination->cost, y->examination->cost)
							    : CMP(y->score, x->score);
}

/* What would prove the strongest suspicions. One that several ask for is made once. */
static void add_suspected(struct plan *p, const struct judgement *judged, size_t n, const struct plan_options *options)
{
	VEC(const struct judgement *) by_score = { 0 };
	size_t room = PLAN_SUSPECTED_MAX + (options->gentle ? 1 : 0);
	for (size_t i = 0; i < n; i++)
		if (judged[i].state == RULE_SUSPECTED && judged[i].rule->proof)
			vec_push(&by_score, &judged[i]); /* NOLINT(bugprone-sizeof-expression): pointers are sorted */
	vec_sort(&by_score, highest_first);
	vec_each(j, &by_score) {
		const struct examination *e = plan_examination((*j)->rule->proof);
		struct plan_step *known = e ? step_of(p, e) : NULL;
		if (known && !known->because) {
			known->because = (*j)->rule;
			known->score = (*j)->score;
		}
		const struct examination *by = e && e->covered_by ? plan_examination(e->covered_by) : NULL;
		if (!e || known || !room || (e->stops && options->gentle) || (by && step_of(p, by)))
			continue;
		add(p, e, (*j)->rule, (*j)->score);
		room--;
	}
	vec_free(&by_score);
}

struct plan plan_make(const struct judgement *judged, size_t n, const struct plan_options *options)
{
	struct plan p = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(examinations) && !options->gentle; i++)
		if (examinations[i].always)
			add(&p, &examinations[i], NULL, 0);
	add_suspected(&p, judged, n, options);
	const struct examination *growth = plan_examination("memory-leaks");
	if (options->deep && !options->gentle && !step_of(&p, growth))
		add(&p, growth, NULL, 0);
	qsort(p.steps, p.n, sizeof(p.steps[0]), cheapest_first);
	return p;
}

struct plan plan_of_core(void)
{
	static const struct examination of_core[] = { { .profiler = "crash" },
						      { .profiler = "deadlocks" },
						      { .profiler = "stuck-tasks" },
						      { .profiler = "heap-stats" } };
	struct plan p = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(of_core); i++)
		add(&p, &of_core[i], NULL, 0);
	return p;
}
