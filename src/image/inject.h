#pragma once
/* One system call made by a stopped thread of the process, which restores itself afterwards (frame.h). Used by the
 * tracer process only. Private to image. */

#include "image/frame.h"
#include "image/stop.h"

struct inject_place {
	uint64_t syscall_at, sigreturn_at;
	int mem_fd; /* of the process, for reading */
};

/* Are the instructions still where they were found? The process may have become another program. */
bool inject_place_good(const struct inject_place *place);
/* The kind of call that the stopped thread is in; *ret_call gets the call. */
enum carrier_kind inject_look(const struct inject_place *place, const struct image_thread *thread, uint64_t *ret_call);

enum inject_end {
	INJECT_DONE,	/* *ret_result is what the call returned; the thread restores itself when released */
	INJECT_UNFIT,	/* this thread cannot make the call; it is as it was */
	INJECT_ABORTED, /* something else happened first; the thread restores itself when released */
	INJECT_LOST,	/* no report in time: only the end of this process releases the thread */
};
/* The thread is stopped in `call`. ret_child: the process that the call made, or 0. */
enum inject_end inject_call(struct stop *s, struct tracee *t, const struct inject_place *place, uint64_t call,
			    uint64_t nr, const uint64_t args[4], bool child_exits, struct deadline deadline,
			    int64_t *ret_result, pid_t *ret_child);
