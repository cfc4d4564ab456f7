#pragma once
/* The threads of a target as the kernel shows them. Nothing is stopped; threads come and go while we look. */

#include "base/vec.h"
#include "target/target.h"

struct target_thread {
	pid_t tid;	   /* as the target sees it: what its events call it */
	char name[16];	   /* of the kernel: the first 15 bytes of what the program chose. Not trusted */
	uint64_t cpu_ns;   /* used so far; UINT64_MAX = not known */
	uint64_t delay_ns; /* could run so far, and had no CPU; UINT64_MAX likewise */
	uint64_t turns; /* how often it was put on a CPU: unchanged = it has not run meanwhile; UINT64_MAX likewise */
};
VEC_TYPE(target_threads, struct target_thread);
/* ERR_NOT_FOUND when the process is gone or not visible. Frees with vec_free. */
struct err *target_threads(const struct target *t, struct target_threads *ret) MUST_USE;
/* How many of its threads are in each state of the kernel (R S D T ...), by its letter; false when that cannot be seen. */
bool target_thread_states(const struct target *t, unsigned ret[128]);
/* Time in which its present threads could run and had no CPU, in ns; 0 when it cannot be seen. */
uint64_t target_delay_ns(const struct target *t);
/* CPU time used so far by the whole process, in ns; false when it is gone or not visible. */
bool target_cpu_ns(const struct target *t, uint64_t *ret);
