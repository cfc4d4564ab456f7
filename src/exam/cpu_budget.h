#pragma once
/* How much CPU the patient may use while it is examined: a container with a limit of half a core is busy at 0.5. */

#include "base/fmt.h"
#include "exam/exam.h"

struct cpu_budget {
	double cores;	/* 0 = not known: an older recording */
	bool limited;	/* by a CPU limit, not by the machine */
	double stopped; /* share of the limit's periods during the window in which the process used up its quota */
	uint64_t periods, stopped_periods;
};

/* To be called before and after the window. A recording keeps the result and returns it. */
void cpu_budget_begin(const struct exam *exam, struct cpu_budget *b);
void cpu_budget_end(struct exam *exam, struct cpu_budget *b);

/* "2 cores", "the 0.5 cores of its CPU limit". */
struct fmt_text cpu_budget_words(const struct cpu_budget *b);
/* The limit, not a lack of cores, is what makes its threads wait. */
bool cpu_budget_too_small(const struct cpu_budget *b);
