#pragma once
/* One system call made by a stopped thread of the process, self-healing (frame.h). Used by the tracer process only.
 * Private to image. */

#include "image/frame.h"
#include "image/stop.h"

struct inject_place {
	uint64_t syscall_at, sigreturn_at;
	int mem_fd; /* of the process, for reading */
};

/* Are the instructions still where they were found? The process may have become another program. */
bool inject_place_good(const struct inject_place *place);
/* What the stopped thread stands in; *ret_call gets the call. */
enum carrier_kind inject_look(const struct inject_place *place, const struct image_thread *thread, uint64_t *ret_call);

enum inject_end {
	INJECT_DONE,	/* *ret_result is what the call returned; the thread stands, and heals when released */
	INJECT_UNFIT,	/* this thread cannot carry it; it is as it was */
	INJECT_ABORTED, /* something came between; the thread heals when released */
	INJECT_LOST,	/* no report in time: only the end of this process lets go of it */
};
/* The thread stands in `call`. ret_child: the process that the call made, or 0. */
enum inject_end inject_call(struct stop *s, struct tracee *t, const struct inject_place *place, uint64_t call,
			    uint64_t nr, const uint64_t args[4], bool child_exits, struct deadline deadline,
			    int64_t *ret_result, pid_t *ret_child);
