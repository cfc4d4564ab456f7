#include "server/request.h"
#include "server/child.h"
#include "server/route.h"
#include "server/schema.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include <ctype.h>
#include <string.h>

struct request *request_new(struct server *server)
{
	struct request *r = mem_zalloc(sizeof(*r));
	r->server = server;
	r->body.limit = REQUEST_BODY_MAX;
	r->response.fd = -1;
	r->connection_fd = -1;
	return r;
}

/* Drops what was answered so far. */
static void clear_response(struct request *r)
{
	struct response *p = &r->response;
	buf_free(&p->body);
	fd_closep(&p->fd);
	stream_unref(p->stream);
	vec_free(&p->headers);
	*p = (struct response){ .fd = -1 };
}

void request_free(struct request *r)
{
	if (!r)
		return;
	clear_response(r);
	child_unref(r->child);
	vec_free(&r->headers);
	vec_free(&r->query);
	buf_free(&r->body);
	arena_free(&r->arena);
	mem_free(r);
}

static const char *find(const struct pairs *pairs, const char *name)
{
	vec_each(p, pairs)
		if (str_eq_nocase(p->name, name))
			return p->value;
	return NULL;
}

const char *request_header(const struct request *r, const char *name)
{
	return find(&r->headers, name);
}

size_t request_header_count(const struct request *r, const char *name)
{
	size_t n = 0;
	vec_each(p, &r->headers)
		n += str_eq_nocase(p->name, name);
	return n;
}

const char *request_query(const struct request *r, const char *name)
{
	return find(&r->query, name);
}

struct err *request_query_u64(const struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t otherwise,
			      uint64_t *ret)
{
	const char *text = request_query(r, name);
	*ret = otherwise;
	if (!text || (str_to_u64(text, ret) && *ret >= min && *ret <= max))
		return NULL;
	return err_new(ERR_USAGE, "'%s' takes a whole number from %llu to %llu, not '%s'", name,
		       (unsigned long long)min, (unsigned long long)max, text);
}

struct err *request_query_bool(const struct request *r, const char *name, bool *ret)
{
	const char *text = request_query(r, name);
	if (!text || str_to_bool(*text ? text : "true", ret))
		return NULL;
	return err_new(ERR_USAGE, "'%s' takes true or false, not '%s'", name, text);
}

/* "application/json", "application/json; charset=utf-8", "application/anything+json". */
static bool is_json(const char *type)
{
	size_t len = type ? strcspn(type, "; \t") : 0;
	CLEANUP(mem_freep) char *word = len ? mem_strndup(type, len) : NULL;
	return str_eq_nocase(word, "application/json") || str_eq_nocase(word, "text/json") ||
	       (word && str_starts(word, "application/") && str_ends(word, "+json"));
}

struct err *request_json(struct request *r, json_t **ret)
{
	if (!is_json(request_header(r, "Content-Type"))) {
		r->error_status = 415;
		return err_new(ERR_UNSUPPORTED, "the body must be JSON: send 'Content-Type: application/json'");
	}
	if (!r->body.len)
		return err_new(ERR_USAGE, "the body is empty; it must be a JSON object");
	json_t *j = NULL;
	struct err *err = json_parse(r->body.data, r->body.len, REQUEST_BODY_MAX, &j);
	if (err) {
		struct err *usage = err_new(ERR_USAGE, "the body is not JSON: %s", err_text(err));
		err_free(err);
		return usage;
	}
	if (!json_is_object(j)) {
		json_decref(j);
		return err_new(ERR_USAGE, "the body must be a JSON object");
	}
	*ret = j;
	return NULL;
}

struct err *request_body(struct request *r, json_t **ret)
{
	CLEANUP(json_decrefp) json_t *body = NULL;
	TRY(request_json(r, &body));
	TRY(schema_check(r->route->body, body));
	*ret = STEAL(body);
	return NULL;
}

/* Finds the media range in Accept; those with q=0 are refused. */
static bool accept_has(const char *accept, const char *type)
{
	size_t want = strlen(type);
	for (const char *p = accept; p && *p;) {
		while (*p == ' ' || *p == '\t' || *p == ',')
			p++;
		size_t len = strcspn(p, ",;"), all = strcspn(p, ",");
		while (len && (p[len - 1] == ' ' || p[len - 1] == '\t'))
			len--;
		CLEANUP(mem_freep) char *word = mem_strndup(p, len);
		CLEANUP(mem_freep) char *rest = mem_strndup(p + len, all > len ? all - len : 0);
		const char *q = strstr(rest, "q=");
		bool refused = q && strspn(q + 2, "0.") == strcspn(q + 2, " \t;");
		if (len == want && str_eq_nocase(word, type) && !refused)
			return true;
		p += all;
	}
	return false;
}

bool request_accepts(const struct request *r, const char *type)
{
	return accept_has(request_header(r, "Accept"), type);
}

bool request_accepts_any(const struct request *r, const char *type)
{
	const char *accept = request_header(r, "Accept");
	if (str_empty(accept))
		return true;
	CLEANUP(mem_freep) char *family = mem_printf("%.*s/*", (int)strcspn(type, "/"), type);
	return accept_has(accept, type) || accept_has(accept, family) || accept_has(accept, "*/*");
}

void respond(struct request *r, int status, const char *type)
{
	r->response.status = status;
	r->response.type = type;
}

struct jsonw respond_json(struct request *r, int status)
{
	respond(r, status, TYPE_JSON);
	return jsonw_make(&r->response.body, false);
}

void respond_header(struct request *r, const char *name, const char *value)
{
	struct pair *p = vec_add(&r->response.headers);
	*p = (struct pair){ arena_strdup(&r->arena, name), arena_strdup(&r->arena, value) };
}

void respond_headerf(struct request *r, const char *name, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	CLEANUP(mem_freep) char *value = mem_vprintf(fmt, ap);
	va_end(ap);
	respond_header(r, name, value);
}

void respond_text(struct request *r, int status, const char *text)
{
	respond(r, status, TYPE_TEXT);
	buf_str(&r->response.body, text);
}

int status_of(enum err_kind kind)
{
	switch (kind) {
	case ERR_USAGE:
		return 400;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_DENIED:
		return 403;
	case ERR_BUSY:
		return 409;
	case ERR_UNSUPPORTED:
		return 501;
	case ERR_TIMEOUT:
		return 504;
	case ERR_CANCELLED:
		return 503;
	default:
		return 500;
	}
}

const char *status_title(int status)
{
	static const struct {
		int status;
		const char *title;
	} titles[] = {
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 410, "Gone" },
		{ 415, "Unsupported Media Type" },
		{ 421, "Misdirected Request" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
		if (titles[i].status == status)
			return titles[i].title;
	return "Internal Server Error";
}

void respond_problem(struct request *r, int status, const char *detail)
{
	/* A handler that answered a moment before it failed may have said what holds in any case. */
	struct pairs headers = r->response.headers;
	r->response.headers = (struct pairs){ 0 };
	clear_response(r);
	r->response.headers = headers;
	respond(r, status, TYPE_PROBLEM);
	struct jsonw w = jsonw_make(&r->response.body, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "type", "about:blank");
	jsonw_str(&w, "title", status_title(status));
	jsonw_i64(&w, "status", status);
	jsonw_str(&w, "detail", detail);
	if (r->error_parameter)
		jsonw_str(&w, "parameter", r->error_parameter);
	jsonw_object_end(&w);
}

static void respond_sentence(struct request *r, int status, const char *sentence)
{
	clear_response(r);
	if (!request_accepts(r, "application/json")) {
		respond_text(r, status, sentence);
		return;
	}
	struct jsonw w = respond_json(r, status);
	jsonw_str(&w, NULL, sentence);
}

void respond_error(struct request *r, const struct err *err)
{
	int status = r->error_status ? r->error_status : status_of(err_kind(err));
	if (status == 404 && str_starts(err_text(err), "No ") && !request_accepts(r, "application/problem+json"))
		respond_sentence(r, status, err_text(err));
	else
		respond_problem(r, status, err_text(err));
}
