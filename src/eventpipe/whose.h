#pragma once
/* Whose code a method or type is, by its name: the one place that knows.
 *
 * What the program itself says of its assemblies comes first, where somebody has read that (struct whose_names; NULL =
 * nobody has); for all other names, a list of well-known ones. What is in neither counts as the user's own. Opens no
 * file. Names that are not added to any more may be asked by any thread. */

#include "base/base.h"

enum whose {
	WHOSE_YOURS,
	WHOSE_PACKAGE,	/* a library that few know: perhaps of the user's own company */
	WHOSE_LIBRARY,	/* Npgsql, Newtonsoft ... */
	WHOSE_PLATFORM, /* System.*, Microsoft.*, Interop ... */
};
/* Namespaces and full names of types; of two that fit the longer is right. At most 8,192; the first of equals stays. */
struct whose_names;
struct whose_names *whose_names_new(void);
void whose_names_free(struct whose_names *n);
DEFINE_CLEANUP(whose_names_free, struct whose_names *)
void whose_names_add(struct whose_names *n, const char *name, enum whose whose);
size_t whose_names_count(const struct whose_names *n);
const char *whose_names_get(const struct whose_names *n, size_t i, enum whose *ret);

/* By the full name of a type, or of what is in it, as the runtime says it or as it is shown: "Shop.Orders+<>c",
 * "lambda in Shop.Orders.PlaceAsync". */
enum whose whose_code(const struct whose_names *names, const char *space);
/* Is it code of the platform or of a library, rather than the user's? For a wait in a database driver the report should
 * name the user's method that called the driver. */
bool method_is_framework(const struct whose_names *names, const char *space);
/* Of these two the library. */
bool method_is_library(const struct whose_names *names, const char *space);
