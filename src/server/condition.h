#pragma once
/* Applies the rules of a diagnosis (diagnose/rule.h) to a process of the list, over windows of some seconds. They get only
 * what the list shows anyway: the kernel's files and the process's counters. Nothing is examined. A rule that needs more
 * says nothing; a suspicion is shown when two windows in a row give it.
 *
 * Not for threads. */

#include "base/json.h"
#include "target/target.h"
#include "vitals/vitals.h"

struct condition;
struct condition *condition_new(const struct target *target);
void condition_free(struct condition *c);
/* Forgets all readings, because nobody asks any more: the next one is the first of a new window. */
void condition_forget(struct condition *c);
/* Takes one reading. counters: the newest value of each signal, VITALS_N of them; NAN = the counters do not give it. */
void condition_read(struct condition *c, const double *counters);
/* Writes the member "condition"; it is null before the first window has ended. */
void condition_json(const struct condition *c, struct jsonw *w);
