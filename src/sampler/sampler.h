#pragma once
/* The kernel's sampling of one process: perf events for its threads, rings that are drained while it runs.
 *
 * Records go to a callback; nothing is kept here. The process is never stopped and nothing is written to it. Memory is
 * bounded by the rings, whose records are dropped by the kernel (and counted) when we are too slow. Records of all
 * rings come in order of time, except when a ring runs full. Not for threads. */

#include "sampler/records.h"

enum sampler_kind {
	SAMPLER_CPU,	  /* a sample each period_ns of CPU time of each thread */
	SAMPLER_SWITCHES, /* a sample where a thread leaves its cpu, and records of all switches */
};

struct sampler_config {
	pid_t pid;
	enum sampler_kind kind;
	uint64_t period;      /* ns of CPU time; or every n-th switch */
	uint32_t stack_bytes; /* copied with each sample */
	bool user_only;	      /* do not even try for the kernel's frames */
	bool whole_cpus; /* watch all cpus, where that is permitted: threads end before a sample of theirs is due */
	size_t max_fds;	 /* 0 = what is permitted; for tests */
};

#define SAMPLER_STACK_MAX 65528

struct sampler;
/* Opens all events, disabled. ERR_DENIED names the right or the setting that is missing. */
struct err *sampler_open(const struct sampler_config *config, struct sampler **ret) MUST_USE;
void sampler_free(struct sampler *s);
DEFINE_CLEANUP(sampler_free, struct sampler *)

void sampler_start(struct sampler *s);
void sampler_stop(struct sampler *s);
/* Closes the events for a while: events that are only disabled still cost the process half a microsecond at each
 * switch. What is in the rings stays. */
void sampler_rest(struct sampler *s);
struct err *sampler_go_on(struct sampler *s) MUST_USE;
/* Readable when a ring is half full; drain at least ten times a second in any case. */
int sampler_fd(const struct sampler *s);
/* Delivers records older than the given time on the monotonic clock; of rings that fill up, younger ones too. With
 * events of threads, records of processes that the target started since are among them: check the pid. */
void sampler_drain(struct sampler *s, uint64_t until_ns, void (*record)(void *user, const struct record *r),
		   void *user);
/* Opens the events again with larger copies, or another period; while resting, the change applies when sampling
 * continues. */
struct err *sampler_change(struct sampler *s, uint32_t stack_bytes, uint64_t period) MUST_USE;

struct sampler_facts {
	bool kernel;  /* frames and time of the kernel are seen */
	bool per_cpu; /* too many threads for an event each, or wanted: whole cpus are watched and filtered */
	size_t threads, cpus, fds;
	size_t ring_bytes; /* of one ring */
	uint32_t stack_bytes;
	uint64_t period;
	uint64_t lost, throttled, damaged;
};
const struct sampler_facts *sampler_facts(const struct sampler *s);
