#pragma once
/* Which CPU samples of a single-file program are the JIT compiler's.
 *
 * Elsewhere the compiler is a library of its own, known by its name. In one file with the rest of the runtime, without
 * names of functions, the runtime's events are used: from "about to be compiled" until the code is there, the thread
 * compiles. Samples are attributed afterwards, as events come late. */

#include "nettrace/nettrace.h"
#include "sampling/frame_attribution.h"
#include "sampling/samples.h"

struct jit_marks {
	struct attributed_spans spans;
	struct map_u64 open; /* thread -> when it began */
};

void jit_marks_event(struct jit_marks *m, const struct nettrace_event *event);
/* Samples of a window that began at start_ns: frames of that file above the first managed one become the compiler's.
 * Once, when all events are there. */
void jit_marks_apply(struct jit_marks *m, struct samples *s, const char *file, uint64_t start_ns);
void jit_marks_fini(struct jit_marks *m);
