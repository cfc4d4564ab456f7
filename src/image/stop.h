#pragma once
/* All threads of a process, held by ptrace: seized, never attached, so that nobody's signals are touched. Used by the
 * tracer process only, which has no other children. Private to image. */

#include "base/base.h"
#include "base/clock.h"
#include "base/map.h"
#include "image/image.h"
#include <dirent.h>

struct tracee {
	pid_t tid;
	bool stopped, gone;
	int signal; /* it stands before the delivery of this one, which must go on with it; 0 = none */
};

enum stop_end {
	STOP_DONE,
	STOP_LATE,    /* a thread did not come to a stop in time */
	STOP_DENIED,  /* not ours to stop, or someone else traces it: errno in failed */
	STOP_ENDED,   /* the process is gone */
	STOP_HALTED,  /* it is being stopped by a signal (SIGSTOP) */
	STOP_CROWDED, /* more threads than there is room for */
};

struct stop {
	pid_t pid;
	DIR *tasks;
	struct tracee *v; /* parallel to threads */
	struct image_thread *threads;
	size_t n, max;
	struct map_u64 known; /* tid to index */
	pid_t newborn;	      /* a child that a thread of ours has made, stopped */
	bool halted;
	int failed;
};

/* Before the process is touched. threads has room for max. */
bool stop_init(struct stop *s, pid_t pid, struct image_thread *threads, size_t max);
/* Stops every thread and reads its registers. Whatever it returns, stop_release is due. */
enum stop_end stop_all(struct stop *s, struct deadline deadline);
/* Stops one thread; true when it stands. */
bool stop_one(struct stop *s, pid_t tid, struct deadline deadline);
/* Lets every thread go on as it would have gone on. False when one never came to its stop: only the end of this
 * process lets go of that one. */
bool stop_release(struct stop *s);
bool stop_release_one(struct stop *s, struct tracee *t);

/* Waits for the next report of this thread. False when the time is over or it is gone. */
bool stop_wait(struct stop *s, struct tracee *t, struct deadline deadline, int *ret_status);
/* Waits until a newborn child stands still. */
bool stop_wait_newborn(struct stop *s, pid_t pid, struct deadline deadline);
/* Waits until this child has ended, and buries it. */
bool stop_wait_end(struct stop *s, pid_t pid, struct deadline deadline);
