/* What blocked threads wait for, and who holds it.
 *
 * The object itself is among the references that the stack keeps alive in the platform's frames between the user's code
 * and the wait. Its holder is recorded in it: in the header or sync block of an object, in fields of Lock and
 * ReaderWriterLockSlim. A semaphore does not record who has entered it; when it is used as a lock (it lets one enter,
 * and one has), a blocked thread whose own code refers to it and that waits for something else may be the holder: a
 * guess, and marked so. A task is followed to the thread that runs it, or through the state machine to what it awaits.
 */

#include "base/str.h"
#include "eventpipe/methods.h"
#include "heap/objects.h"
#include "threads/awaiters.h"
#include "memory/delegates.h"
#include "threads/thread_snapshot.h"
#include <string.h>

#define CHAIN_MAX 64
#define PARENTS_MAX 16
#define READERS_MAX 1000
#define WAITERS_MAX 100000

/* Of Task.m_stateFlags. */
#define TASK_BEGUN 0x00020000 /* its delegate was called */
#define FUTEX 202

struct wait_finder {
	struct thread_snapshot *s;
	const struct snapshot_source *raw;
	struct heap *heap;
	struct dac_refs *refs; /* one for each seen thread */
	struct dac_syncs syncs;
	struct map_u64 by_object; /* -> thing + 1 */
	bool queues;		  /* some of them are places in the queue of a semaphore */
	struct map_u64 by_thread; /* address, managed id and os id, each with a tag -> seen thread + 1 */
};

enum tag { BY_ADDRESS, BY_MANAGED_ID, BY_OS_ID };

static uint64_t thread_key(enum tag tag, uint64_t id)
{
	return hash_u64(id) ^ (uint64_t)tag;
}

static uint32_t find_thread(const struct wait_finder *f, enum tag tag, uint64_t id)
{
	const uint64_t *index = id ? map_u64_get(&f->by_thread, thread_key(tag, id)) : NULL;
	return index ? (uint32_t)(*index - 1) : SNAPSHOT_NONE;
}

static const struct dac_stack *stack_of(const struct wait_finder *f, uint32_t thread)
{
	return &f->raw->stacks[f->raw->origin[thread]];
}

/* ---- types ---- */

static bool is_a(struct wait_finder *f, const struct heap_type *type, const char *name)
{
	for (size_t i = 0; type && i < PARENTS_MAX; i++) {
		size_t len = strlen(name);
		/* Generic types go on with their number of parameters. */
		if (!strncmp(type->name, name, len) && (!type->name[len] || type->name[len] == '`'))
			return true;
		type = type->parent ? heap_type(f->heap, type->parent) : NULL;
	}
	return false;
}

static bool object_is_a(struct wait_finder *f, uint64_t object, const char *const *names)
{
	const struct heap_type *type = object ? heap_type_of(f->heap, object) : NULL;
	for (; type && *names; names++)
		if (is_a(f, type, *names))
			return true;
	return false;
}

#define TYPES(name, ...) static const char *const name##_types[] = { __VA_ARGS__, NULL }
TYPES(lock, "System.Threading.Lock");
TYPES(semaphore, "System.Threading.SemaphoreSlim", "System.Threading.Semaphore");
TYPES(rwlock, "System.Threading.ReaderWriterLockSlim", "System.Threading.ReaderWriterLock");
TYPES(task, "System.Threading.Tasks.Task");
TYPES(queue, "System.Collections.Concurrent.BlockingCollection");
TYPES(event, "System.Threading.ManualResetEventSlim", "System.Threading.WaitHandle");
TYPES(meeting, "System.Threading.Barrier", "System.Threading.CountdownEvent");
TYPES(thread, "System.Threading.Thread");
TYPES(context, "System.Threading.SynchronizationContext");

/* The types a thread that does this waits for; NULL = any object. */
static const char *const *wanted_types(enum activity doing, bool new_lock)
{
	switch (doing) {
	case ACTIVITY_LOCK:
		return new_lock ? lock_types : NULL;
	case ACTIVITY_SEMAPHORE:
		return semaphore_types;
	case ACTIVITY_RWLOCK:
		return rwlock_types;
	case ACTIVITY_TASK:
		return task_types;
	case ACTIVITY_QUEUE:
	case ACTIVITY_ROOM:
		return queue_types;
	case ACTIVITY_EVENT:
		return event_types;
	case ACTIVITY_MEETING:
		return meeting_types;
	case ACTIVITY_JOIN:
		return thread_types;
	default:
		return NULL;
	}
}

static enum wait_object_kind kind_of(enum activity doing, bool new_lock)
{
	switch (doing) {
	case ACTIVITY_LOCK:
		return new_lock ? WAIT_OBJECT_LOCK : WAIT_OBJECT_MONITOR;
	case ACTIVITY_SEMAPHORE:
		return WAIT_OBJECT_SEMAPHORE;
	case ACTIVITY_RWLOCK:
		return WAIT_OBJECT_RWLOCK;
	case ACTIVITY_TASK:
		return WAIT_OBJECT_TASK;
	case ACTIVITY_JOIN:
		return WAIT_OBJECT_THREAD;
	default:
		return WAIT_OBJECT_OTHER;
	}
}

/* ---- what a thread waits for ---- */

/* The stack pointer of the innermost frame of the user's own code: what is below it belongs to the platform. */
static uint64_t site_sp(const struct wait_finder *f, uint32_t thread)
{
	const struct snapshot_thread *t = &f->s->threads.v[thread];
	const struct dac_stack *stack = stack_of(f, thread);
	size_t own = snapshot_site(f->s, t), kept = 0;
	for (size_t i = 0; i < stack->n && own < t->n; i++) {
		if (!thread_snapshot_keeps_frame(stack, i))
			continue;
		if (kept++ == own)
			return stack->v[i].sp;
	}
	return UINT64_MAX;
}

static bool stands_in(const struct wait_finder *f, uint32_t thread, const char *prefix)
{
	const struct snapshot_thread *t = &f->s->threads.v[thread];
	for (size_t i = 0; i < snapshot_site(f->s, t); i++)
		if (str_starts(snapshot_frame(f->s, t, i)->name, prefix))
			return true;
	return false;
}

static uint64_t waited_object(struct wait_finder *f, uint32_t thread, const char *const *types)
{
	uint64_t below = site_sp(f, thread);
	vec_each(r, &f->refs[thread]) {
		if (r->flags & DAC_REF_INTERIOR || !r->object || r->stack_pointer >= below)
			continue;
		if (!types ? heap_type_of(f->heap, r->object) != NULL : object_is_a(f, r->object, types))
			return r->object;
	}
	/* Released by the platform's code already, but the caller still has it. */
	if (types)
		vec_each(r, &f->refs[thread])
			if (!(r->flags & DAC_REF_INTERIOR) && r->stack_pointer == below &&
			    object_is_a(f, r->object, types))
				return r->object;
	return 0;
}

/* ---- who holds it ---- */

static void add_holder(struct wait_finder *f, uint32_t thread)
{
	if (thread != SNAPSHOT_NONE)
		vec_push(&f->s->holders, thread);
}

static void hold_monitor(struct wait_finder *f, uint64_t object)
{
	struct heap_header header;
	if (!heap_header(f->heap, object, &header))
		return;
	if (header.thin_owner)
		add_holder(f, find_thread(f, BY_MANAGED_ID, header.thin_owner));
	vec_each(sync, &f->syncs)
		if (header.sync_block && sync->index == header.sync_block && sync->held)
			add_holder(f, find_thread(f, BY_ADDRESS, sync->holding_thread));
}

static void hold_lock(struct wait_finder *f, struct heap_value lock)
{
	int64_t owner = 0, state = 0;
	if (heap_get_int(f->heap, lock, "_owningThreadId", &owner) && heap_get_int(f->heap, lock, "_state", &state) &&
	    state & 1)
		add_holder(f, find_thread(f, BY_OS_ID, (uint32_t)owner));
}

/* Each reader keeps a list of the locks it has entered. */
static bool reads(struct wait_finder *f, const struct heap_type *type, uint64_t thread, int64_t lock_id)
{
	struct heap_value entry;
	if (!heap_static_object(f->heap, thread, type, "t_rwc", &entry))
		return false;
	for (size_t i = 0; i < READERS_MAX; i++) {
		int64_t id, count;
		if (heap_get_int(f->heap, entry, "lockID", &id) && id == lock_id &&
		    heap_get_int(f->heap, entry, "readercount", &count))
			return count > 0;
		if (!heap_get_object(f->heap, entry, "next", &entry))
			return false;
	}
	return false;
}

static void hold_rwlock(struct wait_finder *f, struct heap_value lock)
{
	int64_t writer = -1, upgrader = -1, id = 0;
	heap_get_int(f->heap, lock, "_writeLockOwnerId", &writer);
	heap_get_int(f->heap, lock, "_upgradeLockOwnerId", &upgrader);
	if (writer > 0) {
		add_holder(f, find_thread(f, BY_MANAGED_ID, (uint64_t)writer));
		return;
	}
	if (upgrader > 0)
		add_holder(f, find_thread(f, BY_MANAGED_ID, (uint64_t)upgrader));
	if (!heap_get_int(f->heap, lock, "_lockID", &id))
		return;
	for (uint32_t i = 0; i < f->s->threads.n; i++) {
		uint64_t address = f->raw->threads->v[f->raw->origin[i]].address;
		if (reads(f, lock.type, address, id))
			add_holder(f, i);
	}
}

/* Does the user's own code of the thread refer to the object, directly or through a field of another object? */
static bool has_at_hand(struct wait_finder *f, uint32_t thread, uint64_t object)
{
	uint64_t below = site_sp(f, thread);
	vec_each(r, &f->refs[thread]) {
		struct heap_value value;
		if (r->flags & DAC_REF_INTERIOR || r->stack_pointer < below || !r->object)
			continue;
		if (r->object == object)
			return true;
		if (!heap_object(f->heap, r->object, &value))
			continue;
		struct heap_fields fields = heap_fields(f->heap, value.type);
		for (size_t i = 0; i < fields.n; i++) {
			uint64_t held;
			if (!fields.v[i].is_static && fields.v[i].element == HEAP_CLASS &&
			    heap_read_u64(f->heap, value.fields + fields.v[i].offset, &held) && held == object)
				return true;
		}
	}
	return false;
}

static bool guess_semaphore(struct wait_finder *f, uint64_t object)
{
	size_t had = f->s->holders.n;
	for (uint32_t i = 0; i < f->s->threads.n; i++) {
		enum activity doing = snapshot_activity(f->s, &f->s->threads.v[i]);
		if (doing == ACTIVITY_SEMAPHORE && waited_object(f, i, wanted_types(doing, false)) == object)
			continue;
		if (activity_is_blocked(doing) && has_at_hand(f, i, object))
			add_holder(f, i);
	}
	return f->s->holders.n > had;
}

static void hold_semaphore(struct wait_finder *f, struct heap_value semaphore, struct wait_object *thing,
			   struct buf *more)
{
	uint32_t places = semaphore_taken(f->heap, semaphore);
	thing->taken = places > 0;
	thing->guessed = places == 1 && guess_semaphore(f, thing->address);
	if (places)
		buf_printf(more, places == 1 ? "taken" : "all %u places taken", places);
}

/* ---- tasks ---- */

/* The frame of that stack pointer runs a task or its state machine. */
static bool runs_tasks(struct wait_finder *f, uint32_t thread, uint64_t source)
{
	vec_each(frame, stack_of(f, thread)) {
		if (frame->ip != source || !frame->method)
			continue;
		const struct dac_method *m = dac_method(f->raw->look->dac, frame->method);
		return m && ((strstr(m->name, "AsyncStateMachineBox") && !strstr(m->name, "GetResult")) ||
			     str_starts(m->name, "System.Threading.Tasks.Task.Execute") ||
			     (str_starts(m->name, "System.Threading.Tasks.Task") && strstr(m->name, ".InnerInvoke(")));
	}
	return false;
}

static void hold_task(struct wait_finder *f, uint64_t task)
{
	for (uint32_t i = 0; i < f->s->threads.n; i++) {
		vec_each(r, &f->refs[i]) {
			if (r->object == task && !(r->flags & DAC_REF_INTERIOR) && runs_tasks(f, i, r->source)) {
				add_holder(f, i);
				break;
			}
		}
	}
}

/* "Shop.Bank.Checkout.ConfirmAsync" of the box that is its task; else what it will call. */
static void name_task(struct wait_finder *f, struct heap_value task, struct buf *out)
{
	struct heap_value action;
	type_async_method(task.type->name, out);
	if (!out->len && heap_get_object(f->heap, task, "m_action", &action))
		delegate_show(f->heap, f->raw->look->dac, f->raw->look->image, action, out);
}

static bool state_machine(struct wait_finder *f, uint64_t box, struct heap_value *ret)
{
	struct heap_value value;
	return heap_object(f->heap, box, &value) && (heap_get_struct(f->heap, value, "StateMachine", ret) ||
						     heap_get_object(f->heap, value, "StateMachine", ret));
}

/* The pending task that a state machine awaits; 0 = none. */
static uint64_t awaited_task(struct wait_finder *f, uint64_t box)
{
	struct heap_value machine;
	uint64_t object = state_machine(f, box, &machine) ? awaited_by_machine(f->heap, machine) : 0;
	return object_is_a(f, object, task_types) ? object : 0;
}

/* Why a task that no thread runs is not done, as far as it says. */
static void tell_task(struct wait_finder *f, uint64_t object, struct heap_value task, struct buf *more)
{
	uint64_t action = 0;
	int64_t flags = 0, state = -1;
	struct heap_value machine;
	heap_get_ref(f->heap, task, "m_action", &action);
	heap_get_int(f->heap, task, "m_stateFlags", &flags);
	bool plain = str_eq(task.type->name, "System.Threading.Tasks.Task") ||
		     str_starts(task.type->name, "System.Threading.Tasks.Task`1[");
	if (strstr(task.type->name, "AsyncStateMachineBox") && state_machine(f, object, &machine) &&
	    heap_get_int(f->heap, machine, "<>1__state", &state) && state >= 0 && !awaited_by_machine(f->heap, machine))
		buf_str(more, WAIT_OBJECT_NEXT_PART);
	else if (plain && !action)
		buf_str(more, "nobody has completed it");
	else if (plain && !(flags & TASK_BEGUN))
		buf_str(more, WAIT_OBJECT_NOT_BEGUN);
}

/* Of a barrier and a countdown: how many have arrived, or are missing. */
static void tell_meeting(struct wait_finder *f, struct heap_value value, struct buf *more)
{
	int64_t counts, left;
	if (heap_get_int(f->heap, value, "_currentTotalCount", &counts))
		buf_printf(more, "%u of %u are there", (unsigned)(counts >> 16 & 0x7fff), (unsigned)(counts & 0x7fff));
	else if (heap_get_int(f->heap, value, "_currentCount", &left) && left > 0)
		buf_printf(more, "%u missing", (unsigned)left);
}

/* ---- wait objects ---- */

static void show_type(struct wait_finder *f, uint64_t object, struct buf *out)
{
	const struct heap_type *type = heap_type_of(f->heap, object);
	struct heap_value value;
	uint64_t timer = 0;
	if (type && strstr(type->name, "Task+DelayPromise"))
		buf_str(out,
			heap_object(f->heap, object, &value) && heap_get_ref(f->heap, value, "_timer", &timer) && !timer
				? "delay without end"
				: WAIT_OBJECT_TIMER);
	else if (is_semaphore_waiter(type))
		buf_str(out, "SemaphoreSlim");
	else if (type)
		type_show(type->name, out);
}

static uint32_t new_thing(struct wait_finder *f, uint64_t object, enum wait_object_kind kind)
{
	struct wait_object thing = { .address = object, .kind = kind, .next = SNAPSHOT_NONE };
	CLEANUP(buf_free) struct buf type = { 0 }, name = { 0 }, more = { 0 };
	struct heap_value value = { 0 };
	int64_t id;
	show_type(f, object, &type);
	if (!heap_object(f->heap, object, &value))
		kind = WAIT_OBJECT_OTHER;
	if (kind == WAIT_OBJECT_MONITOR)
		hold_monitor(f, object);
	else if (kind == WAIT_OBJECT_LOCK)
		hold_lock(f, value);
	else if (kind == WAIT_OBJECT_RWLOCK)
		hold_rwlock(f, value);
	else if (kind == WAIT_OBJECT_SEMAPHORE)
		hold_semaphore(f, value, &thing, &more);
	else if (kind == WAIT_OBJECT_THREAD && heap_get_int(f->heap, value, "_managedThreadId", &id))
		add_holder(f, find_thread(f, BY_MANAGED_ID, (uint64_t)id));
	else if (kind == WAIT_OBJECT_TASK)
		hold_task(f, object);
	if (kind == WAIT_OBJECT_TASK)
		name_task(f, value, &name);
	if (kind == WAIT_OBJECT_TASK)
		tell_task(f, object, value, &more);
	else if (kind == WAIT_OBJECT_OTHER && value.type)
		tell_meeting(f, value, &more);
	thing.more = buf_cstr(&more);
	thing.type = buf_cstr(&type);
	thing.name = buf_cstr(&name);
	uint32_t index = thread_snapshot_add_wait_object(f->s, &thing);
	*map_u64_put(&f->by_object, object, NULL) = index + 1;
	return index;
}

static uint32_t thing_of(struct wait_finder *f, uint64_t object, enum wait_object_kind kind)
{
	const uint64_t *known = map_u64_get(&f->by_object, object);
	return known ? (uint32_t)(*known - 1) : new_thing(f, object, kind);
}

/* Follows a chain of tasks, each of which awaits the next, to one that a thread runs or that awaits no task. */
static void follow_task(struct wait_finder *f, uint32_t thing)
{
	for (size_t i = 0; i < CHAIN_MAX; i++) {
		struct wait_object *t = &f->s->things.v[thing];
		uint64_t awaited = t->n || t->next != SNAPSHOT_NONE ? 0 : awaited_task(f, t->address);
		if (!awaited)
			return;
		bool queue = is_semaphore_waiter(heap_type_of(f->heap, awaited));
		uint32_t next = thing_of(f, awaited, queue ? WAIT_OBJECT_SEMAPHORE : WAIT_OBJECT_TASK);
		f->queues |= queue;
		f->s->things.v[thing].next = next;
		thing = next;
	}
}

/* ---- static constructors ---- */

static void find_init_thing(struct wait_finder *f, uint32_t thread, bool only_exact)
{
	const char *type = "";
	size_t len = 0;
	uint32_t runs = snapshot_find_init(f->s, thread, only_exact, &type, &len);
	if (runs == SNAPSHOT_NONE)
		return;
	CLEANUP(mem_freep) char *name = mem_strndup(type, len);
	/* No address of an object is odd. */
	uint64_t key = hash_bytes(name, len, 0) | 1;
	const uint64_t *known = map_u64_get(&f->by_object, key);
	uint32_t index = known ? (uint32_t)(*known - 1) : SNAPSHOT_NONE;
	if (!known) {
		add_holder(f, runs);
		index = thread_snapshot_add_wait_object(
			f->s, &(struct wait_object){
				      .address = key, .kind = WAIT_OBJECT_INIT, .next = SNAPSHOT_NONE, .name = name });
		*map_u64_put(&f->by_object, key, NULL) = index + 1;
	}
	f->s->threads.v[thread].waits_for = index;
}

/* ---- what each waits for ---- */

static uint64_t object_for(struct wait_finder *f, uint32_t thread, enum activity doing, bool new_lock)
{
	uint64_t object = waited_object(f, thread, wanted_types(doing, new_lock));
	/* Optimised code keeps only the event inside. */
	return object || doing != ACTIVITY_MEETING ? object : waited_object(f, thread, event_types);
}

/* A thread that serves a synchronization context has a reference to it; what was awaited under the context continues on
 * that thread. */
static bool serves_context(struct wait_finder *f, uint32_t thread)
{
	vec_each(r, &f->refs[thread])
		if (!(r->flags & DAC_REF_INTERIOR) && object_is_a(f, r->object, context_types))
			return true;
	return false;
}

/* A thread that runs an exclusive task lets no other task of the same scheduler begin before it ends. The scheduler of
 * a task that has begun and continues later is not recorded. */
static bool serves_scheduler(struct wait_finder *f, uint32_t thread, const struct wait_object *task)
{
	struct heap_value value, scheduler;
	if (!snapshot_runs_exclusive(f->s, &f->s->threads.v[thread]))
		return false;
	return str_eq(task->more, WAIT_OBJECT_NEXT_PART) ||
	       (str_eq(task->more, WAIT_OBJECT_NOT_BEGUN) && heap_object(f->heap, task->address, &value) &&
		heap_get_object(f->heap, value, "m_taskScheduler", &scheduler) &&
		strstr(scheduler.type->name, "ConcurrentExclusiveTaskScheduler"));
}

static void find_task(struct wait_finder *f, uint32_t thread, uint32_t task)
{
	follow_task(f, task);
	size_t end = (size_t)(wait_object_chain_end(f->s, &f->s->things.v[task]) - f->s->things.v);
	struct wait_object *last = &f->s->things.v[end];
	last->posted = !last->n && ((str_eq(last->more, WAIT_OBJECT_NEXT_PART) && serves_context(f, thread)) ||
				    serves_scheduler(f, thread, last));
}

static void find_thing(struct wait_finder *f, uint32_t thread)
{
	struct snapshot_thread *t = &f->s->threads.v[thread];
	enum activity doing = snapshot_activity(f->s, t);
	bool new_lock = doing == ACTIVITY_LOCK && stands_in(f, thread, "System.Threading.Lock.");
	/* .NET 8 waits for them in native code. */
	bool native = doing == ACTIVITY_CALL && t->call == FUTEX && t->n && !snapshot_site(f->s, t);
	if (doing == ACTIVITY_INIT || native)
		find_init_thing(f, thread, native);
	if (!activity_is_blocked(doing) || doing == ACTIVITY_INIT)
		return;
	uint64_t object = object_for(f, thread, doing, new_lock);
	if (!object)
		return;
	t->waits_for = thing_of(f, object, kind_of(doing, new_lock));
	if (f->s->things.v[t->waits_for].kind == WAIT_OBJECT_TASK)
		find_task(f, thread, t->waits_for);
}

/* ---- names ---- */

static void set_one_name(struct wait_finder *f, uint64_t object, const char *name)
{
	const uint64_t *index = map_u64_get(&f->by_object, object);
	struct wait_object *thing = index ? &f->s->things.v[*index - 1] : NULL;
	if (thing && !thing->name)
		thing->name = strtab_get(&f->s->strings, strtab_add_cstr(&f->s->strings, name));
}

/* Of a semaphore, also of those who wait for it by WaitAsync. */
static void set_name(struct wait_finder *f, uint64_t object, const char *name)
{
	uint64_t waiter = 0;
	set_one_name(f, object, name);
	for (size_t i = 0; f->queues && i < WAITERS_MAX && semaphore_waiter(f->heap, object, &waiter); i++)
		set_one_name(f, waiter, name);
}

static bool wants_name(struct wait_finder *f, uint64_t object)
{
	uint64_t first = 0;
	return map_u64_get(&f->by_object, object) || (f->queues && semaphore_waiter(f->heap, object, &first));
}

/* Names wait objects by the fields of an object that hold them. */
static void name_fields(struct wait_finder *f, uint64_t object, const char *owner)
{
	struct heap_value value;
	if (!heap_object(f->heap, object, &value))
		return;
	struct heap_fields fields = heap_fields(f->heap, value.type);
	/* A TaskCompletionSource is its task to those who wait. */
	bool source = str_starts(value.type->name, "System.Threading.Tasks.TaskCompletionSource");
	for (size_t i = 0; i < fields.n; i++) {
		uint64_t held;
		if (fields.v[i].is_static || fields.v[i].element != HEAP_CLASS ||
		    !heap_read_u64(f->heap, value.fields + fields.v[i].offset, &held) || !wants_name(f, held))
			continue;
		CLEANUP(mem_freep) char *name = mem_printf("%s.%s", owner, fields.v[i].name);
		set_name(f, held, source ? owner : name);
	}
}

static void name_by_statics(struct wait_finder *f)
{
	struct heap_statics statics = { 0 };
	struct err *err = heap_statics(f->heap, NULL, &statics);
	for (size_t pass = 0; pass < 2 && !err; pass++) {
		vec_each(st, &statics) {
			CLEANUP(buf_free) struct buf name = { 0 };
			/* Only names that are needed are made. */
			if (!pass && !wants_name(f, st->object))
				continue;
			type_show(st->type->name, &name);
			buf_printf(&name, ".%s", st->field->name);
			if (pass)
				name_fields(f, st->object, buf_cstr(&name));
			else
				set_name(f, st->object, buf_cstr(&name));
		}
	}
	err_free(err);
	heap_statics_free(&statics);
}

/* Names wait objects by fields of objects that are on the threads' stacks. */
static void name_by_stacks(struct wait_finder *f)
{
	for (uint32_t i = 0; i < f->s->threads.n; i++) {
		vec_each(r, &f->refs[i]) {
			CLEANUP(buf_free) struct buf type = { 0 };
			if (r->flags & DAC_REF_INTERIOR || !r->object || map_u64_get(&f->by_object, r->object))
				continue;
			show_type(f, r->object, &type);
			/* Names of lambdas and of the platform's internals are not known to users. */
			if (type.len && !strchr(buf_cstr(&type), '<') &&
			    !method_is_framework(f->raw->look->whose, buf_cstr(&type)))
				name_fields(f, r->object, buf_cstr(&type));
		}
	}
}

/* ---- all ---- */

/* Also of threads that sleep or run: they may run a task, or hold what others wait for. */
static bool wants_refs(const struct wait_finder *f, const struct snapshot_thread *t)
{
	return t->n && snapshot_activity(f->s, t) != ACTIVITY_IDLE;
}

static void read_refs(struct wait_finder *f)
{
	struct dac *dac = f->raw->look->dac;
	VEC(uint32_t) ids = { 0 };
	vec_each(t, &f->s->threads)
		if (wants_refs(f, t))
			vec_push(&ids, t->os_id);
	dac_learn_stack_refs(dac, ids.v, ids.n);
	vec_free(&ids);
	for (uint32_t i = 0; i < f->s->threads.n; i++) {
		const struct snapshot_thread *t = &f->s->threads.v[i];
		if (wants_refs(f, t))
			err_ignore(dac_stack_refs(dac, t->os_id, &f->refs[i]));
	}
}

void thread_snapshot_find_wait_objects(struct thread_snapshot *s, const struct snapshot_source *raw)
{
	struct wait_finder f = { .s = s, .raw = raw };
	size_t blocked = 0;
	vec_each(t, &s->threads)
		blocked += activity_is_blocked(snapshot_activity(s, t));
	if (blocked)
		err_ignore(heap_open(raw->look->image, raw->look->dac, &f.heap));
	if (!f.heap)
		return;
	f.refs = mem_zalloc(s->threads.n * sizeof(*f.refs));
	err_ignore(dac_syncs(raw->look->dac, &f.syncs));
	for (uint32_t i = 0; i < s->threads.n; i++) {
		const struct snapshot_thread *t = &s->threads.v[i];
		*map_u64_put(&f.by_thread, thread_key(BY_ADDRESS, raw->threads->v[raw->origin[i]].address), NULL) =
			i + 1;
		*map_u64_put(&f.by_thread, thread_key(BY_MANAGED_ID, t->managed_id), NULL) = i + 1;
		*map_u64_put(&f.by_thread, thread_key(BY_OS_ID, t->os_id), NULL) = i + 1;
	}
	read_refs(&f);
	for (uint32_t i = 0; i < s->threads.n; i++)
		find_thing(&f, i);
	if (s->things.n) {
		name_by_statics(&f);
		name_by_stacks(&f);
	}
	for (size_t i = 0; i < s->threads.n; i++)
		dac_refs_free(&f.refs[i]);
	mem_free(f.refs);
	dac_syncs_free(&f.syncs);
	map_u64_free(&f.by_object);
	map_u64_free(&f.by_thread);
	heap_close(f.heap);
}
