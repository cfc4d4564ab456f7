#pragma once
/* The tracer: a child process of ours that stops the process, makes the copy, continues the process and then holds the
 * copy. Private to image.
 *
 * It is a process of its own because its end undoes everything: the kernel releases every thread it had stopped, also
 * those that could not be released otherwise (a thread in an uninterruptible wait), a thread with injected registers
 * restores itself (frame.h), and a copy exits. So its owner can end any pause by SIGKILL. It ends with its owner; but once all
 * threads go on and only the copy is held, it first removes that from the process's children. */

#include "base/clock.h"
#include "image/image.h"
#include <sys/types.h>

/* A file behind shared mappings, opened before the process is stopped. */
struct tracer_file {
	dev_t dev;
	ino_t ino;
	int fd;
	bool memory; /* lives in memory only: reading never waits for a disk */
};
/* Bytes of such a file that were saved while the process stood still. */
struct tracer_saved {
	dev_t dev;
	ino_t ino;
	uint64_t addr;	 /* where it was mapped, for ranges without a file of ours; 0 otherwise */
	uint64_t offset; /* in its file */
	uint64_t len;
	uint64_t at; /* in the saved bytes */
};
struct tracer_name {
	pid_t tid;
	char name[16];
};

#define TRACER_SAVED_MAX 65536
#define TRACER_SHARED_MAPS 65536
#define TRACER_FILES 64

/* Written by the tracer, read by its owner; lives in shared memory. */
struct tracer_result {
	enum err_kind failure; /* 0 = fine */
	char text[240];
	pid_t copy;    /* 0 = none */
	pid_t copy_ns; /* as the process itself sees it */
	unsigned attempts, reaped;
	uint64_t stop_ns, go_ns; /* monotonic: first thread asked to stop, last one continued */
	uint64_t pause_ns;	 /* the longest time between the two, of all attempts */
	uint64_t copied_ns;	 /* the copy was made */
	uint64_t dropped_ns;	 /* ... and killed; 0 = not yet */
	bool unburied;		 /* ... but the process could not be made to take note of that */
	uint64_t cow_bytes;
	uint64_t saved_bytes, left_bytes;
	bool left_file[TRACER_FILES]; /* by job.files: bytes of it are among those left */
	bool gone;		      /* the copy was dropped before that was asked for; text says why */
	char carrier[16];
	size_t n_threads, n_saved, maps_len;
	struct tracer_saved saved[TRACER_SAVED_MAX];
};

enum tracer_mode {
	TRACER_COPY,
	TRACER_HOLD,
	TRACER_BURY, /* what a tracer left that was killed, and nothing else */
};

/* All that the tracer needs, made by the owner before the fork. */
struct tracer_job {
	enum tracer_mode mode;
	pid_t owner, pid;
	uint64_t start_ticks;
	uint64_t syscall_at, sigreturn_at;
	uint64_t busy_word;
	uint64_t predicted_ns;	/* the pause that was predicted, for a machine with an idle CPU; 0 = not known */
	uint64_t limit_ns;	/* it must go on by then, whatever is done by then */
	uint64_t stop_ns;	/* all threads must stand still by then */
	uint64_t call_ns;	/* what nothing waits for but one idle thread, or the copy, must be done by then */
	uint64_t max_life_ns;	/* of the copy, or of the hold */
	uint64_t reserve_bytes; /* the copy is dropped when less than this is free in the cgroup or on the machine */
	int pidfd, maps_fd, mem_fd, pagemap_fd;
	int control; /* socket: one byte out when done, one byte in (or its end) to stop */
	struct tracer_file *files;
	size_t n_files;
	struct tracer_name *names; /* sorted by tid */
	size_t n_names;
	struct limits_watch *watch;
	/* Shared memory. */
	struct tracer_result *result;
	struct image_thread *threads;
	size_t threads_max;
	char *maps;
	size_t maps_max;
	uint8_t *saved;
	size_t saved_max, saved_likely;
};

#define TRACER_READY 'r'
#define TRACER_STOP 's'

/* Runs until it is told to end; never returns. */
void tracer_run(struct tracer_job *job) NORETURN;
