#include "sampling/agent_source.h"
#include "base/str.h"
#include <string.h>
#include <unistd.h>

#define SPARE_MS 120000 /* of the library's life: names before the window, stacks after it */

struct agent_source {
	struct attach_cpu *cpu; /* NULL before the start */
	struct sampler_facts facts;
	void (*record)(void *user, const struct record *r);
	void (*thread)(void *user, const struct attach_thread *t);
	void *user;
};

struct agent_source *agent_source_new(void)
{
	return mem_zalloc(sizeof(struct agent_source));
}

void agent_source_free(struct agent_source *a)
{
	if (!a)
		return;
	attach_cpu_free(a->cpu);
	mem_free(a);
}

static bool read_memory(void *user, uint64_t address, void *out, size_t len)
{
	struct agent_source *a = user;
	return a->cpu && attach_cpu_read(a->cpu, address, out, len);
}

static int open_file(void *user, const char *path)
{
	struct agent_source *a = user;
	return a->cpu ? attach_cpu_open(a->cpu, path) : -1;
}

struct space *agent_source_space(struct agent_source *a)
{
	struct space_source source = { .read = read_memory, .open = open_file, .user = a };
	return space_new_from(&source);
}

struct err *agent_source_start(struct agent_source *a, const struct exam *exam, uint64_t period_ns,
			       uint32_t stack_bytes, uint64_t window_ms)
{
	struct attach_options options = { .max_life_ms = window_ms + SPARE_MS,
					  .turn_ms = EXAM_TURN_MS,
					  .cancel_fd = exam->cancel_fd };
	TRY(attach_cpu_start(exam->patient, &options, period_ns, stack_bytes, &a->cpu));
	a->facts = (struct sampler_facts){ .period = period_ns,
					   .stack_bytes = stack_bytes,
					   .cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN) };
	return NULL;
}

int agent_source_fd(const struct agent_source *a)
{
	return a->cpu ? attach_cpu_fd(a->cpu) : -1;
}

static void on_sample(void *user, const struct attach_sample *s)
{
	struct agent_source *a = user;
	struct record r = { .kind = RECORD_SAMPLE,
			    .tid = s->tid,
			    .time = s->time_ns,
			    .period = s->cpu_ns,
			    .has_regs = true,
			    .regs.ip = s->ip,
			    .stack = { .sp = s->regs[4], .bytes = s->stack, .n = s->stack_len, .full = s->full } };
	memcpy(r.regs.r, s->regs, sizeof(r.regs.r));
	a->record(a->user, &r);
}

static void on_thread(void *user, const struct attach_thread *t)
{
	struct agent_source *a = user;
	a->facts.threads += !t->last;
	a->thread(a->user, t);
}

void agent_source_drain(struct agent_source *a, uint64_t until_ns, void (*record)(void *user, const struct record *r),
			void (*thread)(void *user, const struct attach_thread *t), void *user)
{
	struct attach_cpu_sink sink = { on_sample, on_thread, a };
	a->record = record;
	a->thread = thread;
	a->user = user;
	/* A closed connection is reported when sampling is stopped. */
	if (a->cpu)
		err_ignore(attach_cpu_drain(a->cpu, until_ns, &sink));
}

void agent_source_grow(struct agent_source *a, uint32_t stack_bytes)
{
	a->facts.stack_bytes = MIN(stack_bytes, (uint32_t)SAMPLER_STACK_MAX);
	attach_cpu_stack(a->cpu, a->facts.stack_bytes);
}

struct err *agent_source_stop(struct agent_source *a, struct attach_cpu_facts *ret)
{
	TRY(attach_cpu_stop(a->cpu, ret));
	a->facts.lost = ret->dropped;
	return NULL;
}

const struct sampler_facts *agent_source_facts(const struct agent_source *a)
{
	return &a->facts;
}
