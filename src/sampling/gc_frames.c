#include "sampling/gc_frames.h"
#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "sampling/switches.h"

#define PAUSES_MAX 1000000
#define SUSPEND_GC 1
#define SUSPEND_GC_PREP 6
/* A thread that asks for a collection begins to wait a little before the others are suspended. */
#define BEFORE_NS (5 * NS_PER_MS)

void gc_marks_event(struct gc_marks *m, const struct nettrace_event *event)
{
	enum clr_event kind = clr_event(event);
	bool open = m->pauses.n && !vec_last(&m->pauses).to_ns;
	struct clr_suspend suspend;
	if (kind == CLR_SUSPEND_BEGIN && !open && m->pauses.n < PAUSES_MAX && clr_decode_suspend(event, &suspend) &&
	    (suspend.reason == SUSPEND_GC || suspend.reason == SUSPEND_GC_PREP))
		vec_push(&m->pauses, ((struct attributed_span){ .from_ns = event->time }));
	else if (kind == CLR_RESTART_END && open)
		vec_last(&m->pauses).to_ns = event->time;
	struct clr_gc_start start;
	if (kind == CLR_GC_START && clr_decode_gc_start(event, &start)) {
		m->collections++;
		m->induced += clr_gc_induced(start.reason);
	}
}

static bool in_pause(const struct gc_marks *m, uint64_t time_ns, bool over)
{
	const struct attributed_span *p = attributed_span_at(&m->pauses, 0, time_ns);
	return p && (p->to_ns ? time_ns < p->to_ns : over);
}

static bool is_gc_thread(const char *name)
{
	return str_starts(name, ".NET Server GC") || str_starts(name, ".NET BGC") ||
	       str_starts(name, ".NET Background");
}

/* Idle workers spin in the runtime before they sleep, whatever the collector does. */
static bool only_waits(const char *method)
{
	static const char *const waits[] = { "System.Threading.LowLevelLifoSemaphore.",
					     "System.Threading.WaitHandle.",
					     "System.Threading.Thread.Sleep",
					     "System.Threading.Thread.Yield",
					     "System.Threading.Thread.Join",
					     "System.Threading.Thread.SpinWait",
					     "System.Threading.Monitor.Wait" };
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
		if (str_starts(method, waits[i]))
			return true;
	}
	return false;
}

struct gc_window {
	const struct gc_marks *marks;
	uint64_t start_ns;
	bool over;
};

static bool takes_sample(const void *user, const struct samples *s, const struct sample *x)
{
	const struct gc_window *w = user;
	return in_pause(w->marks, w->start_ns + (uint64_t)x->time_us * 1000, w->over) ||
	       is_gc_thread(samples_thread_show(s, x->thread));
}

static bool takes_module(const void *user, const char *module)
{
	const struct gc_window *w = user;
	return str_starts(module, "libcoreclr") || (w->marks->runtime && str_eq(module, w->marks->runtime));
}

void gc_marks_apply(const struct gc_marks *m, struct samples *s, uint64_t start_ns, bool over)
{
	const struct gc_window window = { m, start_ns, over };
	samples_attribute(s, &(struct attribution){ "[garbage collection]", FRAME_GC, takes_sample, takes_module,
						    only_waits, &window });
}

/* Into the runtime from code that has no reason to wait. */
static bool is_bare(const struct samples *s, uint32_t stack)
{
	const struct samples_stack *k = &s->stacks.v[stack];
	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t frame = s->stack_frames.v[k->first + i];
		uint8_t kind = s->frames.v[frame].kind;
		if (kind == FRAME_CODE)
			return true;
		if (kind == FRAME_FRAMEWORK)
			return !str_starts(samples_frame_name(s, frame), "System.Threading.");
	}
	return false;
}

void gc_marks_waits(const struct gc_marks *m, struct samples *s, uint64_t start_ns)
{
	vec_each(x, &s->list) {
		uint64_t from_ns = start_ns + (uint64_t)x->time_us * 1000;
		bool stood = in_pause(m, from_ns, true) || in_pause(m, from_ns + BEFORE_NS, true);
		if ((x->kind == WAIT_LOCK || x->kind == WAIT_EVENT) && stood && is_bare(s, x->stack))
			x->kind = WAIT_GC;
	}
}

void gc_marks_fini(struct gc_marks *m)
{
	vec_free(&m->pauses);
	mem_free(m->runtime);
}
