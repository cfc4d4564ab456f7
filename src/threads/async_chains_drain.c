/* Finds the boxes of async methods in a heap and what each of them awaits. A box is the task of its method and holds
 * the state machine, whose awaiter fields refer to what is awaited. */

#include "base/str.h"
#include "eventpipe/methods.h"
#include "threads/async_chains_find.h"
#include <stdlib.h>
#include <string.h>

#define BOXES_MAX 1000000u
#define CHAIN_MAX 60u
#define GROUPS_MAX 10000u
#define MARKS_EACH_MAX 100000u
#define NODES_MAX 1000000u
#define LIST_MAX 100000u
#define CONTENTS_MAX 100000u /* boxes whose arguments and locals are read: that takes longer than the rest */
#define PARENTS_MAX 16

/* ---- types ---- */

enum { TYPE_NEW, TYPE_PLAIN, TYPE_BOX, TYPE_POOLED_BOX, TYPE_SEMAPHORE, TYPE_TASK, TYPE_SOURCE, TYPE_ENDPOINT };

/* Is it that type or derived from it? Generic ones go on with their number of parameters. */
static bool is_a(struct finder *f, const struct heap_type *type, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; type && i < PARENTS_MAX; i++) {
		if (!strncmp(type->name, name, len) && (!type->name[len] || type->name[len] == '`'))
			return true;
		type = type->parent ? heap_type(f->heap, type->parent) : NULL;
	}
	return false;
}

static uint8_t kind_of(struct finder *f, const struct heap_type *type)
{
	while (f->kinds.n <= type->index)
		vec_push(&f->kinds, TYPE_NEW);
	if (f->kinds.v[type->index] != TYPE_NEW)
		return f->kinds.v[type->index];
	uint8_t kind = type->kind != HEAP_OBJECT				      ? TYPE_PLAIN
		       : strstr(type->name, "AsyncStateMachineBox`1[[")		      ? TYPE_BOX
		       : strstr(type->name, "+StateMachineBox`1[[")		      ? TYPE_POOLED_BOX
		       : str_eq(type->name, "System.Threading.SemaphoreSlim")	      ? TYPE_SEMAPHORE
		       : endpoints_is_type(type)				      ? TYPE_ENDPOINT
		       : is_a(f, type, "System.Threading.Tasks.TaskCompletionSource") ? TYPE_SOURCE
		       : is_a(f, type, "System.Threading.Tasks.Task")		      ? TYPE_TASK
										      : TYPE_PLAIN;
	/* Asking for parents may have made the list longer. */
	f->kinds.v[type->index] = kind;
	return kind;
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
		 ((struct async_chain_method){
			 .name = strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&name))),
			 .framework = method_is_framework(f->look->whose, machine->name) }));
	vec_push(&f->machines, machine);
	*map_u64_put(&f->method_index, machine->address, NULL) = index;
	return index;
}

/* ---- one box ---- */

static bool is_pending(struct finder *f, struct heap_value task)
{
	int64_t flags;
	return heap_get_int(f->heap, task, "m_stateFlags", &flags) && !(flags & TASK_DONE);
}

/* What continues when a task ends, which may be several: for boxes that await through another task. A box is preferred
 * over a task whose code is not known. */
static void add_continuation(struct finder *f, uint64_t continuation, uint64_t task, size_t box)
{
	bool new;
	if (!continuation)
		return;
	++*map_u64_put(&f->promised, continuation, NULL);
	uint64_t *first = map_u64_put(box ? &f->by_promise : &f->leaf_of, continuation, &new);
	if (new)
		*first = box ? box : task;
}

static void add_continuations(struct finder *f, struct heap_value value, uint64_t task, size_t box)
{
	struct heap_value list;
	struct heap_array items;
	uint64_t continuation = 0, object;
	heap_get_ref(f->heap, value, "m_continuationObject", &continuation);
	add_continuation(f, continuation, task, box);
	if (!continuation || !heap_object(f->heap, continuation, &list) ||
	    !str_starts(list.type->name, "System.Collections.Generic.List`1[") ||
	    !heap_get_ref(f->heap, list, "_items", &object) || !heap_array(f->heap, object, &items))
		return;
	for (uint32_t i = 0; i < MIN(items.n, LIST_MAX); i++)
		if (heap_element_ref(f->heap, &items, i, &object))
			add_continuation(f, object, task, box);
}

static void keep_box(struct finder *f, struct heap_value value, const struct box *box)
{
	f->c->methods.v[box->method].pending++;
	vec_push(&f->boxes, *box);
	*map_u64_put(&f->box_at, box->address, NULL) = f->boxes.n;
	if (box->machine)
		*map_u64_put(&f->box_at, box->machine, NULL) = f->boxes.n;
	add_continuations(f, value, box->address, f->boxes.n);
}

static void add_box(struct finder *f, uint64_t address, bool pooled)
{
	struct heap_value value, machine;
	int64_t state = -1;
	uint64_t object = 0;
	if (!heap_object(f->heap, address, &value) || (!pooled && !is_pending(f, value)))
		return;
	if (!async_chains_machine(f, value, &machine, &object))
		return;
	heap_get_int(f->heap, machine, "<>1__state", &state);
	uint64_t awaited = state >= 0 ? awaited_by_machine(f->heap, machine) : 0;
	/* Pooled ones that rest look like one that has begun. */
	if (state == -2 || (pooled && !awaited))
		return;
	f->c->boxes++;
	if (f->boxes.n >= BOXES_MAX) {
		f->c->left_out++;
		return;
	}
	struct box box = { .address = address,
			   .method = method_of(f, machine.type),
			   .await = (int32_t)state,
			   .inner = ASYNC_CHAINS_NONE,
			   .machine = object,
			   .awaited = awaited };
	heap_get_ref(f->heap, value, "m_continuationObject", &box.continuation);
	keep_box(f, value, &box);
}

static void add_task(struct finder *f, uint64_t address)
{
	struct heap_value value;
	if (heap_object(f->heap, address, &value) && is_pending(f, value))
		add_continuations(f, value, address, 0);
}

static void add_source(struct finder *f, uint64_t address)
{
	struct heap_value value;
	uint64_t task;
	if (heap_object(f->heap, address, &value) && heap_get_ref(f->heap, value, "_task", &task) && task)
		*map_u64_put(&f->source_of, task, NULL) = address;
}

static void add_semaphore(struct finder *f, uint64_t address)
{
	struct heap_value value;
	uint64_t node = 0;
	if (heap_object(f->heap, address, &value))
		heap_get_ref(f->heap, value, "m_asyncHead", &node);
	for (size_t i = 0; i < NODES_MAX && node; i++) {
		bool new;
		uint64_t *place = map_u64_put(&f->semaphore_of, node, &new);
		if (!new || !heap_object(f->heap, node, &value))
			break;
		*place = address;
		if (!heap_get_ref(f->heap, value, "Next", &node))
			break;
	}
}

static void take(struct finder *f, const struct heap_found *found)
{
	switch (kind_of(f, found->type)) {
	case TYPE_BOX:
		add_box(f, found->address, false);
		break;
	case TYPE_POOLED_BOX:
		add_box(f, found->address, true);
		break;
	case TYPE_SEMAPHORE:
		add_semaphore(f, found->address);
		break;
	case TYPE_SOURCE:
		add_source(f, found->address);
		break;
	case TYPE_TASK:
		add_task(f, found->address);
		break;
	case TYPE_ENDPOINT:
		endpoints_add(f->endpoints, found->address);
		break;
	default:
		break;
	}
}

static struct err *walk(struct finder *f)
{
	struct heap_found found;
	TRY(heap_outline_of(f->heap, f->look->dac, &f->outline));
	CLEANUP(heap_walk_freep) struct heap_walk *w = heap_walk_new(f->heap, &f->outline);
	while (heap_walk_next(w, &found))
		take(f, &found);
	f->c->objects = heap_walk_health(w).objects;
	f->c->lost_bytes = heap_walk_health(w).lost_bytes;
	return heap_walk_check(w);
}

/* ---- chains ---- */

struct grouped {
	struct map_u64 by_hash; /* of its steps and end -> chain + 1 */
	VEC(uint32_t) of;	/* by top: chain */
	VEC(uint64_t) marks;	/* by top */
	VEC(struct async_identity) same;
	struct map_u64 contents; /* -> how many tops have it */
};

/* Steps of a chain from its outermost box, into f->c->steps. */
static uint32_t add_steps(struct finder *f, uint32_t top, uint32_t *ret_last, uint64_t *ret_mark,
			  struct async_identity *ret_same)
{
	uint32_t n = 0, at = top;
	uint64_t mark = 0, place = 0, content = 0;
	bool says = false;
	for (; n < CHAIN_MAX && at != ASYNC_CHAINS_NONE; n++) {
		const struct box *b = &f->boxes.v[at];
		struct async_chain_step step = { .method = b->method, .await = b->await, .times = 1 };
		if (n) {
			step.times = f->boxes.v[*ret_last].inners;
			step.any = f->boxes.v[*ret_last].any;
		}
		vec_push(&f->c->steps, step);
		mark = hash_u64(mark ^ b->address) ^ hash_u64(b->awaited + (uint64_t)b->await);
		place = hash_u64(place ^ b->address);
		content = hash_u64(content ^ f->machines.v[b->method]->address) + (uint64_t)b->await;
		says |= f->read++ < CONTENTS_MAX && async_chains_content(f, b, &content);
		*ret_last = at;
		at = b->inner;
	}
	*ret_mark = mark;
	*ret_same = (struct async_identity){ .content = says ? content : 0, .place = place };
	return n;
}

static uint64_t step_hash(const struct async_chain_step *step, uint64_t seed)
{
	const uint32_t key[] = { step->method, (uint32_t)step->await, step->times, step->any };
	return hash_bytes(key, sizeof(key), seed);
}

/* The generation of an object + 1: one in an older generation has existed longer. */
static uint32_t age_of(const struct finder *f, uint64_t object)
{
	const struct heap_region *region = heap_region_at(&f->outline, object);
	return region && region->generation <= HEAP_GEN2 ? region->generation + 1u : 0;
}

static void add_top(struct finder *f, struct grouped *g, uint32_t top)
{
	struct async_chain chain = { .first = (uint32_t)f->c->steps.n,
				     .count = 1,
				     .age = age_of(f, f->boxes.v[top].address) };
	CLEANUP(buf_free) struct buf what = { 0 };
	struct async_identity same_as;
	uint64_t mark;
	uint32_t last = top;
	chain.n = add_steps(f, top, &last, &mark, &same_as);
	same_as.old = f->boxes.v[last].awaited && age_of(f, f->boxes.v[last].awaited) > HEAP_GEN2;
	async_chains_tell(f, &f->boxes.v[last], &chain, &what);
	chain.what = strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&what)));
	uint64_t hash = hash_bytes(chain.what, strlen(chain.what), chain.awaits);
	/* How the platform came to call it differs from request to request. */
	for (uint32_t i = async_chain_start(f->c, &chain); i < chain.n; i++)
		hash = step_hash(&f->c->steps.v[chain.first + i], hash);
	bool new;
	uint64_t *place = map_u64_put(&g->by_hash, hash, &new);
	if (new && f->c->v.n < GROUPS_MAX) {
		*place = f->c->v.n;
		vec_push(&f->c->v, chain);
	} else {
		f->c->steps.n = chain.first;
		if (new)
			return;
		struct async_chain *same = &f->c->v.v[*place];
		same->count++;
		same->age = MAX(same->age, chain.age);
		same->longest_ms = MAX(same->longest_ms, chain.longest_ms);
		same->due_ms = MIN(same->due_ms, chain.due_ms);
	}
	vec_push(&g->of, (uint32_t)*place);
	vec_push(&g->marks, mark);
	vec_push(&g->same, same_as);
	++*map_u64_put(&g->contents, same_as.content, NULL);
}

/* Marks stand together by chain. */
static void place_marks(struct finder *f, const struct grouped *g)
{
	uint32_t at = 0;
	vec_each(chain, &f->c->v) {
		chain->marks_first = at;
		at += MIN(chain->count, MARKS_EACH_MAX);
	}
	for (uint32_t i = 0; i < at; i++) {
		vec_push(&f->c->marks, 0);
		vec_push(&f->c->same, (struct async_identity){ 0 });
	}
	for (size_t i = 0; i < g->of.n; i++) {
		struct async_chain *chain = &f->c->v.v[g->of.v[i]];
		struct async_identity same = g->same.v[i];
		if (chain->marks_n >= MIN(chain->count, MARKS_EACH_MAX))
			continue;
		if (*map_u64_get(&g->contents, same.content) > 1)
			same.content = 0;
		f->c->same.v[chain->marks_first + chain->marks_n] = same;
		f->c->marks.v[chain->marks_first + chain->marks_n++] = g->marks.v[i];
	}
}

static int most_first(const void *a, const void *b)
{
	const struct async_chain *x = a, *y = b;
	return CMP(y->count, x->count) ?: CMP(x->first, y->first);
}

/* ---- lines ---- */

static uint32_t move_next_of(struct finder *f, const struct heap_type *machine)
{
	struct dac_type_methods methods = { 0 };
	uint32_t token = 0;
	err_ignore(dac_type_methods(f->look->dac, machine->address, &methods));
	vec_each(m, &methods)
		token = !token && str_eq(m->name, "MoveNext") ? m->token : token;
	dac_type_methods_free(&methods);
	return token;
}

/* The await's number is known, the PDB knows where in MoveNext that one stands. */
static const char *line_of(struct finder *f, const struct async_chain_step *step)
{
	const struct heap_type *machine = f->machines.v[step->method];
	CLEANUP(buf_free) struct buf text = { 0 };
	struct pdb_line line;
	struct pdb *pdb = step->await >= 0 ? dac_lines_pdb(f->look->lines, machine->module) : NULL;
	if (pdb && pdb_await(pdb, move_next_of(f, machine), (uint32_t)step->await, &line))
		dac_line_add(&text, &line);
	return strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&text)));
}

static void add_lines(struct finder *f)
{
	struct map_u64 known = { 0 }; /* method and await -> text */
	const struct dac_modules *modules;
	err_ignore(dac_modules(f->look->dac, &modules));
	vec_each(step, &f->c->steps) {
		bool new;
		uint64_t *place = map_u64_put(&known, (uint64_t)step->method << 32 | (uint32_t)step->await, &new);
		if (new)
			*place = (uint64_t)(uintptr_t)line_of(f, step);
		step->line = (const char *)(uintptr_t)*place;
	}
	map_u64_free(&known);
}

/* ---- names ---- */

/* Nobody can await it or see it fail. */
static bool is_async_void(struct finder *f, const struct heap_type *machine)
{
	const struct heap_field *builder = heap_field(f->heap, machine, "<>t__builder");
	const struct heap_type *type = builder ? heap_type(f->heap, builder->type) : NULL;
	return type && str_eq(type->name, "System.Runtime.CompilerServices.AsyncVoidMethodBuilder");
}

/* What was found by its name alone is known better now: requests that it handles, and where a lambda stands. */
static void place_method(struct finder *f, uint32_t index)
{
	struct async_chain_method *method = &f->c->methods.v[index];
	const struct heap_type *machine = f->machines.v[index];
	struct method_origin place = { .route = endpoints_route_named(f->endpoints, machine->name, "MoveNext") };
	CLEANUP(buf_free) struct buf line = { 0 }, name = { 0 };
	struct pdb_line at;
	struct pdb *pdb = !method->framework && method_is_lambda(machine->name, "MoveNext")
				  ? dac_lines_pdb(f->look->lines, machine->module)
				  : NULL;
	if (pdb && pdb_line(pdb, move_next_of(f, machine), 0, &at)) {
		dac_line_add(&line, &at);
		place.line = buf_cstr(&line);
	}
	bool is_void = !method->framework && is_async_void(f, machine);
	if (!place.route && !place.line && !is_void)
		return;
	method_show_at(machine->name, "MoveNext", &place, &name);
	if (is_void)
		buf_str(&name, " (async void)");
	method->name = strtab_get(&f->c->strings, strtab_add_cstr(&f->c->strings, buf_cstr(&name)));
}

static void finder_fini(struct finder *f)
{
	endpoints_free(f->endpoints);
	heap_statics_free(&f->statics);
	heap_outline_free(&f->outline);
	heap_close(f->heap);
	vec_free(&f->boxes);
	vec_free(&f->kinds);
	vec_free(&f->machines);
	struct map_u64 *maps[] = { &f->box_at,	     &f->by_promise,   &f->promised, &f->leaf_of, &f->source_of,
				   &f->method_index, &f->semaphore_of, &f->known,    &f->calls,	  &f->lost };
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_u64_free(maps[i]);
}

static struct err *drain(struct image_exam *look, bool names, struct buf *out)
{
	CLEANUP(async_chains_freep) struct async_chains *c = async_chains_new();
	CLEANUP(finder_fini) struct finder f = { .look = look, .c = c };
	struct grouped g = { 0 };
	TRY(heap_open(look->image, look->dac, &f.heap));
	f.endpoints = endpoints_new(look, f.heap);
	TRY(walk(&f));
	async_chains_link(&f);
	if (f.boxes.n && names) {
		err_ignore(heap_statics(f.heap, NULL, &f.statics));
		async_chains_name(&f);
	}
	endpoints_settle(f.endpoints);
	for (uint32_t i = 0; names && i < c->methods.n; i++)
		place_method(&f, i);
	for (uint32_t i = 0; i < f.boxes.n; i++)
		if (!f.boxes.v[i].has_outer)
			add_top(&f, &g, i);
	place_marks(&f, &g);
	if (names)
		add_lines(&f);
	vec_sort(&c->v, most_first);
	async_chains_write(c, out);
	map_u64_free(&g.by_hash);
	vec_free(&g.of);
	vec_free(&g.marks);
	vec_free(&g.same);
	map_u64_free(&g.contents);
	return NULL;
}

struct err *async_chains_drain(void *user, struct image_exam *look, struct buf *out)
{
	(void)user;
	return drain(look, true, out);
}

struct err *async_chains_drain_brief(void *user, struct image_exam *look, struct buf *out)
{
	(void)user;
	return drain(look, look->facts.core, out);
}
