#include "server/condition.h"
#include "base/clock.h"
#include "diagnose/rule.h"
#include "vitals/kernel_signs.h"
#include <math.h>

#define FIRST_WINDOW_NS (4 * NS_PER_S)
#define WINDOW_NS (10 * NS_PER_S)
#define RULES_MAX 64 /* bits of a number */

struct condition {
	struct target target; /* what names it to the kernel, no more */
	struct kernel_signs *kernel;
	struct vitals vitals;
	bool judged;
	uint64_t suspected;	 /* rules by their number, in the window that has ended */
	const struct rule *rule; /* the strongest of those that suspected it in the one before, too; or NULL */
	unsigned score;
	struct buf words;
};

struct condition *condition_new(const struct target *target)
{
	struct condition *c = mem_zalloc(sizeof(*c));
	c->target = (struct target){ .id = target->id,
				     .pid = target->pid,
				     .ns_pid = target->ns_pid,
				     .start_ticks = target->start_ticks,
				     .other_pid_ns = target->other_pid_ns };
	return c;
}

static void end_window(struct condition *c)
{
	kernel_signs_free(STEAL(c->kernel));
	vitals_fini(&c->vitals);
}

void condition_forget(struct condition *c)
{
	end_window(c);
	buf_clear(&c->words);
	c->judged = false;
	c->suspected = 0;
	c->rule = NULL;
	c->score = 0;
}

void condition_free(struct condition *c)
{
	if (!c)
		return;
	end_window(c);
	buf_free(&c->words);
	mem_free(c);
}

static void judge(struct condition *c)
{
	struct judgement strongest = { 0 };
	uint64_t before = c->suspected;
	c->suspected = 0;
	kernel_signs_end(c->kernel, &c->vitals);
	vitals_lack_source(&c->vitals, VITAL_OF_COUNTERS, "no counter of its runtime came");
	for (size_t i = 0; i < MIN(rules_count(), (size_t)RULES_MAX); i++) {
		struct judgement j = rule_judge(rule_at(i), &c->vitals);
		uint64_t bit = (uint64_t)1 << i;
		if (j.state != RULE_SUSPECTED || j.score <= SCORE_ASIDE)
			continue;
		c->suspected |= bit;
		if (before & bit && j.score > strongest.score)
			strongest = j;
	}
	c->rule = strongest.rule;
	c->score = strongest.score;
	c->judged = true;
	buf_clear(&c->words);
	if (strongest.rule)
		strongest.rule->say(&c->vitals, strongest.measured, &c->words);
}

void condition_read(struct condition *c, const double *counters)
{
	uint64_t now = clock_mono_ns(), length = c->judged ? WINDOW_NS : FIRST_WINDOW_NS;
	if (c->kernel && now - c->vitals.start_ns >= length) {
		judge(c);
		end_window(c);
	}
	if (!c->kernel)
		c->kernel = kernel_signs_new("/proc", &c->target);
	kernel_signs_read(c->kernel, &c->vitals);
	if (!c->vitals.start_ns)
		c->vitals.start_ns = now; /* its process is not visible from here */
	for (size_t i = 0; i < VITALS_N; i++)
		if (vital_infos[i].source == VITAL_OF_COUNTERS && isfinite(counters[i]))
			vitals_add(&c->vitals, (enum vital_id)i, now, counters[i]);
}

void condition_json(const struct condition *c, struct jsonw *w)
{
	if (!c->judged) {
		jsonw_null(w, "condition");
		return;
	}
	jsonw_object(w, "condition");
	jsonw_i64(w, "severity", c->score);
	jsonw_str(w, "finding", c->rule ? c->rule->id : NULL);
	jsonw_str(w, "text", c->rule ? buf_cstr(&c->words) : NULL);
	jsonw_str(w, "profiler", c->rule ? c->rule->proof : NULL);
	jsonw_object_end(w);
}
