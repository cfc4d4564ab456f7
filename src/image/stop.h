#pragma once
/* All threads of a process, stopped by ptrace: seized, never attached, so that no signals are changed. Used by the
 * tracer process only, which has no other children. Private to image. */

#include "base/base.h"
#include "base/clock.h"
#include "base/map.h"
#include "image/image.h"
#include <dirent.h>

struct tracee {
	pid_t tid;
	bool stopped, gone;
	bool tried; /* to make a call: it could not */
	int signal; /* the signal that is about to be delivered and that it must continue with; 0 = none */
};

enum stop_end {
	STOP_DONE,
	STOP_LATE,    /* a thread did not stop in time */
	STOP_DENIED,  /* no permission, or another process traces it: errno in failed */
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
	bool slow; /* the machine is busy: threads come to no stop by themselves at once */
	int failed;
};

/* Before the process is stopped. threads has room for max. */
bool stop_init(struct stop *s, pid_t pid, struct image_thread *threads, size_t max);
/* Stops every thread and reads its registers. Whatever it returns, stop_release must be called. */
enum stop_end stop_all(struct stop *s, struct deadline deadline);
/* Stops one thread; true when it is stopped. */
bool stop_one(struct stop *s, pid_t tid, struct deadline deadline);
/* Continues every thread as it would have continued. False when one never stopped: only the end of this process
 * releases that one. */
bool stop_release(struct stop *s);

/* Waits for the next report of this thread. False when the time is over or it is gone. */
bool stop_wait(struct stop *s, struct tracee *t, struct deadline deadline, int *ret_status);
/* Waits until a new child is stopped. */
bool stop_wait_newborn(struct stop *s, pid_t pid, struct deadline deadline);
/* Waits until this child has ended, and reaps it. */
bool stop_wait_end(struct stop *s, pid_t pid, struct deadline deadline);
