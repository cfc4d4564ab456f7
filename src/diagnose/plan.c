#include "diagnose/plan.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

#define PARAMS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct examination examinations[] = {
	{ .profiler = "open-files", .params = PARAMS("duration", "4"), .cost = 4 },
	{ .profiler = "thread-pool", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "lock-contention", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "exceptions", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "jit", .params = PARAMS("duration", "5"), .cost = 5 },
	{ .profiler = "loader", .params = PARAMS("duration", "6"), .cost = 6 },
	{ .profiler = "allocations", .params = PARAMS("duration", "6"), .cost = 6 },
	{ .profiler = "gc-stats", .params = PARAMS("duration", "6"), .cost = 6 },
	{ .profiler = "runtime-pauses", .params = PARAMS("duration", "6"), .covered_by = "gc-stats", .cost = 6 },
	{ .profiler = "cpu-hotpaths", .params = PARAMS("duration_seconds", "5"), .cost = 6 },
	{ .profiler = "off-cpu", .params = PARAMS("duration", "5"), .cost = 7 },
	{ .profiler = "stuck-tasks",
	  .params = PARAMS("interval", "3"),
	  .stops = true,
	  .leads = 1,
	  .always = true,
	  .cost = 4 },
	{ .profiler = "deadlocks", .stops = true, .always = true, .cost = 1 },
	{ .profiler = "heap-stats", .stops = true, .cost = 2 },
	{ .profiler = "zombie-threads", .params = PARAMS("interval", "3"), .stops = true, .always = true, .cost = 1 },
	{ .profiler = "memory-leaks",
	  .params = PARAMS("duration", "10", "looks", "3"),
	  .stops = true,
	  .leads = 2,
	  .cost = 12 },
};

static const struct examination of_core[] = { { .profiler = "crash", .cost = 2 },
					      { .profiler = "deadlocks" },
					      { .profiler = "stuck-tasks" },
					      { .profiler = "heap-stats" } };

const struct examination *plan_examination(const char *profiler)
{
	if (str_eq(profiler, of_core[0].profiler))
		return &of_core[0];
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

static int in_turn(const void *a, const void *b)
{
	const struct plan_step *x = a, *y = b;
	if (x->examination->stops != y->examination->stops)
		return CMP(x->examination->stops, y->examination->stops);
	if (x->examination->leads != y->examination->leads)
		return CMP(y->examination->leads, x->examination->leads);
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
		/* What shares the looks takes no window of its own. */
		if (!e || known || (!room && !e->stops) || (e->stops && options->gentle) || (by && step_of(p, by)))
			continue;
		add(p, e, (*j)->rule, (*j)->score);
		room -= !e->stops;
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
	qsort(p.steps, p.n, sizeof(p.steps[0]), in_turn);
	return p;
}

struct plan plan_of_core(void)
{
	struct plan p = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(of_core); i++)
		add(&p, &of_core[i], NULL, 0);
	return p;
}

void plan_insert_crash(struct plan *p, size_t at)
{
	if (p->n == PLAN_MAX || at > p->n)
		return;
	memmove(&p->steps[at + 1], &p->steps[at], (p->n - at) * sizeof(p->steps[0]));
	p->steps[at] = (struct plan_step){ .examination = &of_core[0] };
	p->n++;
}
