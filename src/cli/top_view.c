#include "cli/top_view.h"
#include "base/str.h"
#include "sampling/sample_summary.h"
#include <stdlib.h>
#include <string.h>

#define NAME_CHARS 400
#define RECENT_MAX (1u << 20)

static const char *const kind_words[] = { "your code", "framework", "GC", "JIT", "native", "kernel", "" };

void top_view_take(struct top_view *v, struct samples *samples, uint64_t now_us)
{
	uint64_t window_us = v->window_ns / 1000, from = now_us - MIN(now_us, window_us);
	if (v->samples != samples)
		vec_clear(&v->recent); /* their names are gone */
	v->samples = samples;
	v->newest_us = now_us;
	vec_each(x, &samples->list) {
		v->total++;
		if (v->recent.n < RECENT_MAX)
			vec_push(&v->recent, *x);
	}
	vec_clear(&samples->list);
	size_t n = 0;
	vec_each(x, &v->recent) {
		if (x->time_us >= from)
			v->recent.v[n++] = *x;
	}
	v->recent.n = n;
}

static void clear_rows(struct top_view *v)
{
	vec_each(row, &v->rows)
		mem_free(row->name);
	vec_clear(&v->rows);
}

static int by_self(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	return CMP(y->self, x->self) ?: CMP(y->total, x->total) ?: strcmp(x->name, y->name);
}

static int by_total(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	return CMP(y->total, x->total) ?: by_self(a, b);
}

static void add_row(struct top_view *v, const char *name, struct top_row row)
{
	struct buf shown = { 0 };
	/* Code that has no name by now belongs to the runtime. */
	if (str_starts(name, "[code at "))
		name = "[stub]";
	str_add_visible(&shown, name, strlen(name), NAME_CHARS);
	row.name = buf_steal(&shown);
	if (!str_empty(v->filter) && !str_contains_nocase(row.name, v->filter))
		mem_free(row.name);
	else
		vec_push(&v->rows, row);
}

static void add_methods(struct top_view *v, const struct sample_summary *hot, double scale)
{
	vec_each(m, &hot->methods)
		add_row(v, samples_frame_name(v->samples, m->frame),
			(struct top_row){ .kind = kind_words[v->samples->frames.v[m->frame].kind],
					  .self = (double)m->self * scale,
					  .total = (double)m->total * scale });
}

static void add_threads(struct top_view *v, const struct sample_summary *hot, double scale)
{
	for (uint32_t i = 0; i < v->samples->threads.n; i++) {
		const char *name = samples_thread_show(v->samples, i);
		if (hot->threads[i])
			add_row(v, *name ? name : "(no name)",
				(struct top_row){ .kind = "",
						  .self = (double)hot->threads[i] * scale,
						  .tid = v->samples->threads.v[i].own_tid });
	}
}

void top_view_rows(struct top_view *v)
{
	clear_rows(v);
	v->cores = 0;
	if (!v->samples)
		return;
	struct samples shown = *v->samples; /* borrows everything but the list */
	shown.list.v = v->recent.v;
	shown.list.n = v->recent.n;
	CLEANUP(sample_summary_freep) struct sample_summary *hot = sample_summary_new(&shown, UINT64_MAX);
	v->seen_ns = MIN(v->window_ns, MAX(v->newest_us, (uint64_t)1) * 1000);
	double scale = 1.0 / (double)v->seen_ns;
	v->cores = (double)hot->weight * scale;
	if (v->what == TOP_METHODS)
		add_methods(v, hot, scale);
	else
		add_threads(v, hot, scale);
	vec_sort(&v->rows, v->sort == TOP_BY_TOTAL && v->what == TOP_METHODS ? by_total : by_self);
}

void top_view_fini(struct top_view *v)
{
	clear_rows(v);
	vec_free(&v->rows);
	vec_free(&v->recent);
}
