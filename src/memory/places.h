#pragma once
/* Where objects are kept, in the words of the code's author: the nearest field of the user's own on the way from the
 * roots, and what all of it hangs on. Objects that are kept in the same way share a place.
 *
 * The way is the shortest one. Without anything of the user's own on it, it is the static field at its beginning, or
 * the type of the object that a stack or a handle holds. */

#include "memory/heap_look.h"

struct places;
/* The graph must be dominated, and outlive it. */
struct places *places_new(const struct heapgraph *g);
void places_free(struct places *p);
DEFINE_CLEANUP(places_free, struct places *)

/* Of an object that somebody holds; numbers from 0 on. */
uint32_t places_of(struct places *p, uint32_t object);
size_t places_count(const struct places *p);
/* "Shop.Orders.OrderLine.Status", "static Shop.Cache._names"; appended. */
void place_field(const struct places *p, uint32_t place, struct buf *out);
/* "static Shop.Orders.OrderBook.Lines"; nothing when it is the same as the field. */
void place_holder(const struct places *p, uint32_t place, struct buf *out);
/* Both: "Shop.Orders.OrderLine.Status in static Shop.Orders.OrderBook.Lines". */
void place_name(const struct places *p, uint32_t place, struct buf *out);
/* The way from the root to an object: "static Shop.OrderBook.Lines → List<OrderLine>._items → ..."; long ones lose
 * their middle. */
void place_path(const struct places *p, uint32_t object, struct buf *out);
