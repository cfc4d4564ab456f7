#pragma once
/* What the parts of the sampling instrument share; for sampling*.c only.
 *
 *   sampling.c           the window: takes records, enlarges stack copies, saves the result
 *   sampling_lives.c     threads that end before their first sample; processes that the target starts
 *   sampling_frames.c    names of code at an address; whole stacks
 *   sampling_switches.c  off-CPU: where threads wait at the beginning, and which share of switches is recorded
 *   sampling_threads.c   threads and their CPU time by the kernel's clock */

#include "attach/cpu.h"
#include "base/map.h"
#include "base/vec.h"
#include "exam/events.h"
#include "sampling/gc_frames.h"
#include "sampling/jit_frames.h"
#include "sampling/sampling.h"
#include "sampling/switches.h"
#include "sampler/unwind.h"
#include "symbols/space.h"

#define SAMPLING_KERNEL_FRAMES_MAX 128
#define SAMPLING_FRAMES_MAX (UNWIND_FRAMES_MAX + SAMPLING_KERNEL_FRAMES_MAX + 2)

/* Frames of code that had no name yet: named at the end, or not at all. */
struct sampling_later {
	uint32_t frame;
	uint64_t address;
};

/* CPU time at an early moment, and what of the time since was used by threads that still live. */
struct sampling_lives {
	uint64_t process_ns, threads_ns;
	struct map_u64 by_thread;
	uint64_t since_ns;
};

/* Processes of one name that the target started. */
struct sampling_started {
	char name[16];
	uint64_t ns;
};

struct sampling {
	struct exam *exam;
	const struct sampling_options *options;
	struct sampling_facts *facts;
	struct samples *samples;
	struct methods *methods;
	const struct events_stream *compiled;
	struct space *space;
	struct kernel *kernel;
	struct unwinder *unwinder;
	struct sampler *sampler;
	struct agent_source *agent; /* instead of it: timers in the process */
	struct unwound unwound;
	uint32_t frames[SAMPLING_FRAMES_MAX];
	struct map_u64 by_address; /* native and kernel code -> frame + 1 */
	struct map_u64 by_method;  /* start and order -> frame + 1 */
	VEC(struct sampling_later) later;
	struct map_u64 later_index; /* address -> frame + 1 */
	struct gc_marks gc;
	bool kernel_seen;
	bool single_file;     /* the compiler is no library of its own */
	struct jit_marks jit; /* then */
	struct buf text;
	uint64_t seen, cut; /* since the copies last grew */
	uint64_t start_cpu_ns;
	struct sampling_lives lives;
	VEC(struct sampling_started) children;
	struct map_u64 children_index; /* pid -> index in it + 1 */
	uint64_t exec_ns;	   /* when it became another program (exec), or 0: later records are not the target's */
	struct switches *switches; /* off-CPU only */
	struct sample_lines *lines;	 /* when needed */
	double rate;			 /* of its switches, a second */
	uint64_t rate_ns, rate_switches; /* when that was last looked at */
	struct map_u64 first_runs;	 /* thread id -> how often it had been on a cpu when it started */
	uint64_t runs;			 /* all threads together */
	bool started;
	double share;  /* of the time in which switches are recorded */
	int listen_ms; /* and how long at a time */
	bool resting;
	uint64_t rest_until_ns;
	size_t snapshots;
	uint8_t *stack; /* room for a snapshot */
};

/* ---- sampling_threads.c ---- */

void sampling_each_thread(struct sampling *g, void (*each)(struct sampling *g, pid_t tid));
/* A thread by its id, named when it is new. */
uint32_t sampling_thread(struct sampling *g, uint32_t tid);
/* Of a thread's whole life: ns on a cpu, ns able to run without one, how often it was put on one. */
struct sampling_clock {
	uint64_t cpu_ns, delay_ns, runs;
};
/* False when it is gone. */
bool sampling_task_clock(pid_t pid, pid_t tid, struct sampling_clock *ret);
/* The part of the delay that is due to a lack of cpus. */
uint64_t sampling_lacked_ns(uint64_t cpu_ns, uint64_t delay_ns, uint64_t runs);
/* What the kernel's clocks say at the beginning and at the end of the window: of the process at once, of its threads when there
 * is time for it. */
void sampling_clocks_start(struct sampling *g);
void sampling_clock_stop(struct sampling *g);
void sampling_clocks_stop(struct sampling *g);
/* The same, reported by our library in the process. */
void sampling_on_thread(void *user, const struct attach_thread *t);

/* ---- sampling_proof.c ---- */

/* Whether the kernel's clocks agree with what came; see exam/proof.h. */
void sampling_prove(struct exam *exam, enum sampler_kind kind, const struct samples *samples,
		    const struct sampling_facts *facts);

/* ---- sampling_lives.c ---- */

/* Do threads begin and end before a sample of theirs is due? Decided by the CPU time between the two calls. */
void sampling_lives_begin(struct sampling *g);
bool sampling_lives_are_short(struct sampling *g);
/* A record of a process that the target started. */
void sampling_on_started(struct sampling *g, const struct record *r);
/* Which of them used most; into the facts. */
void sampling_started_sum(struct sampling *g);
void sampling_lives_fini(struct sampling *g);

/* ---- sampling_frames.c ---- */

bool sampling_find_method(void *user, uint64_t address, struct unwind_method *ret);
uint32_t sampling_method_frame(struct sampling *g, const struct method *m);
/* The user part of a record's stack, added to g->frames behind the n that are there; how it ended is in g->unwound. */
size_t sampling_unwind(struct sampling *g, const struct record *r, size_t n);
/* The stack of a record; counts how it ended. */
uint32_t sampling_stack(struct sampling *g, const struct record *r);
/* Names code whose method is known by now. */
void sampling_name_known(struct sampling *g);
/* Names the rest, at the end: code without a method is a stub. */
void sampling_name_rest(struct sampling *g);
/* Names lambdas, which until then have names of the compiler's, by their source lines; at the end. */
void sampling_name_lambdas(struct sampling *g);
/* Is there code that would get a name from a new list of methods? */
bool sampling_unnamed(const struct sampling *g);
/* Is precompiled code among it? The runtime does not report its first use. */
bool sampling_unlisted(const struct sampling *g);

/* ---- sampling_switches.c ---- */

/* Measures how often it switches. */
void switching_begin(struct sampling *g);
/* A stack is taken every so many switches, by that rate. */
uint64_t switching_period(const struct sampling *g, uint32_t stack_bytes);
/* Records where threads wait now: threads that do not continue for long cause no switch. Just before recording begins.
 */
void switching_started(struct sampling *g);
void switching_ended(struct sampling *g);
/* Records a smaller share when switches come faster; records and pauses in turn. */
void switching_turn(struct sampling *g);

/* ---- sampling.c ---- */

void sampling_on_record(void *user, const struct record *r);
