#pragma once
/* The objects of the REST API as a table: docs/rest.md and the OpenAPI document are made from it, and what comes in is
 * checked by it. */

#include "base/err.h"
#include "base/json.h"

struct schema_field {
	const char *name;
	/* string integer number boolean object any, or another schema; "[]" behind it = an array, "?" = may be null,
	 * "*" at the very end = may be left out. */
	const char *type;
	const char *help;
};
struct schema {
	const char *name, *help;
	const struct schema_field *fields; /* ended by name NULL */
};
/* Ended by name NULL. */
extern const struct schema schemas[];

/* Has the object only members that its schema names, each of its type? ERR_USAGE names the first that is wrong. What is
 * missing is for the caller to say. */
struct err *schema_check(const char *name, const json_t *object) MUST_USE;
