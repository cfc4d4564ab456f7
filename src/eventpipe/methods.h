#pragma once
/* Managed code ranges and the methods in them, from method-load and rundown events: an address in, a method out.
 *
 * A method may have several ranges (tiers), a range may be used again after an unload: the later one is used. Names are
 * kept as the runtime sends them; methods_show() writes them as the author did. */

#include "base/buf.h"
#include "eventpipe/modules.h"
#include "eventpipe/whose.h"
#include "nettrace/nettrace.h"

struct methods;
struct methods *methods_new(void);
void methods_free(struct methods *m);
DEFINE_CLEANUP(methods_free, struct methods *)

/* Takes method-load, -unload and rundown events, and those of the modules that methods are in; ignores all others. */
void methods_event(struct methods *m, const struct nettrace_event *event);
/* A method that is known from elsewhere, such as a file. */
void methods_add(struct methods *m, uint64_t start, uint32_t size, const char *space, const char *name);
size_t methods_count(const struct methods *m);

struct method {
	uint64_t start;
	uint32_t size, flags;
	uint32_t order;	 /* of arrival: differs when a range is used again */
	uint32_t token;	 /* of its metadata; 0 = not known */
	uint64_t module; /* its id, see methods_module() */
	const char *space, *name, *signature;
};
/* NULL when no known code is there. Valid until the next event. */
const struct method *methods_find(struct methods *m, uint64_t address);

/* All of them in order of address, each start once. */
void methods_each(struct methods *m, void (*each)(void *user, const struct method *method), void *user);

/* A type that is the state machine of an async method or iterator: appends the method as the compiler named it,
 * "Program+<>c" and "<Main>b__0_7" of "Program+<>c+<<Main>b__0_7>d". */
bool method_of_machine(const char *space, struct buf *ret_space, struct buf *ret_name);
/* What may be known of a method beside its name; NULL or "" = not. */
struct method_origin {
	const char *line;  /* "Program.cs:41": where it begins */
	const char *route; /* "GET /orders/{id}": the requests that it handles */
};
/* The file of a method's module; false when it was not told. */
bool methods_module(const struct methods *m, uint64_t module, struct clr_module_file *ret);
/* Where a method stands in the source, or which requests it handles, found by somebody who can: all methods of that
 * name are shown so, and the state machines that were made of them. NULL leaves what was set. Texts are copied. */
void methods_set_place(struct methods *m, const char *space, const char *name, const struct method_origin *place);
/* The name that the author knows, with its place where one was set. */
void methods_show(const struct methods *m, const struct method *method, struct buf *out);

/* "Shop.Orders.PlaceAsync", "lambda 2 in Shop.Orders.Load", "Shop.List<T>.Add": the name an author would know. */
void method_show(const char *space, const char *name, struct buf *out);
/* A function that has no name in the source. */
bool method_is_lambda(const char *space, const char *name);
/* The name with its place: a lambda goes by its place, "GET /orders/{id}, Program.cs:41" or "lambda at Program.cs:41 in
 * Program.Main"; another method keeps its name, "Shop.Orders.Place (POST /orders)", without the line. */
void method_show_at(const char *space, const char *name, const struct method_origin *place, struct buf *out);
/* A type's name likewise: "System.Collections.Generic.List`1[System.Int32]" is "List<Int32>" with its namespace. */
void type_show(const char *name, struct buf *out);
/* By its shown name: an expression that was compiled at run time, as web frameworks do to call a route's handler. The
 * handler may be inlined in it, and then has no frame of its own. */
bool method_is_compiled(const char *shown);
/* The type of a suspended async method's task: appends the method, "Shop.Bank.PayAsync". False: it is not one. */
bool type_async_method(const char *name, struct buf *out);
