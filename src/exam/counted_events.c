#include "exam/counted_events.h"

void counted_events_init(struct counted_events *c, const struct exam *exam)
{
	*c = (struct counted_events){ .old = exam_runtime_major(exam) < 9,
				      .stacks = stacks_new(exam->whose),
				      .methods = methods_new() };
}

void counted_events_fini(struct counted_events *c)
{
	stacks_free(c->stacks);
	methods_free(c->methods);
}

static void on_both(void *user, const struct nettrace_event *event)
{
	const struct counted_wanted *wanted = user;
	wanted->count(wanted->user, event);
	wanted->stack(wanted->user, event);
}

static void describe_streams(struct counted_events *c, struct counted_wanted *wanted)
{
	c->streams[COUNTED_STACKS] = (struct events_stream){
		.name = "stacks",
		.providers = wanted->provider,
		.n_providers = 1,
		.stacks = true,
		.burst_rate = wanted->burst_rate,
		.burst_share = wanted->burst_share,
		.scaled = c->old,
		.event = c->old ? on_both : wanted->stack,
		.user = c->old ? wanted : wanted->user,
	};
	c->streams[COUNTED_COUNTS] = (struct events_stream){
		.name = "counts",
		.providers = wanted->provider,
		.n_providers = 1,
		.unordered = wanted->unordered,
		.event = wanted->count,
		.user = wanted->user,
	};
	if (c->old && wanted->counter) {
		c->streams[COUNTED_COUNTS] = *wanted->counter;
		c->streams[COUNTED_COUNTS].beside = &c->streams[COUNTED_STACKS];
	}
	c->streams[wanted->compiled ? COUNTED_NAMES : COUNTED_COMPILED] =
		exam_methods_stream(&c->streams[COUNTED_STACKS], c->methods);
	if (wanted->compiled)
		c->streams[COUNTED_COMPILED] = exam_compiled_stream(c->methods);
}

struct err *counted_events_run(struct counted_events *c, struct exam *exam, const struct counted_wanted *wanted)
{
	struct counted_wanted kept = *wanted;
	size_t first = wanted->compiled ? COUNTED_NAMES : COUNTED_COMPILED;
	size_t end = c->old && !wanted->counter ? COUNTED_COUNTS : COUNTED_STREAMS;
	describe_streams(c, &kept);
	return exam_events(exam, c->streams + first, end - first, exam_duration_ms(exam));
}

struct err *counted_events_names(struct counted_events *c, struct exam *exam)
{
	return exam_methods_of(exam, c->stacks, c->methods);
}

const struct events_stream *counted_events_by(const struct counted_events *c)
{
	return &c->streams[c->old ? COUNTED_STACKS : COUNTED_COUNTS];
}

double counted_events_scale(const struct counted_events *c, const struct exam *exam)
{
	const struct events_stream *s = counted_events_by(c);
	return s->bursting ? MAX(1.0, ratio(exam->end_ns - exam->start_ns, s->open_ns)) : 1;
}
