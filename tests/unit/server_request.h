#pragma once
/* A request as it comes from the wire, for tests of what answers it. */

#include "server/request.h"
#include "server/route.h"

static inline struct request *make_request(const char *method, const char *path)
{
	struct request *r = request_new(NULL);
	r->method = method_parse(method);
	r->method_name = method;
	r->path = path;
	return r;
}
