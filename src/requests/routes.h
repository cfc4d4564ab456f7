#pragma once
/* Which endpoint a path belongs to. Where the process tells its route templates they are matched as its router does: literal
 * before constrained parameter before parameter before catch-all, segment by segment. Where it does not, segments that look
 * like ids become "{id}", and so do those of a place where there are many different ones.
 *
 * Paths and templates are hostile and may be long; memory is bounded. Knows neither events nor reports. */

#include "base/buf.h"

struct routes;
struct routes *routes_new(void);
void routes_free(struct routes *r);
DEFINE_CLEANUP(routes_free, struct routes *)

/* The process handled `requests` more of that method and template ("/orders/{id:int}"); failed of them with a status of 500
 * or more. */
void routes_add(struct routes *r, const char *method, const char *pattern, uint64_t requests, uint64_t failed);
/* The tags of the meter http.server.request.duration: "http.request.method=GET,http.response.status_code=200,...". Without a
 * route they say nothing. */
void routes_add_tags(struct routes *r, const char *tags, uint64_t requests);
size_t routes_count(const struct routes *r);

#define ROUTE_NONE SIZE_MAX
size_t routes_match(const struct routes *r, const char *method, const char *path);
struct route_facts {
	const char *method, *pattern;
	uint64_t requests, failed; /* as the process counted them */
};
struct route_facts routes_facts(const struct routes *r, size_t route);

/* Appends the path with each segment that looks like an id replaced by "{id}". */
void route_fold(const char *path, struct buf *out);
/* Replaces each path (mem_*) by what it is grouped under, after route_fold() of all: a segment that has more than
 * ROUTE_SIBLINGS values behind the same beginning becomes "{id}" too. */
#define ROUTE_SIBLINGS 20
void routes_merge(char **paths, size_t n);
