/* A thread snapshot without an image: the runtime's own sampler runs for a moment, and the last stack of each thread
 * is kept. */

#include "base/str.h"
#include "eventpipe/clr.h"
#include "exam/events.h"
#include "threads/thread_snapshot.h"
#include "exam/stacks.h"
#include "exam/thread_names.h"
#include <string.h>

#define WINDOW_MS 300
#define THREADS_MAX 100000
#define IN_MANAGED_CODE 2

/* Where a thread was last. */
struct snapshot_events_place {
	uint64_t tid;
	uint32_t stack;
	bool managed;
};

struct snapshot_events_listening {
	struct stacks *stacks;
	struct methods *methods;
	struct map_u64 by_tid; /* -> place */
	VEC(struct snapshot_events_place) places;
};

static void on_sample(void *user, const struct nettrace_event *event)
{
	struct snapshot_events_listening *l = user;
	uint32_t mode = 0;
	bool new;
	if (!event->n_frames || l->places.n >= THREADS_MAX)
		return;
	if (event->payload_size >= sizeof(mode))
		memcpy(&mode, event->payload, sizeof(mode));
	uint64_t *index = map_u64_put(&l->by_tid, event->thread_id, &new);
	if (new) {
		*index = l->places.n;
		vec_push(&l->places, ((struct snapshot_events_place){ .tid = event->thread_id }));
	}
	l->places.v[*index].stack = stacks_add(l->stacks, event);
	l->places.v[*index].managed = mode == IN_MANAGED_CODE;
}

static struct thread_snapshot *build(struct snapshot_events_listening *l, const struct thread_names *names)
{
	struct thread_snapshot *s = thread_snapshot_new();
	vec_each(p, &l->places) {
		if (p->stack == STACKS_NONE)
			continue;
		for (size_t i = 0; i < stacks_depth(l->stacks, p->stack); i++) {
			struct stack_frame f = stacks_frame(l->stacks, l->methods, p->stack, i);
			thread_snapshot_add_frame(s, thread_snapshot_method(s, f.name, f.framework || !f.known));
		}
		thread_snapshot_add_thread(s, &(struct snapshot_thread){ .os_id = (uint32_t)p->tid,
									 .name = thread_names_get(names, p->tid),
									 .cooperative = p->managed,
									 .call = SNAPSHOT_UNKNOWN,
									 .before = { UINT64_MAX, UINT64_MAX },
									 .after = { UINT64_MAX, UINT64_MAX },
									 .waits_for = SNAPSHOT_NONE });
	}
	return s;
}

struct err *thread_snapshot_by_events(struct exam *exam, struct thread_snapshot **ret, uint64_t *ret_lost)
{
	static const struct ipc_provider provider = { .name = CLR_SAMPLE_PROVIDER, .keywords = 0, .level = 5 };
	struct snapshot_events_listening l = { .stacks = stacks_new(exam->whose), .methods = methods_new() };
	struct thread_names names = { 0 };
	struct events_stream streams[2] = {
		{ .name = "sampled",
		  .providers = &provider,
		  .n_providers = 1,
		  .stacks = true,
		  .unordered = true,
		  .certain = true,
		  .event = on_sample,
		  .user = &l },
	};
	streams[1] = exam_methods_stream(&streams[0], l.methods);
	thread_names_look(&names, exam);
	struct err *err = exam_events(exam, streams, ARRAY_SIZE(streams), WINDOW_MS);
	if (!err)
		err = exam_methods_of(exam, l.stacks, l.methods);
	if (!err) {
		thread_names_save(&names, exam);
		*ret = build(&l, &names);
		*ret_lost = streams[0].lost;
	}
	thread_names_free(&names);
	stacks_free(l.stacks);
	methods_free(l.methods);
	map_u64_free(&l.by_tid);
	vec_free(&l.places);
	return err;
}
