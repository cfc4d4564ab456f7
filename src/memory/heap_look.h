#pragma once
/* A look at the managed heap: every object, what holds it, and where the rest of the memory is. Shared by the profilers
 * of memory; a recording of one can be replayed by the others of the same format. */

#include "heap/drain.h"
#include "model/heapgraph.h"
#include "exam/image_exam.h"
#include "memory/heap_notes.h"
#include "memory/memory_areas.h"

#define HEAP_LOOK_VERSION 1

struct heap_look {
	struct exam *exam;
	struct heapgraph *graph;
	struct heap_notes notes;
	struct image_exam_facts facts;
	uint32_t threads_unread;
	unsigned drains; /* that were begun for this look */
	/* Callbacks for data beyond the graph. NULL = none. */
	void (*on_object)(void *user, struct heap_walk *walk, const struct heap_found *found, uint32_t number);
	void (*on_done)(void *user, struct heap *h, struct buf *out); /* while the copy still lives */
	struct err *(*take_more)(void *user, struct cursor *in);      /* what on_done wrote */
	void *user;
};
/* Part is the name of this look in the recording: "heap". The graph is dominated already. */
struct err *heap_look(struct heap_look *look, struct exam *exam, const char *part) MUST_USE;
void heap_look_fini(struct heap_look *look);
/* Only what survived a collection is known: no garbage, free room, generations and fields. */
static inline bool heap_look_alive_only(const struct heap_look *look)
{
	return look->facts.gcdump || look->facts.events;
}
/* "How it was measured" beside image_exam_how(): how much was walked, and what was not. */
void heap_look_how(struct report *report, const struct heap_look *look);

/* "1,000 objects wait for their finalizers, and the finalizer thread is in Shop.Connection.Flush", appended. Nothing
 * when few wait, or their thread runs no finalizer of the user's own. */
void heap_finalizers_words(const struct heap_look *look, struct buf *out);

/* The resident bytes of these areas, by what a graph knows of them. */
void heap_areas(const struct memory_areas *areas, struct graph_facts *facts);
extern const char *const heap_area_names[GRAPH_AREAS];
extern const char *const heap_generation_names[GRAPH_GENERATIONS];

/* ---- names, all appended ---- */

/* "Dictionary<Int32, Order>" with its namespaces; "async Shop.Bank.PayAsync", "Shop.Bank.(closure)". */
void heap_type_name(const struct heapgraph *g, uint32_t type, struct buf *out);
/* The same without namespaces, for tables. */
void heap_type_short(const struct heapgraph *g, uint32_t type, struct buf *out);
/* "static Shop.Cache._orders", "stack of thread 'mailer' in Shop.Mail.Send", "strong handles"; without its kind
 * "Shop.Cache._orders". */
void heap_root_name(const struct heapgraph *g, uint32_t root, bool with_kind, struct buf *out);
/* Which root tells most about who keeps something, 0 = most: the user's own fields, other static fields, handles, the
 * finalizer, stacks. For heapgraph_shortest_by_rank(). */
unsigned heap_root_rank(const struct graph_root_set *set);
/* The author's name of a field: "Price" of "<Price>k__BackingField". */
void heap_field_name(const char *field, struct buf *out);
/* Which reference of an object leads to the other; GRAPH_NONE = none. */
uint32_t heap_slot(const struct heapgraph *g, uint32_t from, uint32_t to);
/* ".Price"; nothing when it has no name. */
void heap_slot_name(const struct heapgraph *g, uint32_t type, uint32_t slot, struct buf *out);
/* "static Shop.Cache._orders → List<Order>._items → Order[]", the middle of a long one left out. from: the tree of
 * heapgraph_path(). */
void heap_path_words(const struct heapgraph *g, const uint32_t *from, uint32_t object, struct buf *out);
/* Which types have the text in their name, upper or lower case; all have "". Returns how many; ret by type. */
size_t heap_types_like(const struct heapgraph *g, const char *text, bool *ret);
/* Marks what is of the user's own code: types that are neither the platform's nor arrays, static fields of such types.
 * heap_look() has done it for its graph. */
void heap_mark_own(struct heapgraph *g, const struct whose_names *whose);
/* Captured variables of a lambda, which the compiler keeps in a class of its own. */
bool heap_type_is_closure(const struct heapgraph *g, uint32_t type);
