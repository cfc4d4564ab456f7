/* Events in the order of time, out of a stream that is ordered per writing thread only.
 *
 * A block's bytes are kept in a hold, its events in slabs that point into the hold. Events arrive in runs of
 * ascending time (one writer's share of a block); a heap of runs by (time of the next event, arrival) merges them,
 * which keeps the order of arrival for equal times. An event marked sorted promises that nothing older follows: up to
 * its time everything may go. A slab is freed with its last event, a hold with its last slab.
 *
 *	heap ──► run [pos, end) ──► slab: event event event ... ──► hold: bytes of the block
 */

#include "nettrace/internal.h"

#define SLAB_EVENTS 512

struct nettrace_hold {
	uint8_t *mem;
	size_t bytes;
	size_t n_slabs; /* and one for the parser */
};

struct nettrace_slab {
	struct nettrace_hold *hold;
	uint32_t n, cap;
	uint32_t left; /* not delivered yet, and one for the parser */
	struct nettrace_event events[];
};

static size_t slab_bytes(const struct nettrace_slab *slab)
{
	return sizeof(*slab) + slab->cap * sizeof(slab->events[0]);
}

static void hold_release(struct nettrace_order *o, struct nettrace_hold *hold)
{
	if (--hold->n_slabs)
		return;
	o->bytes -= hold->bytes;
	mem_free(hold->mem);
	mem_free(hold);
}

static void slab_release(struct nettrace_order *o, struct nettrace_slab *slab, uint32_t n)
{
	slab->left -= n;
	if (slab->left)
		return;
	hold_release(o, slab->hold);
	o->bytes -= slab_bytes(slab);
	mem_free(slab);
}

static bool run_before(const struct nettrace_run *a, const struct nettrace_run *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void heap_down(struct nettrace_order *o)
{
	struct nettrace_run *h = o->heap.v;
	size_t n = o->heap.n, i = 0;
	struct nettrace_run moved = h[0];
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= n)
			break;
		if (child + 1 < n && run_before(&h[child + 1], &h[child]))
			child++;
		if (!run_before(&h[child], &moved))
			break;
		h[i] = h[child];
		i = child;
	}
	h[i] = moved;
}

static void heap_push(struct nettrace_order *o, struct nettrace_run run)
{
	vec_push(&o->heap, run);
	struct nettrace_run *h = o->heap.v;
	size_t i = o->heap.n - 1;
	for (; i && run_before(&run, &h[(i - 1) / 2]); i = (i - 1) / 2)
		h[i] = h[(i - 1) / 2];
	h[i] = run;
}

/* The run that comes next once the one on top is done, or NULL. */
static const struct nettrace_run *heap_second(const struct nettrace_order *o)
{
	const struct nettrace_run *h = o->heap.v;
	if (o->heap.n < 2)
		return NULL;
	return o->heap.n > 2 && run_before(&h[2], &h[1]) ? &h[2] : &h[1];
}

/* Delivers from the run on top as long as no other run comes first. */
static void deliver_top(struct nettrace_reader *r, uint64_t until)
{
	struct nettrace_order *o = &r->order;
	struct nettrace_run *top = &o->heap.v[0];
	const struct nettrace_run *second = heap_second(o);
	const struct nettrace_event *events = top->slab->events;
	uint32_t pos = top->pos;
	do {
		if (events[pos].time > o->watermark)
			r->stats.early++;
		nettrace_deliver(r, &events[pos++]);
	} while (pos < top->end && events[pos].time <= until &&
		 (!second || events[pos].time < second->time ||
		  (events[pos].time == second->time && top->order < second->order)));

	struct nettrace_slab *slab = top->slab;
	uint32_t done = pos - top->pos;
	if (pos == top->end) {
		*top = vec_last(&o->heap);
		o->heap.n--;
	} else {
		top->pos = pos;
		top->time = events[pos].time;
	}
	if (o->heap.n)
		heap_down(o);
	slab_release(o, slab, done);
}

static void deliver_until(struct nettrace_reader *r, uint64_t until)
{
	while (r->order.heap.n && r->order.heap.v[0].time <= until)
		deliver_top(r, until);
}

static void close_run(struct nettrace_order *o)
{
	struct nettrace_slab *slab = o->slab;
	if (!slab || o->run_start == slab->n)
		return;
	heap_push(o, (struct nettrace_run){ .time = slab->events[o->run_start].time,
					    .order = o->n_runs++,
					    .slab = slab,
					    .pos = o->run_start,
					    .end = slab->n });
	o->run_start = slab->n;
}

/* Order is given up before memory is: the oldest go first. */
static void make_room(struct nettrace_reader *r)
{
	struct nettrace_order *o = &r->order;
	while (o->heap.n && o->bytes + o->heap.n * sizeof(o->heap.v[0]) > r->opt.max_reorder_bytes)
		deliver_top(r, UINT64_MAX);
}

static void close_slab(struct nettrace_order *o)
{
	close_run(o);
	if (o->slab)
		slab_release(o, o->slab, 1);
	o->slab = NULL;
}

static void open_slab(struct nettrace_reader *r)
{
	struct nettrace_order *o = &r->order;
	close_slab(o);
	make_room(r);
	/* No event is shorter than two bytes. */
	uint32_t cap = (uint32_t)MIN(o->block_bytes / 2 + 1, (size_t)SLAB_EVENTS);
	struct nettrace_slab *slab = mem_alloc(sizeof(*slab) + cap * sizeof(slab->events[0]));
	*slab = (struct nettrace_slab){ .hold = o->hold, .cap = cap, .left = 1 };
	o->hold->n_slabs++;
	o->bytes += slab_bytes(slab);
	o->slab = slab;
	o->run_start = 0;
}

const uint8_t *nettrace_order_begin(struct nettrace_reader *r, const uint8_t *body, size_t len)
{
	struct nettrace_order *o = &r->order;
	struct nettrace_hold *hold = mem_alloc(sizeof(*hold));
	*hold = (struct nettrace_hold){ .n_slabs = 1 };
	const uint8_t *in = (const uint8_t *)r->in.data;
	if (in && r->in.len && body >= in && body <= in + r->in.len) {
		hold->mem = (uint8_t *)r->in.data;
		hold->bytes = sizeof(*hold) + r->in.cap;
		r->in = (struct buf){ 0 };
	} else {
		hold->mem = mem_dup(body, len);
		hold->bytes = sizeof(*hold) + len;
		body = hold->mem;
	}
	o->bytes += hold->bytes;
	o->hold = hold;
	o->block_bytes = len;
	make_room(r);
	return body;
}

void nettrace_order_add(struct nettrace_reader *r, const struct nettrace_event *event)
{
	struct nettrace_order *o = &r->order;
	if (!o->slab || o->slab->n == o->slab->cap)
		open_slab(r);
	else if (event->time < o->last_time)
		close_run(o);
	o->slab->events[o->slab->n++] = *event;
	o->slab->left++;
	o->last_time = event->time;
}

void nettrace_order_end(struct nettrace_reader *r)
{
	struct nettrace_order *o = &r->order;
	close_slab(o);
	hold_release(o, o->hold);
	o->hold = NULL;
	deliver_until(r, o->watermark);
}

void nettrace_order_flush(struct nettrace_reader *r)
{
	/* Not early: a caller that asks for all knows that nothing older follows. */
	r->order.watermark = UINT64_MAX;
	deliver_until(r, UINT64_MAX);
	r->order.watermark = 0;
}

void nettrace_order_free(struct nettrace_reader *r)
{
	struct nettrace_order *o = &r->order;
	vec_each(run, &o->heap)
		slab_release(o, run->slab, run->end - run->pos);
	vec_free(&o->heap);
}
