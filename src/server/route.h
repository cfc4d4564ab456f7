#pragma once
/* The one table of what the server answers: matching, rights, documentation and the OpenAPI document read it. */

#include "server/request.h"

enum { METHOD_GET = 1, METHOD_POST = 2, METHOD_PUT = 4, METHOD_DELETE = 8 };

enum {
	ROUTE_INLINE = 1,   /* never waits: answered in the thread of the connection */
	ROUTE_CONTRACT = 2, /* of the Dr-Dotnet contract */
	ROUTE_ALWAYS = 4,   /* also without the REST API */
	ROUTE_SECRET = 8,   /* its query holds a secret: not logged */
};

struct route_query {
	const char *name, *type, *help; /* type: "integer", "string", "boolean", "number" */
	bool required;
};

struct route {
	unsigned method;
	const char *pattern; /* "/api/sessions/{guid}/log" */
	enum scope scope;
	unsigned flags;
	struct err *(*handle)(struct request *r);
	/* For people and OpenAPI. */
	const char *id, *tag, *summary;
	const struct route_query *query; /* ended by name NULL */
	const char *body;		 /* schema of the JSON body, or NULL */
	const char *result;		 /* schema of the JSON answer ("SessionInfo", "SessionInfo[]"), or NULL */
	const char *types;		 /* other media types of the answer, separated by blanks */
	const char *errors;		 /* "400 404" */
};

const struct route *routes_all(size_t *ret_n);
const char *method_word(unsigned method);
unsigned method_parse(const char *word); /* HEAD is GET; 0 = not known */

/* Does the pattern match? Literal parts in any case; parameters are given decoded, from the arena. */
bool route_match(const char *pattern, const char *path, struct arena *arena, const char *ret[REQUEST_PARAMS_MAX],
		 size_t *ret_n);
/* Sets route and params. NULL: no such path; *ret_allowed are then 0, or the methods that the path has. */
const struct route *routes_find(struct request *r, unsigned *ret_allowed);
