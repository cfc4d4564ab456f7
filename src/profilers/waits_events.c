/* Waits where the kernel's switches are closed to us: the runtime tells when a thread begins to wait for a lock and,
 * from .NET 9 on, for a wait handle or in Monitor.Wait, and when it goes on. Sleeps, files and sockets it does not tell
 * of. */

#include "eventpipe/clr.h"
#include "profilers/events.h"
#include "profilers/sampling.h"
#include "profilers/switches.h"
#include <stdio.h>
#include <unistd.h>

#define FRAMES_MAX 1024

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
	VEC(uint64_t) addresses;  /* by frame, named afterwards */
	struct map_u64 frames;	  /* address -> frame + 1 */
	struct buf text;
};

static uint32_t frame_of(struct hearing *w, uint64_t address)
{
	uint64_t *known = map_u64_put(&w->frames, address, NULL);
	if (*known)
		return (uint32_t)(*known - 1);
	char name[40];
	snprintf(name, sizeof(name), "[code at 0x%llx]", (unsigned long long)address);
	uint32_t frame = samples_frame(w->samples, name, NULL, FRAME_OTHER);
	while (w->addresses.n <= frame)
		vec_push(&w->addresses, 0);
	w->addresses.v[frame] = address;
	*map_u64_put(&w->frames, address, NULL) = frame + 1ull;
	return frame;
}

static uint32_t stack_of(struct hearing *w, const struct nettrace_event *event)
{
	uint32_t frames[FRAMES_MAX];
	size_t n = 0;
	for (size_t i = 0; i < event->n_frames && n < FRAMES_MAX; i++)
		frames[n++] = frame_of(w, nettrace_event_frame(event, i) - (i ? 1 : 0));
	if (!n)
		frames[n++] = samples_frame(w->samples, "[no stack]", NULL, FRAME_OTHER);
	return samples_stack(w->samples, frames, n, UNWIND_ROOT, false);
}

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
		x->stack = stack_of(w, event);
	} else if (!begins && x->depth && !--x->depth) {
		end_wait(w, x, event->time);
	}
}

static void name_frames(struct hearing *w)
{
	struct samples *s = w->samples;
	for (uint32_t i = 0; i < w->addresses.n; i++) {
		const struct method *m = w->addresses.v[i] ? methods_find(w->methods, w->addresses.v[i]) : NULL;
		if (!m)
			continue;
		buf_clear(&w->text);
		method_show(m->space, m->name, &w->text);
		uint32_t same = samples_frame(s, buf_cstr(&w->text), NULL, method_kind(m->space));
		s->frames.v[i] = s->frames.v[same];
	}
}

struct err *exam_waits_by_events(struct exam *exam, const struct sampling_options *options, struct samples **ret,
				 struct sampling_facts *facts)
{
	static const struct ipc_provider provider = { .name = CLR_PROVIDER,
						      .keywords = CLR_CONTENTION | CLR_WAIT_HANDLE,
						      .level = 5 };
	struct hearing w = { .exam = exam, .samples = samples_new(), .methods = methods_new(), .facts = facts };
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
		name_frames(&w);
		*ret = STEAL(w.samples);
	}
	samples_free(w.samples);
	methods_free(w.methods);
	vec_free(&w.waiters);
	map_u64_free(&w.by_thread);
	map_u64_free(&w.frames);
	vec_free(&w.addresses);
	buf_free(&w.text);
	return err;
}
