#pragma once
/* Which CPU samples are the garbage collector's, and which waits are for it.
 *
 * The collector is part of libcoreclr, whose functions usually have no names. Its own threads have names; and while
 * managed code is suspended for a collection, a thread that runs in libcoreclr works for the collection, unless it only
 * waits there. The runtime's events come late: the end of a pause may be reported seconds after its beginning, with the
 * next event. So samples are attributed afterwards. */

#include "nettrace/nettrace.h"
#include "sampling/frame_attribution.h"
#include "sampling/samples.h"

struct gc_marks {
	char *runtime; /* the file that the runtime is part of where it is not libcoreclr: a single-file program; or
			  NULL */
	struct attributed_spans pauses; /* in order; only the last may be open: to_ns 0, not told yet */
	uint64_t collections, induced;	/* that began; asked for by code */
};

void gc_marks_event(struct gc_marks *m, const struct nettrace_event *event);
/* Samples of a window that began at start_ns: the runtime's frames above the first managed one become the collector's.
 * May be called again as more is known; `over`: no event will follow, so a pause that is open lasts until the end. */
void gc_marks_apply(const struct gc_marks *m, struct samples *s, uint64_t start_ns, bool over);
/* Waits of the same kind of window: those that began while managed code was suspended, in code that does not wait by
 * itself, are for the collector. Without names of the runtime's functions they look like waits for a lock. */
void gc_marks_waits(const struct gc_marks *m, struct samples *s, uint64_t start_ns);
void gc_marks_fini(struct gc_marks *m);
