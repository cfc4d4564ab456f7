#pragma once
/* The sampling instrument as profilers use it: samples of the window with whole, named stacks, live or replayed.
 *
 * Names of managed methods come from the runtime's events, in the same window: a list at its start, what is compiled
 * meanwhile, and a last list when something is still unknown. Without events managed frames have no names; everything
 * else works. Stacks are unwound while it runs; copies of them are not kept. */

#include "exam/exam.h"
#include "sampling/sample_lines.h"
#include "sampling/samples.h"
#include "sampler/sampler.h"

#define SAMPLING_STACK_BYTES 16384 /* copied with each sample, to begin with */

struct sampling_options {
	enum sampler_kind kind;
	uint64_t period; /* as the sampler's */
	uint64_t window_ms;
	uint32_t stack_bytes; /* to begin with (0 = SAMPLING_STACK_BYTES); grows when stacks are cut */
	/* Live only, may be NULL: called at least every 50 ms with what has come by now; may take samples out of the
	 * list. now_ns is since the window's start. */
	void (*on_samples)(void *user, struct samples *samples, const struct sampler_facts *facts, uint64_t now_ns);
	void *user;
	struct sample_line_list *lines; /* where to put the source lines of samples; NULL = not needed */
};

/* Facts about the sampling; saved with the recording. */
struct sampling_facts {
	bool kernel;	     /* kernel frames were seen */
	bool kernel_names;   /* and have names */
	bool per_cpu, named; /* names of methods come from events */
	bool from_files;     /* names of methods come from files that the runtime wrote, see code_files.h */
	bool by_events;	     /* the runtime's sampler and /proc, not the kernel's */
	bool by_agent;	     /* timers in the process, not the kernel's sampling */
	bool shared_signal;  /* by agent: the signal is used by the process, too */
	uint64_t period;
	uint32_t stack_bytes, cpus, threads;
	uint64_t samples, lost, throttled;
	uint64_t ends[UNWIND_ENDS];			       /* samples whose stack ended so */
	uint64_t guessed;				       /* samples with a step that no rule gave */
	uint64_t switches, waits, waits_with_stack, unseen_ns; /* off-CPU only, see switches.h */
	uint64_t listened_ns; /* off-CPU only: of the window; less than it when switches are very many */
	uint64_t delay_ns;    /* in which threads that could have run had no cpu, by the kernel's clock */
	uint64_t cpu_ns;      /* of the process in the window, by the kernel's clock; UINT64_MAX = not known */
	uint64_t runs;	      /* how often its threads were put on a cpu, by the kernel's count */
	uint64_t handled, handler_ns, handler_max_ns; /* by agent: what its samples cost the process */
	uint64_t untimed;			      /* by agent: threads that could have no timer */
	bool short_lived;    /* that is why whole cpus were watched: threads end before a sample of theirs is due */
	uint64_t started_ns; /* CPU time of processes that it started meanwhile; not in the samples */
	char started[16];    /* the name of most of these */
	uint64_t collections, induced; /* of the heap that began meanwhile; asked for by code */
};

/* Whose code a namespace is, and a native library. */
enum frame_kind method_kind(const struct whose_names *whose, const char *space);
enum frame_kind native_code_kind(const char *library);

/* CPU samples without perf, see sampling_events.c; exam_samples() comes here when the exam's way is events. */
struct err *exam_samples_by_events(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				   struct sampling_facts *facts) MUST_USE;

/* Waits without perf, see waits_events.c. */
struct err *exam_waits_by_events(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				 struct sampling_facts *facts) MUST_USE;

/* Runs the window and fills in the exam's. The caller frees the samples. */
struct err *exam_samples(struct exam *exam, const struct sampling_options *options, struct samples **ret,
			 struct sampling_facts *ret_facts) MUST_USE;
/* Keeps both in the recording; if that fails, only the recording lacks them. */
void sampling_save(struct exam *exam, const struct samples *samples, const struct sampling_facts *facts);
/* What a recording kept of it. ERR_NOT_FOUND when it holds no samples. */
struct err *recorded_samples(struct recording *recording, struct samples **ret, struct sampling_facts *ret_facts)
	MUST_USE;
