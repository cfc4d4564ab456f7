#pragma once
/* Changes frames that turn out to belong to the collector or the compiler when all events are known. Both are parts of
 * the runtime, whose functions have names only if its debug file is there. */

#include "base/vec.h"
#include "sampling/samples.h"

struct attribution {
	const char *name; /* for frames that have only their file's */
	enum frame_kind kind;
	bool (*takes_sample)(const void *user, const struct samples *s, const struct sample *x);
	bool (*takes_module)(const void *user, const char *module); /* of a native frame above the first managed one */
	bool (*leaves_method)(const char *method); /* right under those: the stack stays as it is. NULL = never */
	const void *user;
};

/* A time of a thread, or of the whole process (thread 0). */
struct attributed_span {
	uint64_t thread; /* as it sees itself */
	uint64_t from_ns, to_ns;
};
VEC_TYPE(attributed_spans, struct attributed_span);

/* The last one of the thread that began by then, or NULL; they are in order of thread and time. Asked for each sample. */
static inline const struct attributed_span *attributed_span_at(const struct attributed_spans *spans, uint64_t thread,
							       uint64_t time_ns)
{
	size_t low = 0, high = spans->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct attributed_span *x = &spans->v[mid];
		if (x->thread < thread || (x->thread == thread && x->from_ns <= time_ns))
			low = mid + 1;
		else
			high = mid;
	}
	return low && spans->v[low - 1].thread == thread ? &spans->v[low - 1] : NULL;
}

/* May be called again as more is known. */
void samples_attribute(struct samples *s, const struct attribution *m);
