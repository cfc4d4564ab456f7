#pragma once
/* What to collect, from the user's options: profiles by name, providers one by one, event numbers, and triggers that
 * end the collection. Parsed and checked before the process is contacted. */

#include "base/arena.h"
#include "base/vec.h"
#include "ipc/ipc.h"
#include "trace/source.h"

struct trace_config {
	struct arena arena;
	VEC_TYPE(trace_providers, struct ipc_provider) providers; /* strings and ids live in the arena */
	struct trace_triggers {
		struct trace_trigger {
			char *type;	   /* of the exception; NULL = any */
			uint64_t pause_ns; /* of a GC; 0 = this is about exceptions */
			char *text;	   /* as it was asked for */
		} * v;
		size_t n, cap;
	} triggers;
	bool stacks;  /* somebody asked for events that need them */
	bool widened; /* a trigger needed events that the user did not ask for */
};

/* Names of all profiles with what they are for; ends with name NULL. */
struct trace_profile {
	const char *name, *help;
};
const struct trace_profile *trace_profiles(void);

/* "cpu,gc". runtime_major decides between events where versions differ; 0 = not known. */
struct err *trace_config_profile(struct trace_config *c, const char *list, unsigned runtime_major) MUST_USE;
/* Only checks the names. */
struct err *trace_config_check_profile(const char *list) MUST_USE;
/* "Name[:keywords[:level[:args]]],..." */
struct err *trace_config_providers(struct trace_config *c, const char *list) MUST_USE;
/* "exception", "exception:System.TimeoutException", "gc-pause>50ms". */
struct err *trace_config_stop_on(struct trace_config *c, const char *when) MUST_USE;
/* Last: gives the numbers to the providers, and the triggers the events they need. */
struct err *trace_config_finish(struct trace_config *c, const struct trace_ids *ids) MUST_USE;
void trace_config_fini(struct trace_config *c);

/* Does this event fire the trigger? Keeps what it must remember in *state, zero at first. */
struct trace_trigger_state {
	uint64_t suspend_ns;
	bool suspended;
};
const struct trace_trigger *trace_triggers_event(const struct trace_triggers *t, struct trace_trigger_state *state,
						 const struct nettrace_event *event);
