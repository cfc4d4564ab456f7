/* Finds the boxes of async methods in a heap and what each of them awaits. A box is the task of its method and holds
 * the state machine, whose awaiter fields refer to what is awaited. */

#include "base/str.h"
#include "eventpipe/methods.h"
#include "heap/walk.h"
#include "profilers/chains.h"
#include <stdlib.h>
#include <string.h>

#define BOXES_MAX 1000000u
#define CHAIN_MAX 60u
#define GROUPS_MAX 10000u
#define MARKS_EACH_MAX 100000u
#define NODES_MAX 1000000u
#define TASK_DONE 0x01600000 /* of Task.m_stateFlags: completed, faulted or cancelled */
#define NONE UINT32_MAX

struct box {
	uint64_t address, awaited; /* awaited: the object, 0 = none */
	uint32_t method;
	int32_t await;
	uint32_t inner;	 /* the box that it awaits; NONE = none */
	uint32_t inners; /* how many (WhenAll) */
	bool has_outer;	 /* somebody of ours awaits it */
};

struct finder {
	struct look *look;
	struct heap *heap;
	struct chains *c;
	VEC(struct box) boxes;
	VEC(uint8_t) kinds;	       /* by index of type: what it is to us */
	struct map_u64 box_at;	       /* address -> box + 1 */
	struct map_u64 by_promise;     /* a task that boxes continue into -> first such box + 1 */
	struct map_u64 promised;       /* -> how many */
	struct map_u64 method_index;   /* type -> method + 1 */
	struct map_u64 semaphore_of;   /* first node of its waiters -> semaphore */
	struct map_u64 semaphore_name; /* semaphore -> string + 1 */
	VEC(uint64_t) semaphores;
};

/* ---- types ---- */

enum { TYPE_NEW, TYPE_PLAIN, TYPE_BOX, TYPE_SEMAPHORE };

static uint8_t kind_of(struct finder *f, const struct heap_type *type)
{
	while (f->kinds.n <= type->index)
		vec_push(&f->kinds, TYPE_NEW);
	uint8_t *kind = &f->kinds.v[type->index];
	if (*kind == TYPE_NEW)
		*kind = type->kind != HEAP_OBJECT			       ? TYPE_PLAIN
			: strstr(type->name, "AsyncStateMachineBox`1[[")       ? TYPE_BOX
			: str_eq(type->name, "System.Threading.SemaphoreSlim") ? TYPE_SEMAPHORE
									       : TYPE_PLAIN;
	return *kind;
}

static uint32_t method_of(struct finder *f, const struct heap_type *machine)
{
	bool new;
	uint64_t *place = map_u64_put(&f->method_index, machine->address, &new);
	if (!new)
		return (uint32_t)*place;
	CLEANUP(buf_free) struct buf name = { 0 };
	method_show(machine->name, "MoveNext", &name);
	uint32_t index = (uint32_t)f->c->methods.n;
	vec_push(&f->c->methods,
		 ((struct chain_method){
			 .name = strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&name))),
			 .framework = method_is_framework(machine->name) }));
	*map_u64_put(&f->method_index, machine->address, NULL) = index;
	return index;
}

/* ---- one box ---- */

static bool is_pending(struct finder *f, uint64_t task)
{
	struct heap_value value;
	int64_t flags;
	return heap_object(f->heap, task, &value) && heap_get_int(f->heap, value, "m_stateFlags", &flags) &&
	       !(flags & TASK_DONE);
}

/* What an awaiter waits for: a task, or the source of a value task. */
static uint64_t awaited_by(struct finder *f, struct heap_value awaiter)
{
	uint64_t object = 0;
	struct heap_value inner;
	if (heap_get_ref(f->heap, awaiter, "m_task", &object) || heap_get_ref(f->heap, awaiter, "_obj", &object))
		return object;
	/* ConfiguredTaskAwaiter, ValueTaskAwaiter and its configured form keep another structure. */
	if (heap_get_struct(f->heap, awaiter, "m_task", &inner) || heap_get_struct(f->heap, awaiter, "_value", &inner))
		return awaited_by(f, inner);
	return 0;
}

static bool is_awaiter_field(const char *name)
{
	return strstr(name, ">u__") != NULL;
}

/* The awaiter fields of a state machine are set while it awaits; of several types only one is in use. */
static uint64_t awaited_in(struct finder *f, struct heap_value machine)
{
	struct heap_fields fields = heap_fields(f->heap, machine.type);
	for (size_t i = 0; i < fields.n; i++) {
		struct heap_value awaiter;
		if (fields.v[i].is_static || !is_awaiter_field(fields.v[i].name))
			continue;
		uint64_t object = 0;
		if (fields.v[i].element == HEAP_STRUCT && heap_get_struct(f->heap, machine, fields.v[i].name, &awaiter))
			object = awaited_by(f, awaiter);
		else if (heap_get_object(f->heap, machine, fields.v[i].name, &awaiter))
			object = awaited_by(f, (struct heap_value){ awaiter.type, awaiter.fields });
		int64_t flags;
		struct heap_value task;
		bool done = object && heap_object(f->heap, object, &task) &&
			    heap_get_int(f->heap, task, "m_stateFlags", &flags) && flags & TASK_DONE;
		if (object && !done)
			return object;
	}
	return 0;
}

static void add_box(struct finder *f, uint64_t address)
{
	struct heap_value value, machine;
	int64_t state = -1;
	uint64_t continuation;
	if (!heap_object(f->heap, address, &value) || !is_pending(f, address))
		return;
	/* A structure; in debug builds an object. */
	if (!heap_get_struct(f->heap, value, "StateMachine", &machine) &&
	    !heap_get_object(f->heap, value, "StateMachine", &machine))
		return;
	heap_get_int(f->heap, machine, "<>1__state", &state);
	if (state == -2)
		return;
	f->c->boxes++;
	if (f->boxes.n >= BOXES_MAX) {
		f->c->left_out++;
		return;
	}
	struct box box = { .address = address,
			   .method = method_of(f, machine.type),
			   .await = (int32_t)state,
			   .inner = NONE,
			   .awaited = state >= 0 ? awaited_in(f, machine) : 0 };
	f->c->methods.v[box.method].pending++;
	*map_u64_put(&f->box_at, address, NULL) = f->boxes.n + 1;
	/* Who goes on when it ends: for those that await several at once. */
	if (heap_get_ref(f->heap, value, "m_continuationObject", &continuation) && continuation) {
		bool new;
		uint64_t *first = map_u64_put(&f->by_promise, continuation, &new);
		if (new)
			*first = f->boxes.n + 1;
		++*map_u64_put(&f->promised, continuation, NULL);
	}
	vec_push(&f->boxes, box);
}

static void add_semaphore(struct finder *f, uint64_t address)
{
	struct heap_value value;
	uint64_t head;
	if (heap_object(f->heap, address, &value) && heap_get_ref(f->heap, value, "m_asyncHead", &head) && head) {
		*map_u64_put(&f->semaphore_of, head, NULL) = address;
		vec_push(&f->semaphores, address);
	}
}

static struct err *walk(struct finder *f)
{
	struct dac_heaps heaps = { 0 };
	struct dac_segments segments = { 0 };
	struct dac_threads threads = { 0 };
	struct heap_outline outline = { 0 };
	struct heap_found found;
	struct dac *dac = f->look->dac;
	struct err *err = dac_heaps(dac, &heaps);
	if (!err)
		err = dac_segments(dac, &segments);
	if (!err)
		err = dac_threads(dac, &threads);
	if (!err)
		err = heap_outline_make(heap_facts(f->heap), &heaps, &segments, &threads, &outline);
	if (!err) {
		CLEANUP(heap_walk_freep) struct heap_walk *w = heap_walk_new(f->heap, &outline);
		while (heap_walk_next(w, &found)) {
			uint8_t kind = kind_of(f, found.type);
			if (kind == TYPE_BOX)
				add_box(f, found.address);
			else if (kind == TYPE_SEMAPHORE)
				add_semaphore(f, found.address);
		}
		f->c->objects = heap_walk_health(w).objects;
		f->c->lost_bytes = heap_walk_health(w).lost_bytes;
		err = heap_walk_check(w);
	}
	heap_outline_free(&outline);
	dac_heaps_free(&heaps);
	dac_segments_free(&segments);
	dac_threads_free(&threads);
	return err;
}

/* ---- chains ---- */

static void link_boxes(struct finder *f)
{
	vec_each(b, &f->boxes) {
		const uint64_t *inner = b->awaited ? map_u64_get(&f->box_at, b->awaited) : NULL;
		b->inners = 1;
		if (!inner && b->awaited) {
			const uint64_t *n = map_u64_get(&f->promised, b->awaited);
			inner = map_u64_get(&f->by_promise, b->awaited);
			b->inners = n ? (uint32_t)*n : 1;
		}
		if (inner)
			b->inner = (uint32_t)(*inner - 1);
	}
	vec_each(b, &f->boxes) {
		uint64_t continuation;
		struct heap_value value;
		if (b->inner != NONE)
			f->boxes.v[b->inner].has_outer = true;
		/* One of several that an outer one awaits together. */
		if (!b->has_outer && heap_object(f->heap, b->address, &value) &&
		    heap_get_ref(f->heap, value, "m_continuationObject", &continuation) && continuation) {
			const struct heap_type *type = heap_type_of(f->heap, continuation);
			b->has_outer = type && (strstr(type->name, "WhenAllPromise") || kind_of(f, type) == TYPE_BOX);
		}
	}
}

static void name_semaphores(struct finder *f)
{
	struct heap_statics statics = { 0 };
	struct err *err = f->semaphores.n ? heap_statics(f->heap, NULL, &statics) : NULL;
	vec_each(s, &f->semaphores)
		map_u64_put(&f->semaphore_name, *s, NULL);
	vec_each(st, &statics) {
		uint64_t *place = map_u64_get(&f->semaphore_name, st->object);
		if (!place || *place)
			continue;
		CLEANUP(buf_free) struct buf name = { 0 };
		type_show(st->type->name, &name);
		buf_printf(&name, ".%s", st->field->name);
		*place = strtab_add_cstr(&f->c->strings, buf_cstr(&name)) + 1;
	}
	err_free(err);
	heap_statics_free(&statics);
}

/* The semaphore in whose queue a node stands, by its name; "" when that is not known. */
static const char *semaphore_of_node(struct finder *f, uint64_t node)
{
	struct heap_value value;
	for (size_t i = 0; i < NODES_MAX && node; i++) {
		const uint64_t *semaphore = map_u64_get(&f->semaphore_of, node);
		const uint64_t *name = semaphore ? map_u64_get(&f->semaphore_name, *semaphore) : NULL;
		if (semaphore)
			return name && *name ? strtab_get(&f->c->strings, (uint32_t)(*name - 1)) : "";
		if (!heap_object(f->heap, node, &value) || !heap_get_ref(f->heap, value, "Prev", &node))
			break;
	}
	return "";
}

static uint64_t timer_ms(struct finder *f, struct heap_value promise)
{
	struct heap_value timer;
	int64_t due = 0;
	if (heap_get_object(f->heap, promise, "_timer", &timer))
		heap_get_int(f->heap, timer, "_dueTime", &due);
	return due > 0 && due < UINT32_MAX ? (uint64_t)due : 0;
}

static void tell_awaited(struct finder *f, uint64_t object, struct chain *ret, struct buf *what)
{
	struct heap_value value;
	uint64_t action = 0;
	ret->awaits = AWAITS_OTHER;
	if (!object || !heap_object(f->heap, object, &value)) {
		ret->awaits = AWAITS_POOL;
		return;
	}
	const char *name = value.type->name;
	bool is_task =
		str_eq(name, "System.Threading.Tasks.Task") || str_starts(name, "System.Threading.Tasks.Task`1[");
	if (strstr(name, "DelayPromise")) {
		ret->awaits = AWAITS_TIMER;
		ret->longest_ms = timer_ms(f, value);
	} else if (str_starts(name, "System.Threading.SemaphoreSlim+")) {
		ret->awaits = AWAITS_SEMAPHORE;
		buf_str(what, semaphore_of_node(f, object));
	} else if (str_starts(name, "System.Threading.Channels.")) {
		ret->awaits = AWAITS_CHANNEL;
	} else if (str_starts(name, "System.Net.Sockets.")) {
		ret->awaits = AWAITS_SOCKET;
	} else if (is_task) {
		heap_get_ref(f->heap, value, "m_action", &action);
		ret->awaits = action ? AWAITS_WORK : AWAITS_SOURCE;
	} else {
		type_show(name, what);
	}
}

struct grouped {
	struct map_u64 by_hash; /* of its steps and end -> chain + 1 */
	VEC(uint32_t) of;	/* by top: chain */
	VEC(uint64_t) marks;	/* by top */
};

/* Steps of a chain from its outermost box, into f->c->steps. */
static uint32_t add_steps(struct finder *f, uint32_t top, uint32_t *ret_last, uint64_t *ret_mark)
{
	uint32_t n = 0, at = top;
	uint64_t mark = 0;
	for (; n < CHAIN_MAX && at != NONE; n++) {
		const struct box *b = &f->boxes.v[at];
		vec_push(&f->c->steps, ((struct chain_step){ b->method, b->await, 1 }));
		if (n)
			f->c->steps.v[f->c->steps.n - 1].times = f->boxes.v[*ret_last].inners;
		mark = hash_u64(mark ^ b->address) ^ hash_u64(b->awaited + (uint64_t)b->await);
		*ret_last = at;
		at = b->inner;
	}
	*ret_mark = mark;
	return n;
}

static void add_top(struct finder *f, struct grouped *g, uint32_t top)
{
	struct chain chain = { .first = (uint32_t)f->c->steps.n, .count = 1 };
	CLEANUP(buf_free) struct buf what = { 0 };
	uint64_t mark;
	uint32_t last = top;
	chain.n = add_steps(f, top, &last, &mark);
	tell_awaited(f, f->boxes.v[last].awaited, &chain, &what);
	chain.what = strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&what)));
	uint64_t hash = hash_bytes(&f->c->steps.v[chain.first], chain.n * sizeof(struct chain_step), chain.awaits);
	hash = hash_bytes(chain.what, strlen(chain.what), hash);
	bool new;
	uint64_t *place = map_u64_put(&g->by_hash, hash, &new);
	if (new && f->c->v.n < GROUPS_MAX) {
		*place = f->c->v.n;
		vec_push(&f->c->v, chain);
	} else {
		f->c->steps.n = chain.first;
		if (new)
			return;
		struct chain *same = &f->c->v.v[*place];
		same->count++;
		same->longest_ms = MAX(same->longest_ms, chain.longest_ms);
	}
	vec_push(&g->of, (uint32_t)*place);
	vec_push(&g->marks, mark);
}

/* Marks stand together by chain. */
static void place_marks(struct finder *f, const struct grouped *g)
{
	uint32_t at = 0;
	vec_each(chain, &f->c->v) {
		chain->marks_first = at;
		at += MIN(chain->count, MARKS_EACH_MAX);
	}
	for (uint32_t i = 0; i < at; i++)
		vec_push(&f->c->marks, 0);
	for (size_t i = 0; i < g->of.n; i++) {
		struct chain *chain = &f->c->v.v[g->of.v[i]];
		if (chain->marks_n < MIN(chain->count, MARKS_EACH_MAX))
			f->c->marks.v[chain->marks_first + chain->marks_n++] = g->marks.v[i];
	}
}

static int most_first(const void *a, const void *b)
{
	const struct chain *x = a, *y = b;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static void finder_fini(struct finder *f)
{
	heap_close(f->heap);
	vec_free(&f->boxes);
	vec_free(&f->kinds);
	vec_free(&f->semaphores);
	struct map_u64 *maps[] = { &f->box_at,	     &f->by_promise,   &f->promised,
				   &f->method_index, &f->semaphore_of, &f->semaphore_name };
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_u64_free(maps[i]);
}

struct err *chains_drain(void *user, struct look *look, struct buf *out)
{
	(void)user;
	CLEANUP(chains_freep) struct chains *c = chains_new();
	CLEANUP(finder_fini) struct finder f = { .look = look, .c = c };
	struct grouped g = { 0 };
	TRY(heap_open(look->image, look->dac, &f.heap));
	TRY(walk(&f));
	link_boxes(&f);
	name_semaphores(&f);
	for (uint32_t i = 0; i < f.boxes.n; i++)
		if (!f.boxes.v[i].has_outer)
			add_top(&f, &g, i);
	place_marks(&f, &g);
	vec_sort(&c->v, most_first);
	chains_write(c, out);
	map_u64_free(&g.by_hash);
	vec_free(&g.of);
	vec_free(&g.marks);
	return NULL;
}
