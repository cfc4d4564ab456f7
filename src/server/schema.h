#pragma once
/* The objects of the REST API as a table: docs/rest.md and the OpenAPI document are made from it. */

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
