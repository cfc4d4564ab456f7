#include "profilers/jit_marks.h"
#include "base/str.h"
#include "eventpipe/clr.h"
#include <stdlib.h>

#define SPANS_MAX 1000000

void jit_marks_event(struct jit_marks *m, const struct nettrace_event *event)
{
	if (!str_eq(event->meta->provider, CLR_PROVIDER))
		return;
	enum clr_event kind = clr_event(event);
	if (kind == CLR_METHOD_JITTING) {
		*map_u64_put(&m->open, event->thread_id, NULL) = event->time;
		return;
	}
	uint64_t *from = kind == CLR_METHOD_LOAD ? map_u64_get(&m->open, event->thread_id) : NULL;
	if (!from || !*from)
		return;
	if (m->spans.n < SPANS_MAX && event->time > *from)
		vec_push(&m->spans, ((struct jit_span){ event->thread_id, *from, event->time }));
	*from = 0;
}

static int by_thread(const void *pa, const void *pb)
{
	const struct jit_span *a = pa, *b = pb;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->from_ns < b->from_ns ? -1 : a->from_ns > b->from_ns;
}

static bool compiles(const struct jit_marks *m, uint64_t thread, uint64_t time_ns)
{
	size_t low = 0, high = m->spans.n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct jit_span *x = &m->spans.v[mid];
		if (x->thread < thread || (x->thread == thread && x->from_ns <= time_ns))
			low = mid + 1;
		else
			high = mid;
	}
	const struct jit_span *x = low ? &m->spans.v[low - 1] : NULL;
	return x && x->thread == thread && time_ns < x->to_ns;
}

/* The same stack with the compiler's frames, or the stack itself. */
static uint32_t marked(struct samples *s, uint32_t stack, const char *file)
{
	const struct samples_stack k = s->stacks.v[stack];
	CLEANUP(mem_freep) uint32_t *frames = mem_array(k.n + 1, sizeof(*frames));
	bool any = false, above = true;
	for (uint32_t i = 0; i < k.n; i++) {
		frames[i] = s->stack_frames.v[k.first + i];
		const struct samples_frame f = s->frames.v[frames[i]];
		above = above && f.kind != FRAME_CODE && f.kind != FRAME_FRAMEWORK;
		if (above && f.kind == FRAME_NATIVE && f.module != STRTAB_NONE &&
		    str_eq(strtab_get(&s->strings, f.module), file)) {
			frames[i] = samples_frame_as(s, frames[i], "[JIT compiler]", FRAME_JIT);
			any = true;
		}
	}
	uint32_t with = any ? samples_stack(s, frames, k.n, k.end, k.guessed) : stack;
	return with == SAMPLES_FULL ? stack : with;
}

void jit_marks_apply(struct jit_marks *m, struct samples *s, const char *file, uint64_t start_ns)
{
	struct map_u64 memo = { 0 }; /* stack -> the marked one + 1 */
	vec_sort(&m->spans, by_thread);
	vec_each(x, &s->list) {
		if (!compiles(m, s->threads.v[x->thread].own_tid, start_ns + (uint64_t)x->time_us * 1000))
			continue;
		uint64_t known = *map_u64_put(&memo, x->stack, NULL);
		uint32_t with = known ? (uint32_t)known - 1 : marked(s, x->stack, file);
		*map_u64_put(&memo, x->stack, NULL) = (uint64_t)with + 1;
		x->stack = with;
	}
	map_u64_free(&memo);
}

void jit_marks_fini(struct jit_marks *m)
{
	vec_free(&m->spans);
	map_u64_free(&m->open);
}
