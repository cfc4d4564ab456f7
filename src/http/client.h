#pragma once
/* A small HTTP/1.1 client: one request, one response, as a stream. Plain and TLS (checked against the system's
 * certificates, or one file of them). Every wait has a deadline or ends with a descriptor. One thread. */

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

/* Does it begin as an address does: "http://", "https://"? */
bool http_is_address(const char *text);
/* An address in two: "https://host:9292", and the rest from its "/" on without a fragment. The caller frees both. */
void http_split(const char *address, char **ret_site, char **ret_path);

struct http_client;
enum http_way {
	HTTP_NETWORK,
	HTTP_LOCAL_FIRST, /* on a loopback address by the socket in our home (http/local.h), where there is one */
	HTTP_LOCAL_ONLY,  /* ERR_NOT_FOUND where there is none */
};
struct http_order {
	const char *url; /* "http://host:9292", without or with a path that goes before `path` */
	const char *method, *path;
	const char *token; /* or NULL */
	const char *type;  /* of the body, or NULL */
	const char *body;  /* or NULL */
	size_t body_len;
	const char *ca_file; /* NULL = the system's */
	enum http_way way;
};
/* Sends it and reads the head of the response. ERR_TIMEOUT, ERR_IO when it cannot be reached. */
struct err *http_open(const struct http_order *order, struct deadline deadline, struct http_client **ret) MUST_USE;
void http_free(struct http_client *c);
DEFINE_CLEANUP(http_free, struct http_client *)

int http_status(const struct http_client *c);
const char *http_header(const struct http_client *c, const char *name); /* NULL without */
/* Some of the body, at least a byte; 0 at its end. Waits until the deadline, or until wake_fd (-1 = none) is readable:
 * then ERR_CANCELLED, and it may be called again. */
struct err *http_read(struct http_client *c, void *data, size_t max, struct deadline deadline, int wake_fd, size_t *ret)
	MUST_USE;
/* All of it, at most max bytes. */
struct err *http_read_all(struct http_client *c, size_t max, struct deadline deadline, struct buf *out) MUST_USE;
