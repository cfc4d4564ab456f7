#pragma once
/* Frames that turn out to be somebody's when all events are there: the collector's, the compiler's. Both are parts of
 * the runtime, whose functions have names only where its debug file is at hand. */

#include "sampling/samples.h"

struct attribution {
	const char *name; /* for frames that have only their file's */
	enum frame_kind kind;
	bool (*takes_sample)(const void *user, const struct samples *s, const struct sample *x);
	bool (*takes_module)(const void *user, const char *module); /* of a native frame above the first managed one */
	bool (*leaves_method)(const char *method); /* right under those: the stack stays as it is. NULL = never */
	const void *user;
};

/* May be done again as more is known. */
void samples_attribute(struct samples *s, const struct attribution *m);
