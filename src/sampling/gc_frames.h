#pragma once
/* Which CPU samples are the garbage collector's, and which waits are for it.
 *
 * It is part of libcoreclr, whose functions as a rule have no names. Its own threads have; and while managed code
 * stands still for a collection, a thread that works in libcoreclr works for it, unless it only waits there. The
 * runtime's events come late: how a pause ended may be told seconds after its beginning, when the next event comes. So
 * samples are marked afterwards. */

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
 * May be done again as more is known; `over`: no event will follow, so a pause that is open lasts until the end. */
void gc_marks_apply(const struct gc_marks *m, struct samples *s, uint64_t start_ns, bool over);
/* Waits of the same kind of window: those that began while managed code stood still, in code that does not wait by
 * itself, are for the collector. Without names of the runtime's functions they look like those for a lock. */
void gc_marks_waits(const struct gc_marks *m, struct samples *s, uint64_t start_ns);
void gc_marks_fini(struct gc_marks *m);
