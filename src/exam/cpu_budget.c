#include "exam/cpu_budget.h"
#include "base/json.h"
#include "target/cpus.h"
#include <stdio.h>

/* In so many of its periods a program is throttled until the next: that is noticeable. */
#define STOPPED_OFTEN 0.2

void cpu_budget_begin(const struct exam *exam, struct cpu_budget *b)
{
	*b = (struct cpu_budget){ 0 };
	if (exam->replay)
		return;
	struct target_cpus now = target_cpus("/proc", exam->patient->target.pid);
	*b = (struct cpu_budget){
		.cores = now.usable, .limited = now.limited, .periods = now.periods, .stopped_periods = now.stopped
	};
}

static void keep(struct exam *exam, const struct cpu_budget *b)
{
	if (!exam->recording)
		return;
	json_t *fact = json_pack("{s:f, s:b, s:f}", "cores", b->cores, "limited", b->limited, "stopped", b->stopped);
	recording_set_fact(exam->recording, "cpu_budget", fact);
	json_decref(fact);
}

void cpu_budget_end(struct exam *exam, struct cpu_budget *b)
{
	if (exam->replay) {
		const json_t *fact = recording_fact(exam->recording, "cpu_budget");
		double cores = json_get_num(fact, "cores", 0), stopped = json_get_num(fact, "stopped", 0);
		b->cores = cores > 0 && cores < 1e6 ? cores : 0;
		b->limited = json_get_bool(fact, "limited", false);
		b->stopped = stopped > 0 && stopped <= 1 ? stopped : 0;
		return;
	}
	struct target_cpus now = target_cpus("/proc", exam->patient->target.pid);
	/* Another limit, or another group: then the numbers do not belong together. */
	if (b->limited && now.limited && now.periods > b->periods && now.stopped >= b->stopped_periods)
		b->stopped = (double)(now.stopped - b->stopped_periods) / (double)(now.periods - b->periods);
	b->stopped = MIN(b->stopped, 1.0);
	keep(exam, b);
}

struct fmt_text cpu_budget_words(const struct cpu_budget *b)
{
	struct fmt_text text, number = fmt_number(b->cores);
	snprintf(text.s, sizeof(text.s), b->limited ? "the %.12s %s of its CPU limit" : "%.12s %s", number.s,
		 b->cores == 1 ? "core" : "cores");
	return text;
}

bool cpu_budget_too_small(const struct cpu_budget *b)
{
	return b->limited && b->stopped >= STOPPED_OFTEN;
}
