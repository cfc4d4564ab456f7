#pragma once
/* What the rules of a diagnosis make of a process that is only listed: out of the kernel's files and the counters that its
 * lines are drawn from, over windows of some seconds. Nothing is examined: a rule that needs more is silent, and one that
 * suspects something is believed when it does so in two windows in a row.
 *
 * Not for threads. */

#include "base/json.h"
#include "target/target.h"
#include "vitals/vitals.h"

struct condition;
struct condition *condition_new(const struct target *target);
void condition_free(struct condition *c);
/* Nobody reads on: the next reading is the first again. */
void condition_forget(struct condition *c);
/* One reading. counters: the newest value of each signal, VITALS_N of them; NAN = its counters do not tell. */
void condition_read(struct condition *c, const double *counters);
/* The member "condition": null before the first window has ended. */
void condition_json(const struct condition *c, struct jsonw *w);
