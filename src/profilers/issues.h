#pragma once
/* Issues of one report: sentences with a name out of the target in them. The gravest is the verdict, with its advice; the
 * others are notes. */

#include "base/buf.h"
#include "exam/profiler.h"

#define ISSUES_MAX 16

struct issue {
	enum report_health health;
	const char *finding;
	const char *advice; /* finding under which the profiler has its advice; NULL = none */
	/* "**strong**text `where`. more"; the full stop is added. */
	struct buf strong, text, more;
	const char *where; /* a name out of the target, or NULL; lives as long as the issue */
};
struct issues {
	struct issue v[ISSUES_MAX];
	size_t n;
};

/* NULL when there are too many. */
struct issue *issue_new(struct issues *s, enum report_health health, const char *finding, const char *advice);
/* False when there is none. Of the same weight the first is the verdict. */
bool issues_say(const struct issues *s, const struct profiler *p, struct report *report);
void issues_fini(struct issues *s);
