#include "eventpipe/clr.h"
#include "base/map.h"
#include "base/str.h"
#include <string.h>

static enum clr_event runtime_event(uint32_t id)
{
	switch (id) {
	case 1:
		return CLR_GC_START;
	case 2:
		return CLR_GC_END;
	case 3:
		return CLR_RESTART_END;
	case 4:
		return CLR_GC_HEAP_STATS;
	case 7:
		return CLR_RESTART_BEGIN;
	case 8:
		return CLR_SUSPEND_END;
	case 9:
		return CLR_SUSPEND_BEGIN;
	case 10:
		return CLR_ALLOCATION_TICK;
	case 15:
		return CLR_BULK_TYPE;
	case 16:
		return CLR_BULK_ROOT;
	case 17:
		return CLR_BULK_LINK;
	case 18:
		return CLR_BULK_NODE;
	case 19:
		return CLR_BULK_EDGE;
	case 38:
		return CLR_BULK_STATIC;
	case 303:
		return CLR_ALLOCATION_SAMPLED;
	case 35:
		return CLR_GC_TRIGGERED;
	case 204:
		return CLR_GC_HEAP_HISTORY;
	case 80:
		return CLR_EXCEPTION_THROWN;
	case 143:
		return CLR_METHOD_LOAD;
	case 144:
		return CLR_METHOD_UNLOAD;
	case 50:
		return CLR_POOL_WORKER_START;
	case 51:
		return CLR_POOL_WORKER_STOP;
	case 55:
		return CLR_POOL_ADJUSTMENT;
	case 70:
		return CLR_THREAD_CREATING;
	case 81:
		return CLR_CONTENTION_START;
	case 91:
		return CLR_CONTENTION_STOP;
	case 145:
		return CLR_METHOD_JITTING;
	case 152:
		return CLR_MODULE_LOAD;
	case 154:
		return CLR_ASSEMBLY_LOAD;
	case 155:
		return CLR_ASSEMBLY_UNLOAD;
	case 291:
		return CLR_ASSEMBLY_BOUND;
	case 301:
		return CLR_WAIT_START;
	case 302:
		return CLR_WAIT_STOP;
	default:
		return CLR_UNKNOWN;
	}
}

/* DCStart and DCEnd list what is there. */
static enum clr_event rundown_event(uint32_t id)
{
	switch (id) {
	case 143:
	case 144:
		return CLR_METHOD_LOAD;
	case 153:
	case 154:
		return CLR_MODULE_LOAD;
	case 155:
	case 156:
		return CLR_ASSEMBLY_LOAD;
	default:
		return CLR_UNKNOWN;
	}
}

enum clr_event clr_event(const struct nettrace_event *event)
{
	struct nettrace_meta *meta = event->meta;
	if (!meta->user) {
		enum clr_event kind = CLR_UNKNOWN;
		if (str_eq(meta->provider, CLR_PROVIDER))
			kind = runtime_event(meta->event_id);
		else if (str_eq(meta->provider, CLR_RUNDOWN_PROVIDER))
			kind = rundown_event(meta->event_id);
		else if (str_eq(meta->provider, CLR_FRAMEWORK_PROVIDER))
			kind = meta->event_id == 30   ? CLR_POOL_ENQUEUE
			       : meta->event_id == 31 ? CLR_POOL_DEQUEUE
						      : CLR_UNKNOWN;
		else if (str_eq(meta->provider, CLR_SAMPLE_PROVIDER) && meta->event_id == 0)
			kind = CLR_THREAD_SAMPLE;
		meta->user = kind;
	}
	return (enum clr_event)meta->user;
}

static struct cursor payload(const struct nettrace_event *event)
{
	return cursor_make(event->payload, event->payload_size);
}

bool clr_decode_gc_start(const struct nettrace_event *event, struct clr_gc_start *ret)
{
	struct cursor c = payload(event);
	ret->number = cursor_u32(&c);
	ret->generation = cursor_u32(&c);
	ret->reason = cursor_u32(&c);
	ret->type = cursor_u32(&c);
	return cursor_ok(&c);
}

bool clr_decode_gc_end(const struct nettrace_event *event, struct clr_gc_end *ret)
{
	struct cursor c = payload(event);
	ret->number = cursor_u32(&c);
	ret->generation = cursor_u32(&c);
	return cursor_ok(&c);
}

bool clr_decode_heap_stats(const struct nettrace_event *event, struct clr_heap_stats *ret)
{
	struct cursor c = payload(event);
	*ret = (struct clr_heap_stats){ 0 };
	for (int i = 0; i < 4; i++) {
		ret->size[i] = cursor_u64(&c);
		ret->promoted[i] = cursor_u64(&c);
	}
	cursor_take(&c, 16); /* finalization: promoted bytes and count */
	ret->pinned = cursor_u32(&c);
	cursor_u32(&c); /* sink blocks */
	ret->handles = cursor_u32(&c);
	cursor_u16(&c); /* runtime instance */
	if (!cursor_ok(&c))
		return false;
	ret->size[4] = cursor_u64(&c); /* pinned heap: from version 2, zero before */
	ret->promoted[4] = cursor_u64(&c);
	return true;
}

/* u16, 6 pointers, 6 u32, a pointer, u32 count, then count generations of equal size, as pointers: size before, free
 * list before, free objects before, size after, free list after, free objects after, ... */
bool clr_decode_heap_history(const struct nettrace_event *event, struct clr_heap_history *ret)
{
	struct cursor c = payload(event);
	size_t ptr = event->pointer_size;
	cursor_take(&c, 2 + 6 * ptr + 5 * sizeof(uint32_t));
	*ret = (struct clr_heap_history){ .heap = cursor_u32(&c) };
	cursor_take(&c, ptr);
	uint32_t n = cursor_u32(&c);
	if (!cursor_ok(&c) || ptr != 8 || !n || n > 16)
		return false;
	size_t each = cursor_left(&c) / n;
	if (each < 6 * ptr)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct cursor g = cursor_make(cursor_take(&c, each), each);
		uint64_t before = cursor_u64(&g), free_before = cursor_u64(&g) + cursor_u64(&g);
		uint64_t after = cursor_u64(&g), free_after = cursor_u64(&g) + cursor_u64(&g);
		ret->before_bytes += before;
		ret->after_bytes += after;
		if (i >= CLR_GENERATIONS)
			continue;
		ret->generations[i].before = before;
		ret->generations[i].free_before = MIN(free_before, before);
		ret->generations[i].after = after;
		ret->generations[i].free_after = MIN(free_after, after);
	}
	return true;
}

bool clr_decode_gc_triggered(const struct nettrace_event *event, uint32_t *ret_reason)
{
	struct cursor c = payload(event);
	*ret_reason = cursor_u32(&c);
	return cursor_ok(&c);
}

bool clr_decode_suspend(const struct nettrace_event *event, struct clr_suspend *ret)
{
	struct cursor c = payload(event);
	ret->reason = cursor_u32(&c);
	ret->gc_number = cursor_u32(&c);
	return cursor_ok(&c);
}

static void skip_pointer(struct cursor *c, const struct nettrace_event *event)
{
	cursor_take(c, event->pointer_size);
}

/* Tick: u32 amount, u32 heap, u16, from version 2 u64 amount, pointer, type, u32 heap number, from 3 pointer, from 4
 * u64 size. Sampled: u32 heap, u16, pointer, type, pointer, u64 size, u64 offset. */
bool clr_decode_allocation(const struct nettrace_event *event, struct clr_allocation *ret)
{
	struct cursor c = payload(event);
	*ret = (struct clr_allocation){ 0 };
	if (clr_event(event) == CLR_ALLOCATION_SAMPLED) {
		ret->heap = cursor_u32(&c);
		cursor_u16(&c);
		skip_pointer(&c, event);
		ret->type = cursor_utf16z(&c);
		skip_pointer(&c, event);
		ret->object_bytes = cursor_u64(&c);
		return cursor_ok(&c) && ret->object_bytes;
	}
	cursor_u32(&c);
	ret->heap = cursor_u32(&c);
	cursor_u16(&c);
	ret->tick_bytes = cursor_u64(&c);
	skip_pointer(&c, event);
	ret->type = cursor_utf16z(&c);
	cursor_u32(&c);
	if (!cursor_ok(&c))
		return false;
	skip_pointer(&c, event);
	ret->object_bytes = cursor_u64(&c); /* zero where the payload ended before */
	return true;
}

bool clr_decode_exception(const struct nettrace_event *event, struct clr_exception *ret)
{
	struct cursor c = payload(event);
	ret->type = cursor_utf16z(&c);
	ret->message = cursor_utf16z(&c);
	skip_pointer(&c, event);
	ret->hresult = cursor_u32(&c);
	ret->flags = cursor_u16(&c);
	return cursor_ok(&c);
}

bool clr_decode_method(const struct nettrace_event *event, struct clr_method *ret)
{
	struct cursor c = payload(event);
	ret->id = cursor_u64(&c);
	ret->module = cursor_u64(&c);
	ret->start = cursor_u64(&c);
	ret->size = cursor_u32(&c);
	ret->token = cursor_u32(&c);
	ret->flags = cursor_u32(&c);
	ret->space = cursor_utf16z(&c);
	ret->name = cursor_utf16z(&c);
	ret->signature = cursor_utf16z(&c);
	return cursor_ok(&c);
}

static uint64_t pointer(struct cursor *c, const struct nettrace_event *event)
{
	return event->pointer_size == 8 ? cursor_u64(c) : cursor_u32(c);
}

bool clr_decode_contention_start(const struct nettrace_event *event, struct clr_contention *ret)
{
	struct cursor c = payload(event);
	*ret = (struct clr_contention){ 0 };
	cursor_take(&c, 3); /* flags, runtime instance */
	if (!cursor_ok(&c))
		return false;
	ret->lock = pointer(&c, event); /* this and the rest: from version 2, zero before */
	ret->object = pointer(&c, event);
	ret->owner = cursor_u64(&c);
	return true;
}

bool clr_decode_contention_stop(const struct nettrace_event *event, uint64_t *ret_ns)
{
	struct cursor c = payload(event);
	cursor_take(&c, 3);
	double ns = cursor_f64(&c);
	if (!cursor_ok(&c) || !(ns >= 0 && ns < 1e18))
		return false;
	*ret_ns = (uint64_t)ns;
	return true;
}

bool clr_decode_pool_adjustment(const struct nettrace_event *event, struct clr_pool_adjustment *ret)
{
	struct cursor c = payload(event);
	cursor_f64(&c); /* throughput */
	ret->workers = cursor_u32(&c);
	ret->reason = cursor_u32(&c);
	return cursor_ok(&c);
}

bool clr_decode_pool_workers(const struct nettrace_event *event, uint32_t *ret_active)
{
	struct cursor c = payload(event);
	*ret_active = cursor_u32(&c);
	return cursor_ok(&c);
}

bool clr_decode_pool_work(const struct nettrace_event *event, uint64_t *ret_id)
{
	struct cursor c = payload(event);
	*ret_id = cursor_u64(&c);
	return cursor_ok(&c);
}

bool clr_decode_assembly(const struct nettrace_event *event, struct clr_assembly *ret)
{
	struct cursor c = payload(event);
	ret->id = cursor_u64(&c);
	cursor_take(&c, 16); /* domain, binding */
	ret->flags = cursor_u32(&c);
	ret->name = cursor_utf16z(&c);
	return cursor_ok(&c);
}

bool clr_decode_module(const struct nettrace_event *event, struct clr_module *ret)
{
	struct cursor c = payload(event);
	ret->id = cursor_u64(&c);
	ret->assembly = cursor_u64(&c);
	(void)cursor_u64(&c);
	ret->path = cursor_utf16z(&c);
	return cursor_ok(&c);
}

bool clr_decode_assembly_bound(const struct nettrace_event *event, struct clr_assembly_bound *ret)
{
	struct cursor c = payload(event);
	cursor_u16(&c); /* runtime instance */
	ret->name = cursor_utf16z(&c);
	cursor_utf16z(&c); /* path that was asked for */
	cursor_utf16z(&c); /* requesting assembly */
	ret->context = cursor_utf16z(&c);
	cursor_utf16z(&c); /* its load context */
	ret->success = cursor_u32(&c) != 0;
	cursor_utf16z(&c); /* name of what was found */
	ret->path = cursor_utf16z(&c);
	ret->cached = cursor_u32(&c) != 0;
	return cursor_ok(&c);
}

bool clr_decode_jitting(const struct nettrace_event *event, struct clr_method *ret)
{
	struct cursor c = payload(event);
	*ret = (struct clr_method){ 0 };
	ret->id = cursor_u64(&c);
	ret->module = cursor_u64(&c);
	ret->token = cursor_u32(&c);
	ret->il_bytes = cursor_u32(&c);
	ret->space = cursor_utf16z(&c);
	ret->name = cursor_utf16z(&c);
	ret->signature = cursor_utf16z(&c);
	return cursor_ok(&c);
}

unsigned clr_method_tier(uint32_t flags)
{
	return flags >> 7 & 7;
}

const char *clr_tier_name(unsigned tier)
{
	static const char *const names[CLR_TIERS] = {
		"no tier told", "not optimised",	   "optimised at once",	   "tier 0",
		"tier 1",	"tier 1, in a loop (OSR)", "tier 0, instrumented", "tier 1, instrumented",
	};
	return names[tier % CLR_TIERS];
}

static const char *word(const char *const *words, size_t n, uint32_t i)
{
	return i < n && words[i] ? words[i] : "unknown reason";
}

const char *clr_gc_reason(uint32_t reason)
{
	static const char *const words[] = {
		"small-object allocation",
		"induced by GC.Collect",
		"low memory",
		"an empty GC",
		"large-object allocation",
		"out of small-object space",
		"out of large-object space",
		"induced, not forced",
		"internal",
		"induced by low memory",
		"induced, compacting",
		"low memory of the host",
		"a full GC of provisional mode",
		"low memory of the host, blocking",
		"tuning of background GC",
		"tuning of background GC",
		"stepping of background GC",
		"induced, aggressive",
	};
	return word(words, ARRAY_SIZE(words), reason);
}

bool clr_gc_induced(uint32_t reason)
{
	return reason == 1 || reason == 7 || reason == 10 || reason == 17;
}

const char *clr_suspend_reason(uint32_t reason)
{
	static const char *const words[] = {
		"other",    "garbage collection", "shutdown of an app domain", "code pitching",
		"shutdown", "debugger",		  "preparation of a GC",       "debugger sweep",
	};
	return word(words, ARRAY_SIZE(words), reason);
}

const char *clr_pool_reason(uint32_t reason)
{
	static const char *const words[] = {
		"warm-up",    "initialising", "random move",	      "climbing", "change of load", "stabilising",
		"starvation", "timed out",    "cooperative blocking",
	};
	return word(words, ARRAY_SIZE(words), reason);
}

const char *clr_gc_type(uint32_t type)
{
	static const char *const words[] = { "blocking", "background", "blocking during a background GC" };
	return type < ARRAY_SIZE(words) ? words[type] : "unknown";
}
