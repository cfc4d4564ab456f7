#pragma once
/* How objects are kept, in the words of who wrote the program: "event Shop.Orders.Changed (4,012 subscribers)", "timers
 * calling Shop.Poller.Tick every 1 min", "the disposables of the root service scope".
 *
 * From an object up to a root, each reference that means something is a retainer: a field of the user's own, or a shape of
 * the framework that the table of rules knows (retainer_rules.c). Of several paths the one from the most telling root
 * counts (heap_root_rank), and of those the shortest. Objects that are kept in the same way are one group.
 *
 * The graph and the notes must outlive it. The graph is hostile; time and memory are linear in it. */

#include "memory/heap_look.h"

struct retainers;
/* notes may be NULL. */
struct retainers *retainers_new(const struct heapgraph *g, const struct heap_notes *notes);
void retainers_free(struct retainers *k);
DEFINE_CLEANUP(retainers_free, struct retainers *)

struct kept_group {
	uint32_t chain;		 /* for the functions below */
	uint32_t object;	 /* one of them */
	uint64_t objects, bytes; /* bytes: of the objects alone */
};
VEC_TYPE(kept_groups, struct kept_group);
/* Groups these objects; those that are not reachable are left out. Most objects first. */
void retainers_group(struct retainers *k, const uint32_t *objects, size_t n, struct kept_groups *ret);

/* "variable page of lambda in Shop.Page.Open, in event Shop.Orders.Changed (4,012 subscribers), in static
 * Shop.Orders.All"; appended. */
void retainer_words(const struct retainers *k, uint32_t chain, struct buf *out);
/* Does it say more than fields and roots? Then a rule of the framework's shapes is in it. */
bool retainer_is_telling(const struct retainers *k, uint32_t chain);
/* What to do about it: of the first rule that knows; NULL = none does. */
const char *retainer_advice(const struct retainers *k, uint32_t chain);
/* Every step from the root to the object: "static Shop.OrderBook.Lines → List<OrderLine>._items → ..."; long paths lose
 * their middle. */
void retainer_path(const struct retainers *k, uint32_t object, struct buf *out);
