#include "eventpipe/gc_log.h"

static int32_t gc_index(const struct gc_log *log, uint32_t number)
{
	const uint64_t *i = map_u64_get(&log->gc_by_number, number);
	return i ? (int32_t)*i : -1;
}

void gc_log_init(struct gc_log *log)
{
	*log = (struct gc_log){ .last_ended = -1 };
}

void gc_log_fini(struct gc_log *log)
{
	vec_free(&log->pauses);
	vec_free(&log->gcs);
	map_u64_free(&log->gc_by_number);
}

uint64_t gc_after(const struct gc *gc)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < CLR_GENERATIONS; i++)
		sum += gc->size[i];
	return sum;
}

uint64_t gc_pause_ns(const struct gc_pause *p)
{
	return p->end_ns - p->begin_ns;
}

static void on_gc_start(struct gc_log *log, const struct nettrace_event *event)
{
	struct clr_gc_start start;
	if (!clr_decode_gc_start(event, &start))
		return;
	log->n_gcs++;
	if (log->gcs.n >= GC_LOG_GCS_MAX)
		return;
	*map_u64_put(&log->gc_by_number, start.number, NULL) = log->gcs.n;
	/* A background GC lets a young one run first, in the same suspension: the pause is that one's as well. */
	if (log->is_open && log->open.gc < 0)
		log->open.gc = (int32_t)log->gcs.n;
	struct gc gc = { .number = start.number, .start_ns = event->time };
	gc.generation = (uint8_t)MIN(start.generation, 255u);
	gc.reason = (uint8_t)MIN(start.reason, 255u);
	gc.type = (uint8_t)MIN(start.type, 255u);
	vec_push(&log->gcs, gc);
}

static void add_history(struct gc_log *log, const struct nettrace_event *event)
{
	struct clr_heap_history h;
	if (!clr_decode_heap_history(event, &h))
		return;
	struct gc *p = &log->pending;
	p->has_history = true;
	p->before += h.before_bytes;
	p->young_before += h.generations[0].before - h.generations[0].free_before;
	p->young_after += h.generations[0].after - h.generations[0].free_after;
	for (size_t i = 3; i < CLR_GENERATIONS; i++) {
		p->large_before += h.generations[i].before - h.generations[i].free_before;
		p->large_after += h.generations[i].after - h.generations[i].free_after;
	}
	for (size_t i = 0; i < CLR_GENERATIONS; i++) {
		p->free[i] += h.generations[i].free_after;
		/* For the time being the size before of each: which were collected the GC itself knows. */
		p->size[i] += h.generations[i].before - h.generations[i].free_before;
	}
}

static void take_history(struct gc *gc, const struct gc *from)
{
	gc->has_history = from->has_history;
	gc->before = from->before;
	gc->young_before = from->young_before;
	gc->young_after = from->young_after;
	gc->large_before = from->large_before;
	gc->large_after = from->large_after;
	for (size_t i = 0; i < CLR_GENERATIONS; i++) {
		gc->free[i] = from->free[i];
		if (i <= gc->generation || gc->generation >= 2)
			gc->survived_from += from->size[i];
	}
}

static void on_gc_end(struct gc_log *log, const struct nettrace_event *event)
{
	struct clr_gc_end end;
	if (!clr_decode_gc_end(event, &end))
		return;
	log->last_ended = gc_index(log, end.number);
	if (log->last_ended >= 0) {
		struct gc *gc = &log->gcs.v[log->last_ended];
		gc->end_ns = event->time;
		if (log->pending.has_history)
			take_history(gc, &log->pending);
	}
	log->pending = (struct gc){ 0 };
}

static void on_heap_stats(struct gc_log *log, const struct nettrace_event *event)
{
	struct clr_heap_stats stats;
	if (log->last_ended < 0 || !clr_decode_heap_stats(event, &stats))
		return;
	struct gc *gc = &log->gcs.v[log->last_ended];
	for (size_t i = 0; i < CLR_GENERATIONS; i++) {
		gc->size[i] = stats.size[i];
		gc->promoted[i] = stats.promoted[i];
	}
	gc->pinned = stats.pinned;
	gc->handles = stats.handles;
	gc->has_stats = true;
	log->last_ended = -1;
}

static void on_suspend(struct gc_log *log, const struct nettrace_event *event)
{
	struct clr_suspend suspend;
	if (!clr_decode_suspend(event, &suspend))
		return;
	log->unpaired += log->is_open;
	log->open = (struct gc_pause){ .begin_ns = event->time, .reason = suspend.reason, .gc = -1 };
	log->is_open = true;
	/* The number is that of the last GC for a plain one, and that of the running background GC otherwise. */
	if (suspend.reason == SUSPEND_GC_PREP)
		log->open.gc = gc_index(log, suspend.gc_number);
}

static void on_restarted(struct gc_log *log, const struct nettrace_event *event)
{
	if (!log->is_open)
		return;
	log->is_open = false;
	struct gc_pause *pause = &log->open;
	if (!pause->stopped_ns || event->time < pause->begin_ns || pause->stopped_ns > event->time) {
		log->unpaired++;
		return;
	}
	pause->end_ns = event->time;
	if (pause->gc >= 0)
		log->gcs.v[pause->gc].pause_ns += gc_pause_ns(pause);
	if (log->on_pause)
		log->on_pause(log->user, pause);
	if (log->pauses.n < GC_LOG_PAUSES_MAX)
		vec_push(&log->pauses, *pause);
}

void gc_log_event(struct gc_log *log, const struct nettrace_event *event)
{
	switch (clr_event(event)) {
	case CLR_SUSPEND_BEGIN:
		on_suspend(log, event);
		break;
	case CLR_SUSPEND_END:
		if (log->is_open)
			log->open.stopped_ns = event->time;
		break;
	case CLR_RESTART_END:
		on_restarted(log, event);
		break;
	case CLR_GC_START:
		on_gc_start(log, event);
		break;
	case CLR_GC_END:
		on_gc_end(log, event);
		break;
	case CLR_GC_HEAP_STATS:
		on_heap_stats(log, event);
		break;
	case CLR_GC_HEAP_HISTORY:
		add_history(log, event);
		break;
	default:
		break;
	}
}

void gc_describe(const struct gc *gc, struct buf *out)
{
	buf_printf(out, "gen %u %s GC, %s", gc->generation, clr_gc_type(gc->type), clr_gc_reason(gc->reason));
}

void gc_log_describe(const struct gc_log *log, const struct gc_pause *pause, struct buf *out)
{
	if (pause->gc >= 0) {
		gc_describe(&log->gcs.v[pause->gc], out);
		if (pause->reason == SUSPEND_GC_PREP)
			buf_str(out, " (its final phase)");
	} else if (pause->reason == SUSPEND_OTHER) {
		buf_str(out, "runtime work other than GC");
	} else {
		buf_str(out, clr_suspend_reason(pause->reason));
	}
}
