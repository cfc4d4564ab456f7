/* pool, timers, handles, finalizers, loader: queues and tables of the runtime. */

#include "base/clock.h"
#include "base/fmt.h"
#include "base/str.h"
#include "base/vec.h"
#include "inspect/internal.h"
#include "memory/delegates.h"
#include <string.h>

#define CORELIB "System.Private.CoreLib.dll"
#define SHOWN 60
#define SHOWN_NAME 160
#define SHOWN_KINDS 15
#define MAX_TIMERS 100000
#define MAX_QUEUES 4096
#define MAX_ITEMS 100000u

/* ---- the pool ---- */

/* Counts of items by their kind. */
struct queue_kind {
	const char *name;
	uint64_t n, first; /* first: one of them */
};
struct kinds {
	struct strtab names;
	VEC(struct queue_kind) v; /* by string */
};

static void kinds_free(struct kinds *k)
{
	strtab_free(&k->names);
	vec_free(&k->v);
}

static void count_kind(struct kinds *k, const struct buf *name, uint64_t object)
{
	uint32_t id = strtab_add(&k->names, name->len ? name->data : "?", name->len ? name->len : 1);
	if (id == k->v.n)
		vec_push(&k->v, ((struct queue_kind){ .first = object }));
	k->v.v[id].n++;
}

static int most_first(const void *a, const void *b)
{
	const struct queue_kind *x = a, *y = b;
	return CMP(y->n, x->n);
}

static void add_kinds(struct kinds *k, const char *title, const char *what, struct answer *a)
{
	if (!k->v.n)
		return;
	for (size_t i = 0; i < k->v.n; i++)
		k->v.v[i].name = strtab_get(&k->names, (uint32_t)i);
	vec_sort(&k->v, most_first);
	answer_table(a, title, "count", "one of them", what);
	for (size_t i = 0; i < k->v.n && i < SHOWN_KINDS; i++)
		ANSWER_ROW(a, C_COUNT(k->v.v[i].n), C_ADDRESS(k->v.v[i].first), C_TEXT(k->v.v[i].name));
	if (k->v.n > SHOWN_KINDS)
		answer_line(a, "%s more kinds", fmt_count(k->v.n - SHOWN_KINDS).s);
}

/* The method that a work item will call, else its type. */
static void count_item(struct inspect *in, uint64_t object, struct kinds *kinds)
{
	static const char *const callbacks[] = { "_callback", "m_action" };
	struct heap_value item, callback;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (!object || !heap_object(in->heap, object, &item))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(callbacks) && !name.len; i++)
		if (heap_field(in->heap, item.type, callbacks[i]) &&
		    heap_get_object(in->heap, item, callbacks[i], &callback))
			inspect_add_delegate(in, callback, &name);
	if (!name.len)
		inspect_add_type(in, item.type, &name);
	count_kind(kinds, &name, object);
}

/* Items of a ConcurrentQueue's segment: those between what was taken and what was put in. */
static uint64_t count_segment(struct inspect *in, struct heap_value segment, struct kinds *kinds)
{
	struct heap_value ends, slot;
	struct heap_array slots;
	int64_t head, tail;
	uint64_t object;
	if (!heap_get_struct(in->heap, segment, "_headAndTail", &ends) ||
	    !heap_get_int(in->heap, ends, "Head", &head) || !heap_get_int(in->heap, ends, "Tail", &tail) ||
	    !heap_get_ref(in->heap, segment, "_slots", &object) || !heap_array(in->heap, object, &slots) || !slots.n)
		return 0;
	int64_t n = (int32_t)((uint32_t)tail - (uint32_t)head);
	/* A segment that takes no more counts on from beyond its end. */
	if (n > (int64_t)slots.n)
		n -= (int64_t)slots.n * 2;
	for (int64_t i = 0; i < n && i < (int64_t)MAX_ITEMS; i++)
		if (heap_element_struct(in->heap, &slots, (uint32_t)(head + i) % slots.n, &slot) &&
		    heap_get_ref(in->heap, slot, "Item", &object))
			count_item(in, object, kinds);
	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t count_queue(struct inspect *in, struct heap_value queue, struct kinds *kinds)
{
	struct heap_value segment;
	uint64_t all = 0;
	if (!heap_get_object(in->heap, queue, "_head", &segment))
		return 0;
	for (size_t i = 0; i < MAX_QUEUES && all < MAX_ITEMS; i++) {
		all += count_segment(in, segment, kinds);
		if (!heap_get_object(in->heap, segment, "_nextSegment", &segment))
			break;
	}
	return all;
}

/* Each worker has a queue of its own, for what it queues itself. */
static uint64_t count_local(struct inspect *in, struct kinds *kinds)
{
	const struct heap_type *type = NULL;
	struct heap_array queues, items;
	struct heap_value queue;
	uint64_t object, all = 0;
	err_ignore(
		heap_find_type(in->heap, CORELIB, "System.Threading.ThreadPoolWorkQueue+WorkStealingQueueList", &type));
	if (!type ||
	    (!heap_static_ref(in->heap, 0, type, "s_queues", &object) &&
	     !heap_static_ref(in->heap, 0, type, "_queues", &object)) ||
	    !heap_array(in->heap, object, &queues))
		return 0;
	for (uint32_t i = 0; i < MIN(queues.n, (uint32_t)MAX_QUEUES); i++) {
		int64_t head = 0, tail = 0;
		if (!heap_element_ref(in->heap, &queues, i, &object) || !heap_object(in->heap, object, &queue) ||
		    !heap_get_int(in->heap, queue, "m_headIndex", &head) ||
		    !heap_get_int(in->heap, queue, "m_tailIndex", &tail) ||
		    !heap_get_ref(in->heap, queue, "m_array", &object) || !heap_array(in->heap, object, &items) ||
		    !items.n)
			continue;
		for (int64_t k = head; k < tail && k - head < (int64_t)items.n; k++)
			if (heap_element_ref(in->heap, &items, (uint32_t)k % items.n, &object) && object) {
				count_item(in, object, kinds);
				all++;
			}
	}
	return all;
}

struct err *inspect_pool(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_type *type, *queue_type;
	struct heap_value pool, separated, counts, queue, items;
	struct heap *heap;
	CLEANUP(kinds_free) struct kinds kinds = { 0 };
	int64_t min = 0, max = 0, data = 0;
	(void)words, (void)n;
	TRY(inspect_heap(in, &heap));
	TRY(heap_find_type(heap, CORELIB, "System.Threading.PortableThreadPool", &type));
	TRY(heap_find_type(heap, CORELIB, "System.Threading.ThreadPool", &queue_type));
	if (!type || !heap_static_object(heap, 0, type, "ThreadPoolInstance", &pool))
		return err_new(ERR_NOT_FOUND, "the thread pool has not been used, or is not in this image");
	answer_table(a, NULL, "fact", "value");
	if (heap_get_int(heap, pool, "_minThreads", &min) && heap_get_int(heap, pool, "_maxThreads", &max)) {
		ANSWER_ROW(a, C_TEXT("least threads"), C_COUNT((uint64_t)min));
		ANSWER_ROW(a, C_TEXT("most threads"), C_COUNT((uint64_t)max));
	}
	if (heap_get_struct(heap, pool, "_separated", &separated) &&
	    heap_get_struct(heap, separated, "counts", &counts) && heap_get_int(heap, counts, "_data", &data)) {
		ANSWER_ROW(a, C_TEXT("threads at work"), C_COUNT((uint64_t)data & 0xffff));
		ANSWER_ROW(a, C_TEXT("threads there are"), C_COUNT((uint64_t)data >> 16 & 0xffff));
		ANSWER_ROW(a, C_TEXT("threads it aims at"), C_COUNT((uint64_t)data >> 32 & 0xffff));
	}
	if (queue_type && heap_static_object(heap, 0, queue_type, "s_workQueue", &queue) &&
	    heap_get_object(heap, queue, "workItems", &items))
		ANSWER_ROW(a, C_TEXT("items in the global queue"), C_COUNT(count_queue(in, items, &kinds)));
	ANSWER_ROW(a, C_TEXT("items in the workers' own queues"), C_COUNT(count_local(in, &kinds)));
	add_kinds(&kinds, "Work that waits", "calls", a);
	return NULL;
}

/* ---- timers ---- */

void inspect_add_delegate(struct inspect *in, struct heap_value d, struct buf *out)
{
	struct heap_value target;
	CLEANUP(buf_free) struct buf name = { 0 };
	if (delegate_show(in->heap, in->look.dac, in->look.image, d, &name)) {
		str_add_visible(out, buf_cstr(&name), name.len, SHOWN_NAME);
	} else if (heap_get_object(in->heap, d, "_target", &target)) {
		buf_str(out, "a method of ");
		inspect_add_type(in, target.type, out);
	}
}

static void add_timer(struct inspect *in, struct heap_value timer, struct answer *a)
{
	struct heap_value callback;
	CLEANUP(buf_free) struct buf what = { 0 };
	int64_t due = -1, period = -1;
	(void)heap_get_int(in->heap, timer, "_dueTime", &due);
	(void)heap_get_int(in->heap, timer, "_period", &period);
	if (heap_get_object(in->heap, timer, "_timerCallback", &callback))
		inspect_add_delegate(in, callback, &what);
	bool again = period > 0 && period != UINT32_MAX;
	ANSWER_ROW(a, C_TEXT(fmt_duration_ns((uint64_t)(uint32_t)due * NS_PER_MS).s),
		   again ? C_TEXT(fmt_duration_ns((uint64_t)(uint32_t)period * NS_PER_MS).s) : C_NONE,
		   C_ADDRESS(timer.fields - 8), C_TEXT(buf_cstr(&what)));
}

struct err *inspect_timers(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_type *type;
	struct heap *heap;
	uint64_t object, all = 0;
	struct heap_array queues;
	static const char *const lists[] = { "_shortTimers", "_longTimers" };
	(void)words, (void)n;
	TRY(inspect_heap(in, &heap));
	TRY(heap_find_type(heap, CORELIB, "System.Threading.TimerQueue", &type));
	answer_table(a, NULL, "due after", "every", "timer", "calls");
	bool there = type && (heap_static_ref(heap, 0, type, "<Instances>k__BackingField", &object) ||
			      heap_static_ref(heap, 0, type, "s_instances", &object));
	if (there && heap_array(heap, object, &queues))
		for (uint32_t i = 0; i < MIN(queues.n, (uint32_t)MAX_QUEUES); i++) {
			uint64_t queue;
			struct heap_value q, timer;
			if (!heap_element_ref(heap, &queues, i, &queue) || !heap_object(heap, queue, &q))
				continue;
			for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
				for (bool more = heap_get_object(heap, q, lists[k], &timer); more && all < MAX_TIMERS;
				     more = heap_get_object(heap, timer, "_next", &timer))
					if (all++ < SHOWN)
						add_timer(in, timer, a);
		}
	answer_line(a, "%s; due counts from when it was set", fmt_plural(all, "timer", "timers").s);
	return NULL;
}

/* ---- handles ---- */

static const char *const handle_kinds[] = { "weak",	   "weak-long", "strong",	"pinned", "variable",
					    "ref-counted", "dependent", "async-pinned", "sized",  "weak-native" };

struct err *inspect_handles(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	struct dac_handles handles = { 0 };
	struct heap *heap;
	uint64_t counts[ARRAY_SIZE(handle_kinds)] = { 0 };
	size_t wanted = ARRAY_SIZE(handle_kinds), shown = 0;
	for (size_t i = 0; n && i < ARRAY_SIZE(handle_kinds); i++)
		if (str_eq(words[0], handle_kinds[i]))
			wanted = i;
	if (n && wanted == ARRAY_SIZE(handle_kinds))
		return err_new(
			ERR_USAGE,
			"handles are weak, weak-long, strong, pinned, ref-counted, dependent, async-pinned, sized");
	TRY(inspect_heap(in, &heap));
	TRY(dac_handles(in->look.dac, &handles));
	if (n)
		answer_table(a, NULL, "handle", "object");
	vec_each(h, &handles) {
		if (h->type < ARRAY_SIZE(handle_kinds))
			counts[h->type]++;
		if (h->type != wanted || shown++ >= SHOWN)
			continue;
		CLEANUP(buf_free) struct buf what = { 0 };
		inspect_add_ref(in, h->object, &what);
		if (h->secondary) {
			buf_str(&what, " → ");
			inspect_add_ref(in, h->secondary, &what);
		}
		ANSWER_ROW(a, C_ADDRESS(h->handle), C_TEXT(buf_cstr(&what)));
	}
	if (n && shown > SHOWN)
		answer_line(a, "%s more", fmt_count(shown - SHOWN).s);
	if (!n) {
		answer_table(a, NULL, "handles", "kind");
		for (size_t i = 0; i < ARRAY_SIZE(handle_kinds); i++)
			if (counts[i])
				ANSWER_ROW(a, C_COUNT(counts[i]), C_TEXT(handle_kinds[i]));
	}
	dac_handles_free(&handles);
	return NULL;
}

/* ---- finalizers ---- */

static void count_objects(struct inspect *in, uint64_t start, uint64_t end, struct kinds *kinds)
{
	for (uint64_t at = start; at + 8 <= end && (at - start) / 8 < 1000000; at += 8) {
		CLEANUP(buf_free) struct buf name = { 0 };
		uint64_t object;
		const struct heap_type *type = NULL;
		if (heap_read_u64(in->heap, at, &object) && object)
			type = heap_type_of(in->heap, object & ~(uint64_t)7);
		if (!type)
			continue;
		inspect_add_type(in, type, &name);
		count_kind(kinds, &name, object & ~(uint64_t)7);
	}
}

#define FILL_READY 4 /* of a heap's fill pointers: before it lie those that are still in use */

struct err *inspect_finalizers(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *o;
	struct dac_heaps heaps = { 0 };
	struct heap *heap;
	CLEANUP(kinds_free) struct kinds ready = { 0 }, used = { 0 };
	uint64_t all = 0;
	(void)words, (void)n;
	TRY(inspect_outline(in, &o));
	TRY(inspect_heap(in, &heap));
	TRY(dac_heaps(in->look.dac, &heaps));
	vec_each(h, &heaps)
		if (h->n_fill_pointers > FILL_READY)
			count_objects(in, h->fill_pointers[0], h->fill_pointers[FILL_READY], &used);
	dac_heaps_free(&heaps);
	vec_each(r, &o->ready)
		count_objects(in, r->start, r->start + r->size, &ready);
	vec_each(k, &ready.v)
		all += k->n;
	add_kinds(&ready, "Ready for their finalizer", "type", a);
	add_kinds(&used, "In use, with a finalizer", "type", a);
	answer_line(a, "%s for the finalizer thread; %s a finalizer", fmt_plural(all, "object waits", "objects wait").s,
		    fmt_plural(o->n_finalizable, "object has", "objects have").s);
	return NULL;
}

/* ---- loader ---- */

struct loader_row {
	const char *name;
	uint64_t bytes, blocks;
};

static int biggest_first(const void *a, const void *b)
{
	const struct loader_row *x = a, *y = b;
	return CMP(y->bytes, x->bytes);
}

VEC_TYPE(loader_rows, struct loader_row);

/* Names are interned by the dac: the same name is the same pointer. */
static struct err *add_loader(struct inspect *in, uint64_t allocator, struct loader_rows *rows)
{
	struct dac_named_heaps heaps = { 0 };
	TRY(dac_named_heaps(in->look.dac, allocator, &heaps));
	vec_each(h, &heaps) {
		struct loader_row *row = NULL;
		vec_each(r, rows)
			if (r->name == h->name)
				row = r;
		if (!row) {
			vec_push(rows, ((struct loader_row){ .name = h->name }));
			row = &rows->v[rows->n - 1];
		}
		row->bytes += h->bytes;
		row->blocks += h->blocks;
	}
	dac_named_heaps_free(&heaps);
	return NULL;
}

/* Assemblies that can be unloaded have one each; all others share one. */
struct err *inspect_loader(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_modules *modules;
	struct map_u64 seen = { 0 };
	struct loader_rows rows = { 0 };
	uint64_t bytes = 0;
	(void)words, (void)n;
	TRY(dac_modules(in->look.dac, &modules));
	struct err *err = add_loader(in, 0, &rows);
	vec_each(m, modules) {
		bool new = false;
		if (m->loader_allocator)
			map_u64_put(&seen, m->loader_allocator, &new);
		if (new && !err)
			err = add_loader(in, m->loader_allocator, &rows);
	}
	if (!err && !rows.n)
		err = err_new(ERR_NOT_FOUND, "the loader's memory is not in this image");
	if (!err)
		answer_table(a, NULL, "bytes", "blocks", "for");
	vec_sort(&rows, biggest_first);
	for (size_t i = 0; !err && i < rows.n; i++) {
		const struct loader_row *r = &rows.v[i];
		bytes += r->bytes;
		ANSWER_ROW(a, C_BYTES(r->bytes), C_COUNT(r->blocks), C_TEXT(r->name));
	}
	if (!err)
		answer_line(a, "%s of memory for types, stubs and code; %s, %s", fmt_bytes(bytes).s,
			    fmt_plural(modules->n, "assembly", "assemblies").s,
			    fmt_plural(seen.n, "loader allocator", "loader allocators").s);
	vec_free(&rows);
	map_u64_free(&seen);
	return err;
}
