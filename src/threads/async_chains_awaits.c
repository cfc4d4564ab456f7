/* What async methods await: other boxes, through tasks that only forward the completion of others (WhenAll, WhenAny,
 * Unwrap, WaitAsync, ContinueWith); else the object itself, and the name by which the application knows it. */

#include "base/clock.h"
#include "base/str.h"
#include "eventpipe/methods.h"
#include "threads/async_chains_find.h"
#include "memory/delegates.h"
#include "memory/object_names.h"
#include <string.h>

#define PASS_MAX 8
#define TARGETS_MAX 200000u
#define TASK_BEGUN 0x00020000 /* its delegate was called */

/* ---- links ---- */

static bool is_any(const char *type)
{
	return strstr(type, "WhenAny") || strstr(type, "CompleteOnInvokePromise");
}

/* The task that another one passes on; 0 = none that is known. */
static uint64_t passed_on(struct finder *f, uint64_t object, struct box *b)
{
	struct heap_value value;
	uint64_t task = 0;
	const uint64_t *leaf = map_u64_get(&f->leaf_of, object);
	if (leaf) {
		const uint64_t *n = map_u64_get(&f->promised, object);
		b->inners = n ? (uint32_t)*n : 1;
		return *leaf;
	}
	if (!heap_object(f->heap, object, &value))
		return 0;
	/* Task.WaitAsync; ValueTask.AsTask; Task.ContinueWith. */
	if (strstr(value.type->name, "CancellationPromise"))
		heap_get_ref(f->heap, value, "_task", &task);
	else if (strstr(value.type->name, "ValueTaskSourceAsTask"))
		heap_get_ref(f->heap, value, "_source", &task);
	else if (strstr(value.type->name, "Continuation"))
		heap_get_ref(f->heap, value, "m_antecedent", &task);
	return task;
}

static void link_box(struct finder *f, struct map_u64 *awaited, struct box *b)
{
	uint64_t object = b->awaited;
	b->inner = ASYNC_CHAINS_NONE;
	b->inners = 1;
	for (size_t i = 0; i < PASS_MAX && object; i++) {
		const struct heap_type *type = heap_type_of(f->heap, object);
		const uint64_t *box = map_u64_get(&f->box_at, object);
		map_u64_put(awaited, object, NULL);
		b->any |= type && is_any(type->name);
		b->end = object;
		if (!box && (box = map_u64_get(&f->by_promise, object))) {
			const uint64_t *n = map_u64_get(&f->promised, object);
			b->inners = n ? (uint32_t)*n : 1;
		}
		if (box) {
			b->inner = (uint32_t)(*box - 1);
			return;
		}
		object = passed_on(f, object, b);
	}
}

void async_chains_link(struct finder *f)
{
	struct map_u64 awaited = { 0 };
	vec_each(b, &f->boxes)
		link_box(f, &awaited, b);
	vec_each(b, &f->boxes) {
		if (b->inner != ASYNC_CHAINS_NONE)
			f->boxes.v[b->inner].has_outer = true;
		/* One of several that an outer one awaits together. */
		b->has_outer |= b->continuation && map_u64_get(&awaited, b->continuation);
	}
	map_u64_free(&awaited);
}

/* ---- names ---- */

/* A task that is nothing more than that. */
static bool is_promise(const struct heap_type *type)
{
	return type && (str_eq(type->name, "System.Threading.Tasks.Task") ||
			str_starts(type->name, "System.Threading.Tasks.Task`1["));
}

/* The object by which the application would know what is awaited; 0 = that needs no name. */
static uint64_t known_by(struct finder *f, uint64_t end)
{
	const struct heap_type *type = heap_type_of(f->heap, end);
	const uint64_t *source = map_u64_get(&f->source_of, end), *semaphore = map_u64_get(&f->semaphore_of, end);
	if (source)
		return *source;
	if (semaphore)
		return *semaphore;
	return (type && str_starts(type->name, "System.Threading.Channels.")) || is_promise(type) ? end : 0;
}

/* A reference from a box that only waits for the object: that box cannot complete it. */
static bool only_waits(void *user, uint64_t from, uint64_t to)
{
	struct finder *f = user;
	const uint64_t *index = map_u64_get(&f->box_at, from);
	const struct box *b = index ? &f->boxes.v[*index - 1] : NULL;
	if (!b)
		return false;
	const uint64_t *source = map_u64_get(&f->source_of, b->end);
	return b->awaited == to || b->end == to || (source && *source == to);
}

/* An async method that keeps it for later. */
static bool name_box(void *user, uint64_t object, struct buf *out)
{
	struct finder *f = user;
	const uint64_t *index = map_u64_get(&f->box_at, object);
	if (!index)
		return false;
	buf_str(out, f->c->methods.v[f->boxes.v[*index - 1].method].name);
	return true;
}

void async_chains_name(struct finder *f)
{
	VEC(struct object_name) asked = { 0 };
	struct map_u64 once = { 0 };
	vec_each(b, &f->boxes) {
		uint64_t object = b->inner == ASYNC_CHAINS_NONE && b->end ? known_by(f, b->end) : 0;
		bool new = false;
		if (object && asked.n < TARGETS_MAX)
			map_u64_put(&once, object, &new);
		if (new)
			vec_push(&asked, ((struct object_name){ .object = object }));
	}
	const struct object_names owners = { .whose = f->look->whose,
					     .heap = f->heap,
					     .outline = &f->outline,
					     .statics = &f->statics,
					     .strings = &f->c->strings,
					     .skip = only_waits,
					     .name = name_box,
					     .user = f };
	if (asked.n)
		object_names_find(&owners, asked.v, asked.n);
	vec_each(o, &asked) {
		/* A task without its source: a reference to the task alone does not allow to complete it. */
		bool task = is_promise(heap_type_of(f->heap, o->object));
		if (task && !o->referred)
			map_u64_put(&f->lost, o->object, NULL);
		if (!task && o->name)
			*map_u64_put(&f->known, o->object, NULL) = strtab_add_cstr(&f->c->strings, o->name) + 1ull;
	}
	map_u64_free(&once);
	vec_free(&asked);
}

/* ---- what it is ---- */

/* How long a timer was set to, and when it is due. */
static void tell_timer(struct finder *f, struct heap_value promise, struct async_chain *ret)
{
	struct heap_value timer, owner;
	int64_t due = 0, start = 0;
	uint64_t now_ms = f->look->facts.at_ns / NS_PER_MS;
	/* A PeriodicTimer is awaited through a part of it. */
	if (heap_get_object(f->heap, promise, "_owner", &owner))
		promise = owner;
	if (!heap_get_object(f->heap, promise, "_timer", &timer)) {
		ret->longest_ms = ASYNC_CHAIN_ENDLESS;
		return;
	}
	if (!heap_get_int(f->heap, timer, "_dueTime", &due) || due <= 0 || due >= UINT32_MAX)
		return;
	ret->longest_ms = (uint64_t)due;
	if (now_ms && heap_get_int(f->heap, timer, "_startTicks", &start) && start > 0 &&
	    (uint64_t)start <= now_ms + 1000)
		ret->due_ms = (uint64_t)(start + due) > now_ms ? (uint64_t)(start + due) - now_ms : 0;
}

static void tell_semaphore(struct finder *f, uint64_t node, struct async_chain *ret)
{
	const uint64_t *semaphore = map_u64_get(&f->semaphore_of, node);
	struct heap_value value;
	int64_t count = -1, max = -1;
	ret->awaits = AWAITS_SEMAPHORE;
	ret->taken = semaphore && heap_object(f->heap, *semaphore, &value) &&
		     heap_get_int(f->heap, value, "m_currentCount", &count) &&
		     heap_get_int(f->heap, value, "m_maxCount", &max) && !count && max == 1;
}

/* Of channels: a pending write holds the item to be written. */
static bool is_write(const char *type)
{
	return strstr(type, "VoidAsyncOperationWithData") || strstr(type, "BlockedWrite");
}

/* Asking what a delegate calls takes time, and many call the same. */
static void add_call(struct finder *f, struct heap_value delegate, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	int64_t target = 0;
	bool new;
	if (!heap_get_int(f->heap, delegate, "_methodPtrAux", &target) || !target)
		heap_get_int(f->heap, delegate, "_methodPtr", &target);
	uint64_t *place = map_u64_put(&f->calls, (uint64_t)target, &new);
	if (new) {
		delegate_show(f->heap, f->look->dac, f->look->image, delegate, &name);
		*place = strtab_add_cstr(&f->c->strings, buf_cstr(&name)) + 1ull;
	}
	buf_str(out, strtab_get(&f->c->strings, (uint32_t)(*place - 1)));
}

/* What it will call, or calls; and whose turn it waits for, when that is not the pool's. */
static void tell_work(struct finder *f, struct heap_value task, struct heap_value action, struct buf *what)
{
	struct heap_value scheduler;
	int64_t flags = 0;
	add_call(f, action, what);
	heap_get_int(f->heap, task, "m_stateFlags", &flags);
	if (flags & TASK_BEGUN || !heap_get_object(f->heap, task, "m_taskScheduler", &scheduler))
		return;
	buf_str(what, what->len ? ", which has not begun" : "it has not begun");
	if (strstr(scheduler.type->name, "ConcurrentExclusiveTaskScheduler"))
		buf_str(what, " and waits for its turn at a ConcurrentExclusiveSchedulerPair");
}

/* What requests in the queue of HttpClient's pool of connections wait for: one that is free, or is made, or has a free
 * stream. */
static bool is_connection(const struct heap_type *type)
{
	static const char begin[] = "System.Threading.Tasks.Task`1[[System.Net.Http.";
	const char *result = str_starts(type->name, begin) ? type->name + sizeof(begin) - 1 : "";
	return str_starts(result, "HttpConnection") || str_starts(result, "Http2Connection") ||
	       str_starts(result, "Http3Connection");
}

static void tell_task(struct finder *f, uint64_t object, struct heap_value value, struct async_chain *ret,
		      struct buf *what)
{
	struct heap_value action;
	bool work = heap_get_object(f->heap, value, "m_action", &action);
	if (!work && is_connection(value.type)) {
		ret->awaits = AWAITS_CONNECTION;
		return;
	}
	ret->awaits = work ? AWAITS_WORK : AWAITS_SOURCE;
	ret->gone = !work && !map_u64_get(&f->source_of, object) && map_u64_get(&f->lost, object);
	if (work)
		tell_work(f, value, action, what);
}

void async_chains_tell(struct finder *f, const struct box *innermost, struct async_chain *ret, struct buf *what)
{
	struct heap_value value;
	uint64_t object = innermost->end;
	ret->due_ms = ASYNC_CHAIN_UNKNOWN;
	ret->awaits = AWAITS_OTHER;
	if (!object || !heap_object(f->heap, object, &value)) {
		ret->awaits = AWAITS_POOL;
		return;
	}
	const char *name = value.type->name;
	uint64_t by = known_by(f, object);
	const uint64_t *known = by ? map_u64_get(&f->known, by) : NULL;
	if (strstr(name, "DelayPromise") || str_starts(name, "System.Threading.PeriodicTimer")) {
		ret->awaits = AWAITS_TIMER;
		tell_timer(f, value, ret);
	} else if (str_starts(name, "System.Threading.SemaphoreSlim+")) {
		tell_semaphore(f, object, ret);
	} else if (str_starts(name, "System.Threading.Channels.")) {
		ret->awaits = is_write(name) ? AWAITS_ROOM : AWAITS_CHANNEL;
	} else if (str_starts(name, "System.Net.Sockets.")) {
		ret->awaits = AWAITS_SOCKET;
	} else if (is_promise(value.type)) {
		tell_task(f, object, value, ret, what);
	} else {
		type_show(name, what);
		return;
	}
	if (known && !what->len && ret->awaits != AWAITS_CONNECTION)
		buf_str(what, strtab_get(&f->c->strings, (uint32_t)(*known - 1)));
}
