#include "sampling/jit_frames.h"
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
		vec_push(&m->spans, ((struct attributed_span){ event->thread_id, *from, event->time }));
	*from = 0;
}

static int by_thread(const void *pa, const void *pb)
{
	const struct attributed_span *a = pa, *b = pb;
	return CMP(a->thread, b->thread) ?: CMP(a->from_ns, b->from_ns);
}

static bool compiles(const struct jit_marks *m, uint64_t thread, uint64_t time_ns)
{
	const struct attributed_span *x = attributed_span_at(&m->spans, thread, time_ns);
	return x && time_ns < x->to_ns;
}

struct jit_window {
	const struct jit_marks *marks;
	const char *file;
	uint64_t start_ns;
};

static bool takes_sample(const void *user, const struct samples *s, const struct sample *x)
{
	const struct jit_window *w = user;
	return compiles(w->marks, s->threads.v[x->thread].own_tid, w->start_ns + (uint64_t)x->time_us * 1000);
}

static bool takes_module(const void *user, const char *module)
{
	const struct jit_window *w = user;
	return str_eq(module, w->file);
}

void jit_marks_apply(struct jit_marks *m, struct samples *s, const char *file, uint64_t start_ns)
{
	const struct jit_window window = { m, file, start_ns };
	vec_sort(&m->spans, by_thread);
	samples_attribute(
		s, &(struct attribution){ "[JIT compiler]", FRAME_JIT, takes_sample, takes_module, NULL, &window });
}

void jit_marks_fini(struct jit_marks *m)
{
	vec_free(&m->spans);
	map_u64_free(&m->open);
}
