/* The streams that bring names of methods. */

#include "eventpipe/clr.h"
#include "exam/events.h"
#include "exam/lambda_lines.h"
#include "exam/profiler.h"

static void on_method(void *user, const struct nettrace_event *event)
{
	methods_event(user, event);
}

/* A session that is stopped at once: only the rundown that the runtime sends at its end is needed. */
struct events_stream exam_methods_stream(const struct events_stream *after, struct methods *methods)
{
	static const struct ipc_provider provider = { .name = CLR_PROVIDER, .keywords = CLR_JIT, .level = 1 };
	return (struct events_stream){
		.name = "names",
		.providers = &provider,
		.n_providers = 1,
		.unordered = true,
		/* Modules too: the source lines of lambdas are in the PDB beside them. */
		.rundown = CLR_JIT | CLR_NGEN | CLR_LOADER,
		.after = after,
		.event = on_method,
		.user = methods,
	};
}

struct events_stream exam_compiled_stream(struct methods *methods)
{
	/* Loads are reported at level 5 only, though the manifest says 4. */
	static const struct ipc_provider provider = { .name = CLR_PROVIDER,
						      .keywords = CLR_JIT | CLR_NGEN,
						      .level = 5 };
	return (struct events_stream){
		.name = "compiled",
		.providers = &provider,
		.n_providers = 1,
		.unordered = true,
		.event = on_method,
		.user = methods,
	};
}

struct err *exam_methods(struct exam *exam, struct methods *methods)
{
	TRY(exam_methods_now(exam, methods, "late-names"));
	lambda_lines_learn(exam, methods);
	return NULL;
}

struct err *exam_methods_of(struct exam *exam, struct stacks *stacks, struct methods *methods)
{
	if (stacks_unknown(stacks, methods))
		return exam_methods(exam, methods);
	lambda_lines_learn(exam, methods);
	return NULL;
}

struct err *exam_methods_now(struct exam *exam, struct methods *methods, const char *part)
{
	struct events_stream s = exam_methods_stream(NULL, methods);
	s.name = part;
	exam_progress(exam, -1, "asking for method names");
	return exam_rundown(exam, &s);
}
