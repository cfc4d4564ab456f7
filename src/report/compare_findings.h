#pragma once
/* What two reports that list findings (a diagnosis) say of the same things: what came, what went, what got worse. Pure;
 * texts belong to the two reports. */

#include "base/vec.h"
#include "report/doc.h"

enum finding_change { FINDING_SAME, FINDING_NEW, FINDING_WORSE, FINDING_BETTER, FINDING_GONE, FINDING_UNSEEN };
extern const char *const finding_change_names[6]; /* in JSON; index = value */

struct finding_compared {
	const char *finding;
	unsigned before, after; /* severity; 0 = it was not found */
	enum finding_change change;
};
struct findings_compared { /* a VEC; the most serious change first */
	struct finding_compared *v;
	size_t n, cap;
};

static inline void findings_freep(struct findings_compared *f)
{
	vec_free(f);
}

/* Does it list findings, or would it if there were any? */
bool findings_has(const struct report *r);
void findings_compare(const struct report *before, const struct report *after, struct findings_compared *ret);
/* "new: thread-pool.starvation; gone: exceptions-many", and the figures that changed much; nothing without a change.
 * Whether it got worse (1), better (-1) or neither. */
int findings_say(const struct findings_compared *f, const struct report *before, const struct report *after,
		 struct rich *text);
