#pragma once
/* The inside of inspect, for its commands. */

#include "base/cursor.h"
#include "heap/walk.h"
#include "inspect/inspect.h"
#include "model/heapgraph.h"

struct inspect {
	char *source;
	struct image_exam look;
	struct whose_names *whose; /* of a core that it opened itself */
	struct heap *heap;	   /* opened by inspect_heap() */
	struct dac_threads threads;
	bool has_threads, has_outline;
	struct heap_outline outline;
	struct heapgraph *graph; /* made by inspect_graph() */
	int cancel_fd;
};

/* ---- what commands ask for first ---- */

struct err *inspect_threads(struct inspect *in, const struct dac_threads **ret) MUST_USE;
struct err *inspect_heap(struct inspect *in, struct heap **ret) MUST_USE;
/* Where objects are. A core without the heap: ERR_NOT_FOUND says what it is good for. */
struct err *inspect_outline(struct inspect *in, const struct heap_outline **ret) MUST_USE;
/* All objects, dominated; slow the first time. */
struct err *inspect_graph(struct inspect *in, struct heapgraph **ret) MUST_USE;
/* Only the part of it that is a shortest path to that object; the caller frees. */
struct err *inspect_way(struct inspect *in, uint64_t object, struct heapgraph **ret) MUST_USE;
/* ERR_CANCELLED once the user asked to stop. */
struct err *inspect_go_on(const struct inspect *in) MUST_USE;

/* ---- reading words ---- */

/* Hexadecimal, with or without 0x. */
struct err *inspect_address(const char *word, uint64_t *ret) MUST_USE;
/* By managed id, "tid:1234" or name. */
struct err *inspect_thread(struct inspect *in, const char *word, const struct dac_thread **ret) MUST_USE;
/* An address that an object begins at. Says what is there instead: the inside of an object (and of which), a gap that a
 * collection left, memory of another kind, nothing. */
struct err *inspect_object(struct inspect *in, const char *word, uint64_t *ret) MUST_USE;
/* The object or gap around an address of that region, by walking the region from its start. */
bool inspect_object_around(struct inspect *in, const struct heap_region *region, uint64_t address,
			   struct heap_found *ret);
/* Does a type's name fit what was asked for? The whole of it, its end behind a dot, or a part between stars. */
bool inspect_type_fits(const char *shown, const char *wanted);

/* Method tables of loaded types that fit the name; none is no error. Call inspect_heap first. */
struct err *inspect_find_types(struct inspect *in, const char *wanted, struct dac_addresses *ret) MUST_USE;

/* The method table or method description of "Shop.dll!06000012". */
enum inspect_table { INSPECT_TYPE = 0x02, INSPECT_METHOD = 0x06 };
struct err *inspect_token(struct inspect *in, const char *word, enum inspect_table table, uint64_t *ret) MUST_USE;
struct method_place {
	uint64_t method; /* description */
	uint64_t ip;	 /* an address in its code; 0 = it is not compiled */
};
/* By an address in its code, by name (first one that some thread is in), or by its token. */
struct err *inspect_find_method(struct inspect *in, const char *word, struct method_place *ret) MUST_USE;

/* One instruction of IL. */
struct il_op {
	const char *name;
	uint32_t offset;
	uint32_t token; /* its operand, when that is one; else 0 */
};
/* The next one of size bytes of code, its operand appended unless it is a token. False at the end, or where no
 * instruction is: then only the offset is set. */
bool il_next(struct cursor *c, size_t size, struct il_op *ret, struct buf *operand);

/* ---- words for things; all appended, for people ---- */

void inspect_add_type(struct inspect *in, const struct heap_type *type, struct buf *out);
void inspect_add_method(struct inspect *in, uint64_t method, struct buf *out);
void inspect_add_thread(const struct dac_thread *t, struct buf *out);
/* "0", "1", "2", "large", "pinned", "frozen" */
const char *inspect_generation(enum heap_generation generation);
/* What a delegate calls; nothing when that cannot be known. */
void inspect_add_delegate(struct inspect *in, struct heap_value delegate, struct buf *out);
/* A short form of what an address refers to: null, "text", Type 0x... */
void inspect_add_ref(struct inspect *in, uint64_t object, struct buf *out);
/* The value of a field at that address. */
void inspect_add_value(struct inspect *in, const struct heap_field *field, uint64_t at, struct buf *out);

/* Commands, by file. */
#define INSPECT_COMMAND(name)                                                                                          \
	struct err *name(struct inspect *in, const char *const *words, size_t n, struct answer *a) MUST_USE
INSPECT_COMMAND(inspect_info);
INSPECT_COMMAND(inspect_list_threads);
INSPECT_COMMAND(inspect_stacks);
INSPECT_COMMAND(inspect_exceptions);
INSPECT_COMMAND(inspect_modules);
INSPECT_COMMAND(inspect_stack_objects);
INSPECT_COMMAND(inspect_locals);
INSPECT_COMMAND(inspect_heap_stat);
INSPECT_COMMAND(inspect_show_object);
INSPECT_COMMAND(inspect_roots);
INSPECT_COMMAND(inspect_retained);
INSPECT_COMMAND(inspect_locks);
INSPECT_COMMAND(inspect_tasks);
INSPECT_COMMAND(inspect_pool);
INSPECT_COMMAND(inspect_timers);
INSPECT_COMMAND(inspect_handles);
INSPECT_COMMAND(inspect_finalizers);
INSPECT_COMMAND(inspect_gcheap);
INSPECT_COMMAND(inspect_type);
INSPECT_COMMAND(inspect_method);
INSPECT_COMMAND(inspect_verify_heap);
INSPECT_COMMAND(inspect_find_string);
INSPECT_COMMAND(inspect_where);
INSPECT_COMMAND(inspect_memory);
INSPECT_COMMAND(inspect_registers);
INSPECT_COMMAND(inspect_referrers);
INSPECT_COMMAND(inspect_requests);
INSPECT_COMMAND(inspect_il);
INSPECT_COMMAND(inspect_loader);
