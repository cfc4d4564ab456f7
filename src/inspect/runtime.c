/* locks, tasks, pool, timers, handles, finalizers: the runtime's own bookkeeping, read from its objects. */

#include "base/fmt.h"
#include "base/str.h"
#include "inspect/internal.h"
#include <stdio.h>
#include <string.h>

#define CORELIB "System.Private.CoreLib.dll"
#define SHOWN 60
#define GO_ON_EVERY 65536
#define MAX_TIMERS 100000
#define MAX_QUEUES 4096

/* ---- locks ---- */

static const struct dac_thread *thread_by(const struct dac_threads *all, uint64_t address, uint32_t managed_id,
					  uint32_t os_id)
{
	vec_each(t, all)
		if ((address && t->address == address) || (managed_id && t->managed_id == managed_id) ||
		    (os_id && t->os_id == os_id))
			return t;
	return NULL;
}

static void add_lock(struct inspect *in, const char *kind, uint64_t object, const struct dac_thread *owner,
		     uint32_t times, struct cell waiting, struct answer *a)
{
	CLEANUP(buf_free) struct buf what = { 0 }, who = { 0 };
	inspect_add_ref(in, object, &what);
	if (owner)
		inspect_add_thread(owner, &who);
	else
		buf_str(&who, "(a thread that is gone)");
	ANSWER_ROW(a, C_TEXT(kind), C_TEXT(buf_cstr(&who)), C_COUNT(times), waiting, C_TEXT(buf_cstr(&what)));
}

static void add_new_lock(struct inspect *in, const struct dac_threads *threads, uint64_t object, struct answer *a)
{
	struct heap_value v;
	int64_t owner = 0, times = 0, state = 0;
	if (!heap_object(in->heap, object, &v) || !heap_get_int(in->heap, v, "_owningThreadId", &owner) || !owner)
		return;
	(void)heap_get_int(in->heap, v, "_recursionCount", &times);
	(void)heap_get_int(in->heap, v, "_state", &state);
	/* Waiters are counted in units of 128. */
	add_lock(in, "Lock", object, thread_by(threads, 0, 0, (uint32_t)owner), (uint32_t)times + 1,
		 C_COUNT((uint64_t)(uint32_t)state / 0x80), a);
}

/* Locks that were never fought for leave no trace but in the object itself: all of them are looked at. */
static struct err *find_quiet_locks(struct inspect *in, const struct dac_threads *threads, uint64_t *ret,
				    struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	for (size_t i = 0; heap_walk_next(walk, &found); i++) {
		struct heap_header h;
		if (i % GO_ON_EVERY == 0)
			TRY(inspect_go_on(in));
		if (found.type->kind == HEAP_FREE)
			continue;
		if (heap_header(heap, found.address, &h) && h.thin_owner) {
			add_lock(in, "monitor", found.address, thread_by(threads, 0, h.thin_owner, 0), h.recursion + 1,
				 C_COUNT(0), a);
			*ret += 1;
		}
		if (str_eq(found.type->name, "System.Threading.Lock"))
			add_new_lock(in, threads, found.address, a);
	}
	return NULL;
}

struct err *inspect_locks(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct dac_threads *threads;
	struct dac_syncs syncs = { 0 };
	struct heap *heap;
	uint64_t quiet = 0;
	(void)words, (void)n;
	TRY(inspect_threads(in, &threads));
	TRY(inspect_heap(in, &heap));
	TRY_WRAP(dac_syncs(in->look.dac, &syncs), "the list of locks is not in this image");
	answer_table(a, NULL, "kind", "held by", "times", "waiting", "object");
	vec_each(s, &syncs)
		if (s->held || s->waiting)
			add_lock(in, "monitor", s->object, thread_by(threads, s->holding_thread, 0, 0), s->recursion,
				 C_COUNT(s->waiting), a);
	dac_syncs_free(&syncs);
	return find_quiet_locks(in, threads, &quiet, a);
}

/* ---- tasks ---- */

struct group {
	const struct heap_type *machine;
	int64_t state;
	uint64_t n, first;
};
struct groups { /* a VEC */
	struct group *v;
	size_t n, cap;
};

#define TASK_DONE 0x01600000 /* ran to its end, faulted, cancelled */

static void take_task(struct inspect *in, uint64_t object, struct groups *groups)
{
	struct heap_value box, machine;
	int64_t flags = 0, state = -1;
	if (!heap_object(in->heap, object, &box) || !heap_get_int(in->heap, box, "m_stateFlags", &flags) ||
	    flags & TASK_DONE)
		return;
	/* A structure in Release builds, an object in Debug builds. */
	if (!heap_get_struct(in->heap, box, "StateMachine", &machine) &&
	    !heap_get_object(in->heap, box, "StateMachine", &machine))
		return;
	(void)heap_get_int(in->heap, machine, "<>1__state", &state);
	vec_each(g, groups)
		if (g->machine == machine.type && g->state == state) {
			g->n++;
			return;
		}
	vec_push(groups, ((struct group){ machine.type, state, 1, object }));
}

static int by_count(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	return x->n > y->n ? -1 : x->n < y->n;
}

/* "Shop.Orders+<PlaceAsync>d__3" is Shop.Orders.PlaceAsync. */
static void add_async_method(struct inspect *in, const struct heap_type *machine, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = { 0 };
	inspect_add_type(in, machine, &name);
	const char *s = buf_cstr(&name), *open = strstr(s, "<"), *close = open ? strstr(open, ">d") : NULL;
	if (!close) {
		buf_str(out, s);
		return;
	}
	size_t lead = (size_t)(open - s);
	while (lead && (s[lead - 1] == '+' || s[lead - 1] == '.'))
		lead--;
	buf_printf(out, "%.*s.%.*s", (int)lead, s, (int)(close - open - 1), open + 1);
}

/* The source line of an await: the state is its number, the PDB knows where in MoveNext it stands. */
static void add_await(struct inspect *in, const struct group *g, struct buf *out)
{
	struct dac_type_methods methods = { 0 };
	struct pdb *pdb = g->state >= 0 ? dac_lines_pdb(in->look.lines, g->machine->module) : NULL;
	if (pdb)
		err_ignore(dac_type_methods(in->look.dac, g->machine->address, &methods));
	vec_each(m, &methods) {
		struct pdb_line line;
		if (str_eq(m->name, "MoveNext") && pdb_await(pdb, m->token, (uint32_t)g->state, &line))
			dac_line_add(out, &line);
	}
	dac_type_methods_free(&methods);
}

struct err *inspect_tasks(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *outline;
	struct heap *heap;
	struct heap_found found;
	struct groups groups = { 0 };
	uint64_t all = 0;
	(void)words, (void)n;
	TRY(inspect_outline(in, &outline));
	TRY(inspect_heap(in, &heap));
	CLEANUP(heap_walk_freep) struct heap_walk *walk = heap_walk_new(heap, outline);
	struct err *err = NULL;
	for (size_t i = 0; !err && heap_walk_next(walk, &found); i++) {
		if (strstr(found.type->name, "AsyncStateMachineBox`1"))
			take_task(in, found.address, &groups);
		if (i % GO_ON_EVERY == 0)
			err = inspect_go_on(in);
	}
	vec_sort(&groups, by_count);
	answer_table(a, NULL, "tasks", "await", "at", "one of them", "async method");
	vec_each(g, &groups) {
		CLEANUP(buf_free) struct buf name = { 0 }, at = { 0 };
		char state[24];
		add_await(in, g, &at);
		all += g->n;
		if (g->state >= 0)
			snprintf(state, sizeof(state), "%lld", (long long)g->state);
		else
			str_copy(state, sizeof(state), "running");
		add_async_method(in, g->machine, &name);
		ANSWER_ROW(a, C_COUNT(g->n), C_TEXT(state), C_TEXT(buf_cstr(&at)), C_ADDRESS(g->first),
			   C_TEXT(buf_cstr(&name)));
	}
	answer_line(a, "%s not done; awaits count from 0 in the order of the source",
		    fmt_plural(all, "async method", "async methods").s);
	vec_free(&groups);
	return err;
}

/* ---- the pool ---- */

/* Items in a ConcurrentQueue: of each segment what was put in less what was taken. */
static uint64_t queue_length(struct inspect *in, struct heap_value queue)
{
	struct heap_value segment, ends;
	uint64_t all = 0;
	if (!heap_get_object(in->heap, queue, "_head", &segment))
		return 0;
	for (size_t i = 0; i < MAX_QUEUES; i++) {
		int64_t head, tail;
		if (heap_get_struct(in->heap, segment, "_headAndTail", &ends) &&
		    heap_get_int(in->heap, ends, "Head", &head) && heap_get_int(in->heap, ends, "Tail", &tail)) {
			struct heap_array slots;
			uint64_t object;
			int64_t n = (int32_t)((uint32_t)tail - (uint32_t)head);
			/* A segment that takes no more counts on from beyond its end. */
			if (heap_get_ref(in->heap, segment, "_slots", &object) &&
			    heap_array(in->heap, object, &slots) && n > (int64_t)slots.n)
				n -= (int64_t)slots.n * 2;
			all += n > 0 ? (uint64_t)n : 0;
		}
		if (!heap_get_object(in->heap, segment, "_nextSegment", &segment))
			break;
	}
	return all;
}

struct err *inspect_pool(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_type *type, *queue_type;
	struct heap_value pool, separated, counts, queue, items;
	struct heap *heap;
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
		ANSWER_ROW(a, C_TEXT("items in the global queue"), C_COUNT(queue_length(in, items)));
	return NULL;
}

/* ---- timers ---- */

/* What a delegate calls, by the code that it points to; else by its target. */
static void add_delegate(struct inspect *in, struct heap_value d, struct buf *out)
{
	struct heap_value target;
	struct dac_code code = { 0 };
	int64_t ip = 0;
	if (!heap_get_int(in->heap, d, "_methodPtrAux", &ip) || !ip)
		(void)heap_get_int(in->heap, d, "_methodPtr", &ip);
	CLEANUP(err_freep) struct err *err = ip ? dac_code(in->look.dac, (uint64_t)ip, &code) : NULL;
	if (!err && code.method) {
		err = dac_learn_methods(in->look.dac, &code.method, 1);
		inspect_add_method(in, code.method, out);
	}
	dac_code_free(&code);
	if (!out->len && heap_get_object(in->heap, d, "_target", &target)) {
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
		add_delegate(in, callback, &what);
	bool again = period > 0 && period != UINT32_MAX;
	ANSWER_ROW(a, C_TEXT(fmt_duration_ns((uint64_t)(uint32_t)due * 1000000).s),
		   again ? C_TEXT(fmt_duration_ns((uint64_t)(uint32_t)period * 1000000).s) : C_NONE,
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

struct err *inspect_finalizers(struct inspect *in, const char *const *words, size_t n, struct answer *a)
{
	const struct heap_outline *o;
	struct heap *heap;
	uint64_t all = 0;
	(void)words, (void)n;
	TRY(inspect_outline(in, &o));
	TRY(inspect_heap(in, &heap));
	answer_table(a, "Ready for their finalizer", "object");
	for (size_t i = 0; i < o->ready.n; i++)
		for (uint64_t at = 0; at + 8 <= o->ready.v[i].size; at += 8) {
			CLEANUP(buf_free) struct buf what = { 0 };
			uint64_t object;
			if (!heap_read_u64(heap, o->ready.v[i].start + at, &object) || !object || all++ >= SHOWN)
				continue;
			inspect_add_ref(in, object, &what);
			ANSWER_ROW(a, C_TEXT(buf_cstr(&what)));
		}
	answer_line(a, "%s for the finalizer thread; %s a finalizer", fmt_plural(all, "object waits", "objects wait").s,
		    fmt_plural(o->n_finalizable, "object has", "objects have").s);
	return NULL;
}
