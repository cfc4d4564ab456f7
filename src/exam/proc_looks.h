#pragma once
/* The instrument of the way proc: looks at the kernel's files about a process, at regular times over the window. Some cost
 * more and are taken at its beginning, in its middle and at its end only: three, so that a growth can be told from a step.
 *
 * A replay calls nothing: what was seen is a fact of the recording, which the profiler keeps and recalls. */

#include "exam/exam.h"

/* So many looks at most are taken, however long the window is. */
#define PROC_LOOKS_MAX 64

struct proc_looks {
	/* Takes a look; false when nothing could be read. */
	bool (*look)(void *user, bool whole);
	void *user;
	const char *doing; /* shown as progress */
	/* Results. */
	uint32_t taken, read;
	/* Its own. */
	struct exam *exam;
	uint64_t next_ns, every_ns, middle_ns;
};
struct err *exam_proc_looks(struct exam *exam, struct proc_looks *looks, uint64_t window_ms) MUST_USE;
