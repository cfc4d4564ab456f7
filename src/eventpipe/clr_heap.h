#pragma once
/* A heap in the runtime's own events: while a collection has all managed threads suspended, the runtime reports every
 * object that survives. Each event holds many of one kind:
 *
 *   type    u32 n, u16 runtime, n * { u64 type, u64 module, u32 token, u32 flags, u8 element, name, u32 params, u64... }
 *   root    u32 index, u32 n, u16 runtime, n * { u64 object, u8 kind, u32 flags, u64 root }
 *   link    u32 index, u32 n, u16 runtime, n * { u64 key, u64 value, u64 root }             (dependent handles)
 *   node    u32 index, u32 n, u16 runtime, n * { u64 object, u64 size, u64 type, u64 edges }
 *   edge    u32 index, u32 n, u16 runtime, n * { u64 object, u32 field }                    (in the order of the nodes)
 *   static  u32 n, u64 domain, u16 runtime, n * { u64 root, u64 object, u64 type, u32 flags, field }
 *
 *	struct clr_bulk bulk;
 *	struct clr_heap_node node;
 *	for (clr_bulk_open(event, &bulk); clr_bulk_node(&bulk, &node);)
 *		...
 *	if (bulk.damaged) ...
 *
 * All input is hostile; nothing is kept. */

#include "eventpipe/clr.h"

struct clr_bulk {
	struct cursor in;
	uint32_t index, left; /* index: of the event among those of its kind; 0 where there is none */
	bool damaged;
};
/* Of any of the kinds CLR_BULK_*. */
void clr_bulk_open(const struct nettrace_event *event, struct clr_bulk *ret);

struct clr_heap_type {
	uint64_t id, module;
	uint32_t token, flags;
	struct utf16_span name;
	const uint8_t *params; /* n_params ids of 8 bytes, unaligned */
	uint32_t n_params;
};
enum { CLR_HEAP_TYPE_ARRAY = 8 };
enum { CLR_ROOT_STACK, CLR_ROOT_FINALIZER, CLR_ROOT_HANDLE, CLR_ROOT_OLDER, CLR_ROOT_SIZED, CLR_ROOT_OVERFLOW };
enum { CLR_ROOT_PINNED = 1, CLR_ROOT_WEAK = 2, CLR_ROOT_INTERIOR = 4, CLR_ROOT_REF_COUNTED = 8 };
struct clr_heap_root {
	uint64_t object;
	uint32_t flags;
	uint8_t kind;
};
struct clr_heap_link {
	uint64_t key, value;
};
struct clr_heap_node {
	uint64_t object, size, type, edges;
};
struct clr_heap_static {
	uint64_t object, type;
	bool of_thread;
	struct utf16_span field;
};
/* The next one; false at the end, and when what is left is damaged. */
bool clr_bulk_type(struct clr_bulk *bulk, struct clr_heap_type *ret);
bool clr_bulk_root(struct clr_bulk *bulk, struct clr_heap_root *ret);
bool clr_bulk_link(struct clr_bulk *bulk, struct clr_heap_link *ret);
bool clr_bulk_node(struct clr_bulk *bulk, struct clr_heap_node *ret);
bool clr_bulk_edge(struct clr_bulk *bulk, uint64_t *ret_object);
bool clr_bulk_static(struct clr_bulk *bulk, struct clr_heap_static *ret);
