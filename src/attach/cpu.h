#pragma once
/* Samples of CPU time, taken inside a target by timers of its threads (src/agent/ticks.c): for where the kernel allows
 * no sampling from outside.
 *
 * The target is never stopped. Its memory and its files, which may not be visible from here, are read and opened by the
 * library on our behalf. Samples are queued here until they are asked for. Not for threads. */

#include "attach/attach.h"
#include "base/buf.h"

struct attach_sample {
	uint32_t tid; /* as the target knows it */
	uint64_t time_ns;
	uint64_t cpu_ns;   /* since the thread's last sample, by its own clock */
	uint64_t regs[16]; /* as instructions number them: ax cx dx bx sp bp si di 8..15 */
	uint64_t ip;
	const uint8_t *stack; /* from sp up */
	size_t stack_len;
	bool full; /* there is more than fits */
};
struct attach_thread {
	uint32_t tid;
	bool last;	 /* when sampling ended; else when it was first seen */
	uint64_t cpu_ns; /* by its own clock */
	uint64_t delay_ns;
	char name[17];
};
struct attach_cpu_sink {
	void (*sample)(void *user, const struct attach_sample *s);
	void (*thread)(void *user, const struct attach_thread *t);
	void *user;
};

/* What sampling cost the target, measured inside the target. */
struct attach_cpu_facts {
	uint64_t handler_ns, handler_max_ns, handled, dropped;
	uint64_t cpu_ns;     /* of the process meanwhile, our own included */
	uint64_t own_cpu_ns; /* of the library's thread */
	uint64_t timers;     /* threads that had one */
	uint64_t untimed;    /* threads that could not have one */
	bool chained;	     /* the signal was in use, and is shared */
};

struct attach_cpu;
/* Loads the library and lets it sample. Errors as attach_image(). */
struct err *attach_cpu_start(const struct patient *p, const struct attach_options *options, uint64_t period_ns,
			     uint32_t stack_bytes, struct attach_cpu **ret) MUST_USE;
void attach_cpu_free(struct attach_cpu *c);
DEFINE_CLEANUP(attach_cpu_free, struct attach_cpu *)

/* Readable when something has come. */
int attach_cpu_fd(const struct attach_cpu *c);
/* Delivers what has come by now and is older than that. ERR_IO: the connection is closed, and nothing will come any
 * more. */
struct err *attach_cpu_drain(struct attach_cpu *c, uint64_t until_ns, const struct attach_cpu_sink *sink) MUST_USE;
/* Larger copies of stacks from now on. */
void attach_cpu_stack(struct attach_cpu *c, uint32_t bytes);
/* Stops sampling: no timer is left; samples taken before stay in the queue. Memory and files can be asked for until it
 * is freed. */
struct err *attach_cpu_stop(struct attach_cpu *c, struct attach_cpu_facts *ret) MUST_USE;

/* Memory of the target; false when it cannot be read. */
bool attach_cpu_read(struct attach_cpu *c, uint64_t address, void *out, size_t len);
/* A file as the target sees it, for reading: a descriptor of the caller's, or -1. */
int attach_cpu_open(struct attach_cpu *c, const char *path);
