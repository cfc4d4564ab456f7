/* The files of the web UI, out of the program itself; every address that is no file is a page of it. */

#include "server/auth.h"
#include "server/internal.h"
#include "base/str.h"
#include "embedded_files.h"
#include <string.h>
#include <zlib.h>

#define CSP_PAGE                                                                                                       \
	"default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; "           \
	"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const struct embedded *find(const char *path)
{
	for (const struct embedded *e = embedded_files; e->path; e++)
		if (str_eq(e->path, path))
			return e;
	return NULL;
}

static bool accepts_gzip(const struct request *r)
{
	const char *accept = request_header(r, "Accept-Encoding");
	return accept && str_contains_nocase(accept, "gzip") && !strstr(accept, "gzip;q=0");
}

/* For programs that do not say that they can; browsers do. */
static void unpack(const struct embedded *e, struct buf *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)e->data, .avail_in = (uInt)(e->end - e->data) };
	void *room = buf_room(out, e->unpacked);
	z.next_out = room;
	z.avail_out = e->unpacked;
	if (!room || inflateInit2(&z, 15 + 16) != Z_OK)
		return;
	if (inflate(&z, Z_FINISH) == Z_STREAM_END)
		out->len += e->unpacked;
	inflateEnd(&z);
}

/* Names under assets/ change with their content. */
static void answer(struct request *r, const struct embedded *e)
{
	const char *known = request_header(r, "If-None-Match");
	respond_header(r, "ETag", e->tag);
	respond_header(r, "Cache-Control",
		       str_starts(e->path, "/assets/") ? "public, max-age=31536000, immutable" : "no-cache");
	if (str_starts(e->type, "text/html")) {
		respond_header(r, "Content-Security-Policy", CSP_PAGE);
		respond_header(r, "Set-Cookie", auth_page_cookie(r->server->auth, r));
	}
	if (known && strstr(known, e->tag)) {
		respond(r, 304, NULL);
		return;
	}
	respond(r, 200, e->type);
	if (e->unpacked)
		respond_header(r, "Vary", "Accept-Encoding");
	if (e->unpacked && !accepts_gzip(r)) {
		unpack(e, &r->response.body);
		return;
	}
	if (e->unpacked)
		respond_header(r, "Content-Encoding", "gzip");
	r->response.bytes = e->data;
	r->response.n_bytes = (size_t)(e->end - e->data);
}

static bool starts_with_segment(const char *path, const char *segment)
{
	size_t len = strlen(segment);
	return str_starts(path, segment) && (path[len] == '/' || !path[len]);
}

void pages_enter(struct request *r)
{
	if (r->server->options->web_ui && str_starts(r->path, PAGES_PREFIX "/api/") &&
	    auth_from_page(r->server->auth, r)) {
		r->from_page = true;
		r->path += strlen(PAGES_PREFIX);
	}
}

bool pages_respond(struct request *r)
{
	if (!r->server->options->web_ui)
		return false;
	const struct embedded *e = find(r->path);
	if (starts_with_segment(r->path, "/swagger") && !r->server->options->rest_api)
		e = find("/index.html");
	if (!e && (str_eq_nocase(r->path, "/swagger") || str_eq_nocase(r->path, "/swagger/")) &&
	    find("/swagger/index.html")) {
		respond_header(r, "Location", "/swagger/index.html");
		respond(r, 302, NULL);
		return true;
	}
	if (!e) {
		/* A file that is not there is not a page; nor is the API, unless it is switched off. */
		const char *last = strrchr(r->path, '/');
		bool api = (r->server->options->rest_api || r->from_page) &&
			   (starts_with_segment(r->path, "/api") || starts_with_segment(r->path, "/debug"));
		if (api || (last && strchr(last, '.')) || starts_with_segment(r->path, "/swagger"))
			return false;
		e = find("/index.html");
	}
	if (e)
		answer(r, e);
	return e != NULL;
}

/* Where a browser may be sent back to: no path that it could read as another machine, as "//host" and "/\\host". */
static const char *own_path(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
	return path[0] == '/' && path[1] != '/' && !path[strspn(path, plain)] ? path : "/";
}

bool pages_take_token(struct request *r)
{
	const char *token = request_query(r, "token");
	if (!token || r->method != METHOD_GET || !r->server->options->web_ui)
		return false;
	const char *cookie = auth_cookie(r->server->auth, r, token);
	if (cookie)
		respond_header(r, "Set-Cookie", cookie);
	respond_header(r, "Location", own_path(r->path));
	respond(r, 303, NULL);
	return true;
}
