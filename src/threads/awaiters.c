#include "threads/awaiters.h"
#include "base/str.h"
#include <string.h>

#define NO_MAXIMUM INT32_MAX

/* What an awaiter waits for: a task, or the source of a value task. */
static uint64_t awaited_by(struct heap *h, struct heap_value awaiter)
{
	uint64_t object = 0;
	struct heap_value inner;
	if (heap_get_ref(h, awaiter, "m_task", &object) || heap_get_ref(h, awaiter, "_obj", &object))
		return object;
	/* ConfiguredTaskAwaiter, ValueTaskAwaiter and its configured form keep another structure. */
	if (heap_get_struct(h, awaiter, "m_task", &inner) || heap_get_struct(h, awaiter, "_value", &inner))
		return awaited_by(h, inner);
	return 0;
}

static bool is_awaiter_field(const char *name)
{
	return strstr(name, ">u__") != NULL;
}

/* The awaiter fields of a state machine are set while it awaits; of several types only one is in use. */
uint64_t awaited_by_machine(struct heap *h, struct heap_value machine)
{
	struct heap_fields fields = heap_fields(h, machine.type);
	for (size_t i = 0; i < fields.n; i++) {
		struct heap_value awaiter;
		if (fields.v[i].is_static || !is_awaiter_field(fields.v[i].name))
			continue;
		uint64_t object = 0;
		if (fields.v[i].element == HEAP_STRUCT && heap_get_struct(h, machine, fields.v[i].name, &awaiter))
			object = awaited_by(h, awaiter);
		else if (heap_get_object(h, machine, fields.v[i].name, &awaiter))
			object = awaited_by(h, (struct heap_value){ awaiter.type, awaiter.fields });
		int64_t flags;
		struct heap_value task;
		bool done = object && heap_object(h, object, &task) && heap_get_int(h, task, "m_stateFlags", &flags) &&
			    flags & TASK_DONE;
		if (object && !done)
			return object;
	}
	return 0;
}

bool is_semaphore_waiter(const struct heap_type *type)
{
	return type && str_eq(type->name, "System.Threading.SemaphoreSlim+TaskNode");
}

bool semaphore_waiter(struct heap *h, uint64_t semaphore, uint64_t *waiter)
{
	struct heap_value v;
	uint64_t next = 0;
	if (!heap_object(h, *waiter ? *waiter : semaphore, &v) ||
	    !(*waiter ? is_semaphore_waiter(v.type) : str_eq(v.type->name, "System.Threading.SemaphoreSlim")) ||
	    !heap_get_ref(h, v, *waiter ? "Next" : "m_asyncHead", &next) || !next)
		return false;
	*waiter = next;
	return true;
}

uint32_t semaphore_taken(struct heap *h, struct heap_value semaphore)
{
	int64_t count = -1, max = -1;
	bool known =
		heap_get_int(h, semaphore, "m_currentCount", &count) && heap_get_int(h, semaphore, "m_maxCount", &max);
	return known && !count && max > 0 && max < NO_MAXIMUM ? (uint32_t)max : 0;
}
