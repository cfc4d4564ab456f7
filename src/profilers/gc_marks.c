#include "profilers/gc_marks.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include "profilers/switches.h"

#define PAUSES_MAX 1000000
#define SUSPEND_GC 1
#define SUSPEND_GC_PREP 6
/* Who asks for a collection begins to wait a little before the others are stopped. */
#define BEFORE_NS 5000000

void gc_marks_event(struct gc_marks *m, const struct nettrace_event *event)
{
	enum clr_event kind = clr_event(event);
	bool open = m->pauses.n && !vec_last(&m->pauses).to_ns;
	struct clr_suspend suspend;
	if (kind == CLR_SUSPEND_BEGIN && !open && m->pauses.n < PAUSES_MAX && clr_decode_suspend(event, &suspend) &&
	    (suspend.reason == SUSPEND_GC || suspend.reason == SUSPEND_GC_PREP))
		vec_push(&m->pauses, ((struct gc_standstill){ .from_ns = event->time }));
	else if (kind == CLR_RESTART_END && open)
		vec_last(&m->pauses).to_ns = event->time;
}

static bool in_pause(const struct gc_marks *m, uint64_t time_ns, bool over)
{
	size_t low = 0, high = m->pauses.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (m->pauses.v[mid].from_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low)
		return false;
	const struct gc_standstill *p = &m->pauses.v[low - 1];
	return p->to_ns ? time_ns < p->to_ns : over;
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

static bool is_runtime(const struct gc_marks *m, const struct samples *s, const struct samples_frame *f)
{
	if (f->kind != FRAME_NATIVE || f->module == STRTAB_NONE)
		return false;
	const char *module = strtab_get(&s->strings, f->module);
	return str_starts(module, "libcoreclr") || (m->runtime && str_eq(module, m->runtime));
}

/* The same stack with the collector's frames, or the stack itself. */
static uint32_t marked(const struct gc_marks *m, struct samples *s, uint32_t stack)
{
	const struct samples_stack k = s->stacks.v[stack];
	CLEANUP(mem_freep) uint32_t *frames = mem_array(k.n + 1, sizeof(*frames));
	bool any = false, above = true;
	for (uint32_t i = 0; i < k.n; i++) {
		frames[i] = s->stack_frames.v[k.first + i];
		const struct samples_frame f = s->frames.v[frames[i]];
		bool managed = f.kind == FRAME_CODE || f.kind == FRAME_FRAMEWORK;
		if (above && managed && only_waits(samples_frame_name(s, frames[i])))
			return stack;
		above = above && !managed && f.kind != FRAME_JIT;
		if (above && is_runtime(m, s, &f)) {
			frames[i] = samples_frame_as(s, frames[i], "[garbage collection]", FRAME_GC);
			any = true;
		}
	}
	uint32_t with = any ? samples_stack(s, frames, k.n, k.end, k.guessed) : stack;
	return with == SAMPLES_FULL ? stack : with;
}

void gc_marks_apply(const struct gc_marks *m, struct samples *s, uint64_t start_ns, bool over)
{
	struct map_u64 memo = { 0 }; /* stack -> the marked one + 1 */
	vec_each(x, &s->list) {
		if (!in_pause(m, start_ns + (uint64_t)x->time_us * 1000, over) &&
		    !is_gc_thread(samples_thread_show(s, x->thread)))
			continue;
		uint64_t known = *map_u64_put(&memo, x->stack, NULL);
		uint32_t with = known ? (uint32_t)known - 1 : marked(m, s, x->stack);
		*map_u64_put(&memo, x->stack, NULL) = (uint64_t)with + 1;
		x->stack = with;
	}
	map_u64_free(&memo);
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
