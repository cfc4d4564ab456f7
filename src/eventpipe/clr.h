#pragma once
/* What the runtime's own events mean. Its native providers send no field descriptions, so names and layouts are built
 * in here, as tables for the generic walker and as typed decoders for the events profilers count by the million.
 *
 * Payloads only grow between versions: a decoder takes what is there and refuses what is too short. */

#include "base/buf.h"
#include "base/cursor.h"
#include "nettrace/nettrace.h"

#define CLR_PROVIDER "Microsoft-Windows-DotNETRuntime"
#define CLR_RUNDOWN_PROVIDER "Microsoft-Windows-DotNETRuntimeRundown"
#define CLR_SAMPLE_PROVIDER "Microsoft-DotNETCore-SampleProfiler"
/* A managed provider of the framework: the thread pool reports its queue here. */
#define CLR_FRAMEWORK_PROVIDER "System.Diagnostics.Eventing.FrameworkEventSource"

enum clr_keyword {
	CLR_GC = 0x1,
	CLR_BINDER = 0x4,
	CLR_LOADER = 0x8,
	CLR_JIT = 0x10,
	CLR_NGEN = 0x20,
	CLR_CONTENTION = 0x4000,
	CLR_EXCEPTION = 0x8000,
	CLR_THREADING = 0x10000,
	CLR_IL_MAP = 0x20000, /* of a rundown: which IL native code comes from */
	CLR_TYPE = 0x80000,
	CLR_HEAP_DUMP = 0x100000,
	CLR_HEAP_COLLECT = 0x800000, /* enabling it makes the runtime collect at once, before it answers */
	CLR_HEAP_TYPE_NAMES = 0x1000000,
};
#define CLR_WAIT_HANDLE 0x40000000000ull /* from .NET 9 */
#define CLR_FRAMEWORK_THREAD_POOL 0x2ull /* of CLR_FRAMEWORK_PROVIDER, level 5 */
/* From .NET 10 on; beyond what an enum holds. */
#define CLR_ALLOCATION_SAMPLING 0x80000000000ull

/* What an event is, for a switch. */
enum clr_event {
	CLR_UNKNOWN = 1, /* not 0, so that a classified meta differs from a new one */
	CLR_GC_START,
	CLR_GC_END,
	CLR_GC_HEAP_STATS,
	CLR_GC_HEAP_HISTORY, /* of one heap, at the end of a GC */
	CLR_GC_TRIGGERED,    /* on the thread that asks for it */
	CLR_SUSPEND_BEGIN,
	CLR_SUSPEND_END,
	CLR_RESTART_BEGIN,
	CLR_RESTART_END,
	CLR_ALLOCATION_TICK,
	CLR_ALLOCATION_SAMPLED,
	CLR_EXCEPTION_THROWN,
	CLR_METHOD_LOAD, /* loaded, or listed by a rundown */
	CLR_METHOD_UNLOAD,
	CLR_CONTENTION_START,
	CLR_CONTENTION_STOP,
	CLR_WAIT_START, /* on a wait handle or in Monitor.Wait */
	CLR_WAIT_STOP,
	CLR_POOL_WORKER_START,
	CLR_POOL_WORKER_STOP,
	CLR_POOL_ADJUSTMENT,
	CLR_POOL_ENQUEUE,
	CLR_POOL_DEQUEUE,
	CLR_THREAD_CREATING, /* reported by the thread that starts it */
	CLR_THREAD_SAMPLE,
	CLR_ASSEMBLY_LOAD, /* loaded, or listed by a rundown */
	CLR_ASSEMBLY_UNLOAD,
	CLR_MODULE_LOAD, /* loaded, or listed by a rundown */
	CLR_ASSEMBLY_BOUND,
	CLR_METHOD_JITTING, /* about to be compiled */
	/* A heap, reported during a collection; see clr_heap.h. */
	CLR_BULK_TYPE,
	CLR_BULK_ROOT,
	CLR_BULK_LINK,
	CLR_BULK_NODE,
	CLR_BULK_EDGE,
	CLR_BULK_STATIC,
};
/* Classified once per meta, remembered in meta->user. */
enum clr_event clr_event(const struct nettrace_event *event);

struct clr_gc_start {
	uint32_t number, generation, reason, type;
};
bool clr_decode_gc_start(const struct nettrace_event *event, struct clr_gc_start *ret);
struct clr_gc_end {
	uint32_t number, generation;
};
bool clr_decode_gc_end(const struct nettrace_event *event, struct clr_gc_end *ret);
#define CLR_GENERATIONS 5 /* 0, 1, 2, large objects, pinned objects */
struct clr_heap_stats {
	uint64_t size[CLR_GENERATIONS], promoted[CLR_GENERATIONS];
	uint32_t pinned, handles;
};
bool clr_decode_heap_stats(const struct nettrace_event *event, struct clr_heap_stats *ret);
struct clr_heap_history {
	uint32_t heap;
	uint64_t before_bytes, after_bytes; /* all generations of that heap */
	struct {
		uint64_t before, free_before, after, free_after; /* free: holes inside, part of the size */
	} generations[CLR_GENERATIONS];
};
bool clr_decode_heap_history(const struct nettrace_event *event, struct clr_heap_history *ret);
/* Of a GC that is asked for; the GC itself may come later, or have been asked for by another thread. */
bool clr_decode_gc_triggered(const struct nettrace_event *event, uint32_t *ret_reason);
struct clr_suspend {
	uint32_t reason, gc_number;
};
bool clr_decode_suspend(const struct nettrace_event *event, struct clr_suspend *ret);

enum { CLR_HEAP_SMALL, CLR_HEAP_LARGE, CLR_HEAP_PINNED };
struct clr_allocation {
	uint32_t heap;
	struct utf16_span type;
	uint64_t object_bytes; /* of the one sampled object; 0 = not reported (ticks before .NET 5) */
	uint64_t tick_bytes;   /* ticks only: allocated on that heap since its last tick, of whatever types */
};
/* AllocationTick and AllocationSampled. */
bool clr_decode_allocation(const struct nettrace_event *event, struct clr_allocation *ret);

enum { CLR_EXCEPTION_HAS_INNER = 1, CLR_EXCEPTION_NESTED = 2, CLR_EXCEPTION_RETHROWN = 4 };
struct clr_exception {
	struct utf16_span type, message;
	uint32_t hresult;
	uint16_t flags;
};
bool clr_decode_exception(const struct nettrace_event *event, struct clr_exception *ret);

struct clr_method {
	uint64_t id, module, start;
	uint32_t size, token, flags, il_bytes;	  /* il_bytes: only of one that is about to be compiled */
	struct utf16_span space, name, signature; /* space: the type with its namespace */
};
bool clr_decode_method(const struct nettrace_event *event, struct clr_method *ret);
enum {
	CLR_METHOD_DYNAMIC = 0x1,
	CLR_METHOD_JITTED = 0x8,    /* else precompiled */
	CLR_METHOD_REJECTED = 0x60, /* there was precompiled code, and it could not be used */
};
#define CLR_TIERS 8
unsigned clr_method_tier(uint32_t flags); /* below CLR_TIERS */
const char *clr_tier_name(unsigned tier); /* "tier 0", "tier 1" ... */

struct clr_contention {
	uint64_t lock, object, owner; /* owner: the thread that has it, 0 when unknown (also before .NET 8) */
};
bool clr_decode_contention_start(const struct nettrace_event *event, struct clr_contention *ret);
/* How long it waited; false when the runtime does not say. */
bool clr_decode_contention_stop(const struct nettrace_event *event, uint64_t *ret_ns);

struct clr_pool_adjustment {
	uint32_t workers, reason; /* the new count, and why */
};
enum { CLR_POOL_STARVATION = 6, CLR_POOL_COOPERATIVE_BLOCKING = 8 };
bool clr_decode_pool_adjustment(const struct nettrace_event *event, struct clr_pool_adjustment *ret);
/* Of a worker's start or stop: how many there are then. */
bool clr_decode_pool_workers(const struct nettrace_event *event, uint32_t *ret_active);
/* Of an enqueue or dequeue: the work item. */
bool clr_decode_pool_work(const struct nettrace_event *event, uint64_t *ret_id);

enum { CLR_ASSEMBLY_DYNAMIC = 2, CLR_ASSEMBLY_COLLECTIBLE = 8 };
struct clr_assembly {
	uint64_t id;
	uint32_t flags;
	struct utf16_span name; /* with version, culture and key */
};
bool clr_decode_assembly(const struct nettrace_event *event, struct clr_assembly *ret);
struct clr_module {
	uint64_t id, assembly;
	struct utf16_span path; /* of the file with its code */
};
bool clr_decode_module(const struct nettrace_event *event, struct clr_module *ret);
struct clr_assembly_bound {
	struct utf16_span name, path, context; /* context: "Default", or "\"plugin-1\" My.LoadContext #3" */
	bool success, cached;
};
bool clr_decode_assembly_bound(const struct nettrace_event *event, struct clr_assembly_bound *ret);
/* A method that is about to be compiled: id, module, token, bytes of IL, space, name, signature. */
bool clr_decode_jitting(const struct nettrace_event *event, struct clr_method *ret);

/* In words. */
const char *clr_pool_reason(uint32_t reason);	 /* "starvation", "climbing" ... */
const char *clr_gc_reason(uint32_t reason);	 /* "small-object allocation", "induced (GC.Collect)" ... */
bool clr_gc_induced(uint32_t reason);		 /* by a call of GC.Collect and the like */
const char *clr_suspend_reason(uint32_t reason); /* "garbage collection", "code versioning" ... */
const char *clr_gc_type(uint32_t type);		 /* "blocking", "background", "blocking during a background GC" */

/* Name and fields of an event that does not describe itself; false when it is not in the tables. The meta is filled in
 * for good (name, fields), so that the generic walker can go over it. Call from the reader's meta callback. */
bool clr_describe(struct nettrace_meta *meta);
