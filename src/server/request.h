#pragma once
/* One request and its response, as handlers see them: no HTTP library here. A request belongs to one thread at a time;
 * everything in it is allocated in its arena or freed with it. */

#include "base/arena.h"
#include <stdatomic.h>
#include "base/buf.h"
#include "base/json.h"
#include "base/vec.h"
#include "http/local.h"
#include "server/stream.h"

struct server;
struct route;

/* What the sender may do. */
enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_FULL };

#define REQUEST_PARAMS_MAX 4
#define REQUEST_HEADERS_MAX 100
#define REQUEST_QUERY_MAX 64
#define REQUEST_BODY_MAX ((size_t)256 << 10)
/* Before the addresses by which the pages ask. */
#define PAGES_PREFIX "/ui"

struct pair {
	const char *name, *value; /* value may be "" */
};
VEC_TYPE(pairs, struct pair); /* in the arena's life: freed with the request */

struct response {
	int status; /* 0 = not answered */
	const char *type;
	struct buf body;
	const void *bytes; /* instead of body: lives for ever */
	size_t n_bytes;
	int fd; /* instead of body: a file, closed with the response; -1 = none */
	uint64_t fd_bytes;
	struct stream *stream; /* instead of body */
	struct pairs headers;
};

struct request {
	struct arena arena;
	struct server *server;
	const struct route *route;
	unsigned method; /* METHOD_... */
	const char *method_name, *path, *client;
	const char *params[REQUEST_PARAMS_MAX]; /* of the pattern, in order */
	size_t n_params;
	struct pairs headers, query;
	struct buf body;
	size_t body_bytes; /* that came */
	enum scope scope;
	bool shared;		     /* by a share link: sees no values out of a target's memory */
	bool from_page;		     /* by a route of the pages: answered also without the REST API */
	enum http_local_peer peer;   /* by the socket in the home: root and our own user need no token */
	bool too_large, too_many;    /* its body; its headers or arguments */
	const char *error_parameter; /* the key of the parameter that is wrong, or NULL */
	int error_status;	     /* of the next error, instead of what its kind says; 0 = that */
	struct response response;
	/* Of connections.c. */
	void *connection;
	int connection_fd;
	bool dispatched;
	/* A handler that has to wait long gives its thread back: it parks the request, and is called again, with the
	 * next round, when request_unpark() is called. */
	bool parked;
	unsigned round;
	atomic_int rendezvous;
	struct child *child; /* of commands; unreferenced with the request */
	uint64_t start_ns;
	struct request *next; /* in the queue of jobs */
};

/* The last thing a handler does; what will call request_unpark() may be started before. */
void request_park(struct request *r);
/* Any thread, once for each park. */
void request_unpark(struct request *r);

struct request *request_new(struct server *server);
void request_free(struct request *r);
DEFINE_CLEANUP(request_free, struct request *)

const char *request_header(const struct request *r, const char *name); /* any case; NULL without */
size_t request_header_count(const struct request *r, const char *name);
const char *request_query(const struct request *r, const char *name);
/* ERR_USAGE when it is there and no number of that range. */
struct err *request_query_u64(const struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t otherwise,
			      uint64_t *ret) MUST_USE;
struct err *request_query_bool(const struct request *r, const char *name, bool *ret) MUST_USE;
/* The body as a JSON object. ERR_USAGE says what is wrong with it, ERR_UNSUPPORTED that its type is not JSON. */
struct err *request_json(struct request *r, json_t **ret) MUST_USE;
/* The same, and checked by the schema that its route names. */
struct err *request_body(struct request *r, json_t **ret) MUST_USE;
/* Does the sender name this media type in Accept, so that it is preferred over plain text? */
bool request_accepts(const struct request *r, const char *type);
/* Does the sender accept it at all, also by a wildcard or without an Accept header? */
bool request_accepts_any(const struct request *r, const char *type);

void respond(struct request *r, int status, const char *type);
/* 200 and a writer for its body; close what you open. */
struct jsonw respond_json(struct request *r, int status);
void respond_header(struct request *r, const char *name, const char *value);
void respond_headerf(struct request *r, const char *name, const char *fmt, ...) PRINTF(3, 4);
void respond_text(struct request *r, int status, const char *text);
/* application/problem+json, or for "not found" the plain sentence of the contract unless problems are accepted. */
void respond_error(struct request *r, const struct err *err);
void respond_problem(struct request *r, int status, const char *detail);
int status_of(enum err_kind kind);
const char *status_title(int status);

#define TYPE_JSON "application/json; charset=utf-8"
#define TYPE_PROBLEM "application/problem+json; charset=utf-8"
#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_EVENTS "text/event-stream; charset=utf-8"
