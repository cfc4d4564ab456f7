#include "threads/wait_graph.h"
#include "base/str.h"
#include <stdlib.h>

/* A thread's state in the search, and how it was reached. */
enum mark { NEW, OPEN, DONE };

struct cycle_search {
	const struct thread_snapshot *s;
	struct circles *found;
	uint8_t *marks;
	bool *taken; /* part of a circle already */
	VEC(struct circle_step) path;
	VEC(uint32_t) next; /* of each step of the path: which holder comes next */
};

/* The wait object that decides when the thread continues; NULL = none is known. */
static const struct wait_object *waits_in_the_end(const struct thread_snapshot *s, uint32_t thread)
{
	uint32_t thing = s->threads.v[thread].waits_for;
	return thing == SNAPSHOT_NONE ? NULL : wait_object_chain_end(s, &s->things.v[thing]);
}

static void push(struct cycle_search *x, uint32_t thread)
{
	const struct wait_object *thing = waits_in_the_end(x->s, thread);
	x->marks[thread] = OPEN;
	vec_push(&x->path,
		 ((struct circle_step){ thread, thing ? (uint32_t)(thing - x->s->things.v) : SNAPSHOT_NONE }));
	vec_push(&x->next, 0);
}

static void take_circle(struct cycle_search *x, uint32_t thread)
{
	size_t from = x->path.n;
	while (from && x->path.v[from - 1].thread != thread)
		from--;
	from -= from > 0;
	struct circle circle = { .first = (uint32_t)x->found->steps.n, .n = (uint32_t)(x->path.n - from) };
	for (size_t i = from; i < x->path.n; i++)
		if (x->taken[x->path.v[i].thread])
			return;
	for (size_t i = from; i < x->path.n; i++) {
		vec_push(&x->found->steps, x->path.v[i]);
		x->taken[x->path.v[i].thread] = true;
		circle.guessed |= x->s->things.v[x->path.v[i].thing].guessed;
	}
	vec_push(&x->found->v, circle);
}

/* Depth first without recursion: chains may be as long as there are threads. */
static void search_from(struct cycle_search *x, uint32_t thread)
{
	push(x, thread);
	while (x->path.n) {
		struct circle_step step = vec_last(&x->path);
		const struct wait_object *thing = step.thing == SNAPSHOT_NONE ? NULL : &x->s->things.v[step.thing];
		uint32_t i = vec_last(&x->next)++;
		if (!thing || i >= thing->n) {
			x->marks[step.thread] = DONE;
			x->path.n--;
			x->next.n--;
			continue;
		}
		uint32_t holder = x->s->holders.v[thing->first + i];
		/* A thread that holds what it waits for waits for something else: a pulse, a reader's turn. */
		if (holder == step.thread)
			continue;
		if (x->marks[holder] == OPEN)
			take_circle(x, holder);
		else if (x->marks[holder] == NEW)
			push(x, holder);
	}
}

/* Marks all that wait for a marked one, until nothing changes. */
static uint32_t count_behind(const struct thread_snapshot *s, const struct circles *found, const struct circle *circle)
{
	uint32_t behind = 0;
	bool *marked = mem_zalloc(s->threads.n * sizeof(*marked)), more = true;
	for (uint32_t i = 0; i < circle->n; i++)
		marked[found->steps.v[circle->first + i].thread] = true;
	while (more) {
		more = false;
		for (uint32_t t = 0; t < s->threads.n; t++) {
			const struct wait_object *thing = marked[t] ? NULL : waits_in_the_end(s, t);
			for (uint32_t i = 0; thing && i < thing->n && !marked[t]; i++)
				marked[t] = marked[s->holders.v[thing->first + i]];
			behind += thing && marked[t];
			more |= thing && marked[t];
		}
	}
	mem_free(marked);
	return behind;
}

static int by_weight(const void *a, const void *b)
{
	const struct circle *x = a, *y = b;
	return CMP(x->guessed, y->guessed) ?: CMP(y->behind, x->behind) ?: CMP(x->first, y->first);
}

void circles_find(const struct thread_snapshot *s, struct circles *ret)
{
	struct cycle_search x = { .s = s, .found = ret };
	*ret = (struct circles){ 0 };
	x.marks = mem_zalloc(s->threads.n + 1);
	x.taken = mem_zalloc((s->threads.n + 1) * sizeof(*x.taken));
	for (uint32_t i = 0; i < s->threads.n; i++)
		if (x.marks[i] == NEW)
			search_from(&x, i);
	vec_each(c, &ret->v)
		c->behind = count_behind(s, ret, c);
	vec_sort(&ret->v, by_weight);
	mem_free(x.marks);
	mem_free(x.taken);
	vec_free(&x.path);
	vec_free(&x.next);
}

void circles_free(struct circles *c)
{
	vec_free(&c->v);
	vec_free(&c->steps);
}

static bool has_thread(const struct thread_snapshot *s, const struct circles *in, const struct circle *circle,
		       uint32_t managed_id)
{
	for (uint32_t i = 0; i < circle->n; i++)
		if (s->threads.v[in->steps.v[circle->first + i].thread].managed_id == managed_id)
			return true;
	return false;
}

bool circles_have(const struct thread_snapshot *s, const struct circles *in, const struct thread_snapshot *of,
		  const struct circles *from, const struct circle *circle)
{
	vec_each(c, &in->v) {
		bool same = c->n == circle->n;
		for (uint32_t i = 0; i < circle->n && same; i++) {
			const struct circle_step *step = &from->steps.v[circle->first + i];
			same = has_thread(s, in, c, of->threads.v[step->thread].managed_id);
		}
		if (same)
			return true;
	}
	return false;
}

uint32_t thing_waiting(const struct thread_snapshot *s, uint32_t thing)
{
	uint32_t n = 0;
	vec_each(t, &s->threads)
		n += t->waits_for == thing;
	return n;
}
