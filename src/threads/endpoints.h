#pragma once
/* Which HTTP requests a method handles, by the endpoints that ASP.NET Core keeps on the heap: "GET /orders/{id}" of the
 * lambda of a minimal API or of the action of a controller.
 *
 * An endpoint names its handler by a MethodInfo, so the answer is exact for a method; the body of an async handler is
 * found by the name that the compiler made of its handler's. Everything read is hostile. Bounded. Not for threads. */

#include "exam/image_exam.h"
#include "heap/objects.h"

struct endpoints;
/* The look and the heap must outlive it, until endpoints_settle(). */
struct endpoints *endpoints_new(struct image_exam *look, struct heap *heap);
void endpoints_free(struct endpoints *e);
DEFINE_CLEANUP(endpoints_free, struct endpoints *)
/* Of somebody who walks the heap: is it a type that says something of endpoints, and then each such object. */
bool endpoints_is_type(const struct heap_type *type);
void endpoints_add(struct endpoints *e, uint64_t object);
/* All were added: learns the names of their handlers. Before it no question has an answer. */
void endpoints_settle(struct endpoints *e);
/* All of it in a walk of its own, of at most a second; NULL when there are none. */
struct endpoints *endpoints_find(struct image_exam *look);

/* By metadata: dac_method.module and token. NULL: it handles none. e may be NULL. */
const char *endpoints_route(const struct endpoints *e, uint64_t module, uint32_t token);
/* By the name in the runtime's words, also of an async handler's MoveNext. NULL as well when several handlers have that
 * name. e may be NULL. */
const char *endpoints_route_named(const struct endpoints *e, const char *space, const char *name);
/* Of code that the framework compiled from an expression to call a handler, which may be inlined in it: the handler as
 * its author knows it, "Shop.OrdersController.Place (POST /orders)". NULL: it is none. e may be NULL. */
const char *endpoints_calls(const struct endpoints *e, uint64_t method);
