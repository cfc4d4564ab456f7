#pragma once
/* CPU samples from timers in the process itself (attach/cpu.h), in the form of the kernel's (sampler/sampler.h): for
 * where perf is not allowed, and where only a folder is shared with the process. Private to sampling. */

#include "attach/cpu.h"
#include "exam/exam.h"
#include "sampler/sampler.h"

struct agent_source;
struct agent_source *agent_source_new(void);
void agent_source_free(struct agent_source *a);
DEFINE_CLEANUP(agent_source_free, struct agent_source *)

/* Memory and files of the process, once it samples. */
struct space *agent_source_space(struct agent_source *a);
/* Begins to sample. */
struct err *agent_source_start(struct agent_source *a, const struct exam *exam, uint64_t period_ns,
			       uint32_t stack_bytes, uint64_t window_ms) MUST_USE;
int agent_source_fd(const struct agent_source *a);
/* Delivers samples older than that; threads when they are first seen, and at the end. */
void agent_source_drain(struct agent_source *a, uint64_t until_ns, void (*record)(void *user, const struct record *r),
			void (*thread)(void *user, const struct attach_thread *t), void *user);
void agent_source_grow(struct agent_source *a, uint32_t stack_bytes);
/* ERR_IO: the process has ended, or its runtime has unloaded the library. */
struct err *agent_source_stop(struct agent_source *a, struct attach_cpu_facts *ret) MUST_USE;
const struct sampler_facts *agent_source_facts(const struct agent_source *a);
