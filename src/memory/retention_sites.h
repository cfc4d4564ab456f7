#pragma once
/* Where objects are kept, in terms of the source code: the nearest field of the user's own on the path from the roots,
 * and the root. Objects that are kept in the same way share a site.
 *
 * The path is the shortest one. Without anything of the user's own on it, the site is the static field at its
 * beginning, or the type of the object that a stack or a handle holds. */

#include "memory/heap_look.h"

struct retention_sites;
/* The graph must be dominated, and outlive it. */
struct retention_sites *retention_sites_new(const struct heapgraph *g);
void retention_sites_free(struct retention_sites *p);
DEFINE_CLEANUP(retention_sites_free, struct retention_sites *)

/* Of an object that is reachable; numbers from 0 on. */
uint32_t retention_sites_of(struct retention_sites *p, uint32_t object);
size_t retention_sites_count(const struct retention_sites *p);
/* "Shop.Orders.OrderLine.Status", "static Shop.Cache._names"; appended. */
void retention_site_field(const struct retention_sites *p, uint32_t place, struct buf *out);
/* "static Shop.Orders.OrderBook.Lines"; nothing when it is the same as the field. */
void retention_site_holder(const struct retention_sites *p, uint32_t place, struct buf *out);
/* Both: "Shop.Orders.OrderLine.Status in static Shop.Orders.OrderBook.Lines". */
void retention_site_name(const struct retention_sites *p, uint32_t place, struct buf *out);
/* The path from the root to an object: "static Shop.OrderBook.Lines → List<OrderLine>._items → ..."; long ones lose
 * their middle. */
void retention_site_path(const struct retention_sites *p, uint32_t object, struct buf *out);
