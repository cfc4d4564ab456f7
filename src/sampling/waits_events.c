/* Waits where the kernel's switches may not be recorded: the runtime reports when a thread begins to wait for a lock
 * and, from .NET 9 on, for a wait handle or in Monitor.Wait, and when it continues. It does not report sleeps, files
 * and sockets. */

#include "eventpipe/clr.h"
#include "sampling/event_frames.h"
#include "exam/events.h"
#include "sampling/sampling.h"
#include "sampling/switches.h"
#include <unistd.h>

/* What a thread waits in. Waiting for a lock may itself wait for a handle: only the outermost counts. */
struct waiter {
	uint32_t thread, stack, depth;
	enum wait_kind kind;
	uint64_t since_ns;
};

struct hearing {
	struct exam *exam;
	struct samples *samples;
	struct methods *methods;
	struct sampling_facts *facts;
	VEC(struct waiter) waiters;
	struct map_u64 by_thread; /* tid -> waiter + 1 */
	struct event_frames frames;
};

static struct waiter *waiter_of(struct hearing *w, uint32_t tid)
{
	uint64_t *index = map_u64_put(&w->by_thread, tid, NULL);
	if (!*index) {
		bool new;
		vec_push(&w->waiters, ((struct waiter){ .thread = samples_thread(w->samples, tid, &new) }));
		*index = w->waiters.n;
	}
	return &w->waiters.v[*index - 1];
}

static void end_wait(struct hearing *w, struct waiter *x, uint64_t now_ns)
{
	uint64_t from = MAX(x->since_ns, w->exam->start_ns);
	if (now_ns <= from)
		return;
	w->facts->waits++;
	w->facts->waits_with_stack++;
	samples_add(w->samples, (from - w->exam->start_ns) / 1000, x->thread, x->stack, now_ns - from, x->kind);
}

static void on_event(void *user, const struct nettrace_event *event)
{
	struct hearing *w = user;
	enum clr_event kind = clr_event(event);
	bool begins = kind == CLR_CONTENTION_START || kind == CLR_WAIT_START;
	if (!begins && kind != CLR_CONTENTION_STOP && kind != CLR_WAIT_STOP)
		return;
	struct waiter *x = waiter_of(w, (uint32_t)event->thread_id);
	if (begins && !x->depth++) {
		x->kind = kind == CLR_CONTENTION_START ? WAIT_LOCK : WAIT_EVENT;
		x->since_ns = event->time;
		x->stack = event_frames_stack(&w->frames, event);
	} else if (!begins && x->depth && !--x->depth) {
		end_wait(w, x, event->time);
	}
}

struct err *exam_waits_by_events(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				 struct sampling_facts *facts)
{
	static const struct ipc_provider provider = { .name = CLR_PROVIDER,
						      .keywords = CLR_CONTENTION | CLR_WAIT_HANDLE,
						      .level = 5 };
	struct hearing w = { .exam = exam, .samples = samples_new(), .methods = methods_new(), .facts = facts };
	w.samples->whose = exam->whose;
	w.frames.samples = w.samples;
	struct events_stream streams[] = {
		{ .name = "waits",
		  .providers = &provider,
		  .n_providers = 1,
		  .stacks = true,
		  .event = on_event,
		  .user = &w },
		exam_methods_stream(&streams[0], w.methods),
	};
	facts->named = facts->by_events = true;
	facts->cpu_ns = UINT64_MAX;
	facts->period = 1;
	facts->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	struct err *err = exam_events(exam, streams, ARRAY_SIZE(streams), options->window_ms);
	if (!err && !exam->cancelled)
		err = exam_methods(exam, w.methods);
	if (!err) {
		vec_each(x, &w.waiters) {
			if (x->depth)
				end_wait(&w, x, exam->end_ns);
		}
		facts->lost = streams[0].lost;
		facts->threads = (uint32_t)w.samples->threads.n;
		facts->samples = facts->ends[UNWIND_ROOT] = w.samples->list.n;
		event_frames_name(&w.frames, w.methods);
		*ret = STEAL(w.samples);
	}
	samples_free(w.samples);
	methods_free(w.methods);
	vec_free(&w.waiters);
	map_u64_free(&w.by_thread);
	event_frames_fini(&w.frames);
	return err;
}
