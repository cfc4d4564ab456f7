/* The OpenAPI document and the reference page, both made from the tables of routes, objects and profilers. */

#include "server/api.h"
#include "profilers/registry.h"
#include "server/openapi.h"
#include "server/schema.h"
#include "base/str.h"
#include "version.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- types ---- */

struct openapi_type {
	char name[60];
	bool array, null, optional;
};

static struct openapi_type type_parse(const char *text)
{
	struct openapi_type t = { 0 };
	str_copy(t.name, sizeof(t.name), text);
	size_t len = strlen(t.name);
	if (len && t.name[len - 1] == '*') {
		t.optional = true;
		t.name[--len] = '\0';
	}
	if (len && t.name[len - 1] == '?') {
		t.null = true;
		t.name[--len] = '\0';
	}
	if (len > 2 && str_ends(t.name, "[]")) {
		t.array = true;
		t.name[len - 2] = '\0';
	}
	return t;
}

static bool is_schema(const char *name)
{
	return isupper((unsigned char)name[0]);
}

static void add_simple(struct jsonw *w, const char *name)
{
	if (is_schema(name)) {
		char ref[100];
		snprintf(ref, sizeof(ref), "#/components/schemas/%s", name);
		jsonw_str(w, "$ref", ref);
	} else if (!str_eq(name, "any")) {
		jsonw_str(w, "type", name);
		if (str_eq(name, "object"))
			jsonw_bool(w, "additionalProperties", true);
	}
}

/* As members of the open object. */
static void add_type(struct jsonw *w, const struct openapi_type *t)
{
	if (t->array) {
		jsonw_str(w, "type", "array");
		jsonw_object(w, "items");
		add_simple(w, t->name);
		jsonw_object_end(w);
	} else {
		add_simple(w, t->name);
	}
	if (t->null)
		jsonw_bool(w, "nullable", true);
}

static void add_schema(struct jsonw *w, const struct schema *s)
{
	jsonw_object(w, s->name);
	jsonw_str(w, "type", "object");
	jsonw_str(w, "description", s->help);
	jsonw_object(w, "properties");
	for (const struct schema_field *f = s->fields; f->name; f++) {
		struct openapi_type t = type_parse(f->type);
		jsonw_object(w, f->name);
		add_type(w, &t);
		if (f->help[0] && (t.array || !is_schema(t.name)))
			jsonw_str(w, "description", f->help);
		jsonw_object_end(w);
	}
	jsonw_object_end(w);
	bool any = false;
	for (const struct schema_field *f = s->fields; f->name; f++)
		any |= !type_parse(f->type).optional;
	if (any) {
		jsonw_array(w, "required");
		for (const struct schema_field *f = s->fields; f->name; f++)
			if (!type_parse(f->type).optional)
				jsonw_str(w, NULL, f->name);
		jsonw_array_end(w);
	}
	jsonw_object_end(w);
}

/* ---- operations ---- */

static void add_parameter(struct jsonw *w, const char *in, const char *name, const char *type, const char *help,
			  bool required)
{
	jsonw_object(w, NULL);
	jsonw_str(w, "name", name);
	jsonw_str(w, "in", in);
	jsonw_bool(w, "required", required);
	if (!str_empty(help))
		jsonw_str(w, "description", help);
	jsonw_object(w, "schema");
	jsonw_str(w, "type", type);
	jsonw_object_end(w);
	jsonw_object_end(w);
}

static void add_parameters(struct jsonw *w, const struct route *r)
{
	jsonw_array(w, "parameters");
	for (const char *p = r->pattern; (p = strchr(p, '{'));) {
		char name[40] = "";
		size_t len = strcspn(++p, "}");
		memcpy(name, p, MIN(len, sizeof(name) - 1));
		add_parameter(w, "path", name,
			      str_eq(name, "id") && !strstr(r->pattern, "/traces/") ? "integer" : "string", NULL, true);
	}
	for (const struct route_query *q = r->query; q && q->name; q++)
		add_parameter(w, "query", q->name, q->type, q->help, q->required);
	jsonw_array_end(w);
}

static void add_content_type(struct jsonw *w, const char *type, const char *schema)
{
	struct openapi_type t = type_parse(schema);
	jsonw_object(w, type);
	jsonw_object(w, "schema");
	add_type(w, &t);
	jsonw_object_end(w);
	jsonw_object_end(w);
}

static void add_success(struct jsonw *w, const struct route *r)
{
	bool empty = !r->result && !r->types;
	if (str_eq(r->id, "openShare")) {
		jsonw_object(w, "303");
		jsonw_str(w, "description", "To the session.");
		jsonw_object_end(w);
		return;
	}
	jsonw_object(w, empty							       ? "204"
			: str_eq(r->id, "cancelSession")			       ? "202"
			: str_eq(r->id, "startTrace") || str_eq(r->id, "shareSession") ? "201"
										       : "200");
	jsonw_str(w, "description", empty ? "Done." : "The answer.");
	if (!empty)
		jsonw_object(w, "content");
	if (r->result)
		add_content_type(w, "application/json", r->result);
	for (const char *p = r->types; p && *p; p += strspn(p, " ")) {
		char type[60] = "";
		size_t len = strcspn(p, " ");
		memcpy(type, p, MIN(len, sizeof(type) - 1));
		add_content_type(w, type, "string");
		p += len;
	}
	if (!empty)
		jsonw_object_end(w);
	jsonw_object_end(w);
}

static void add_errors(struct jsonw *w, const struct route *r)
{
	char status[4] = "";
	for (const char *p = r->errors; p && strlen(p) >= 3; p += p[3] ? 4 : 3) {
		memcpy(status, p, 3);
		jsonw_object(w, status);
		jsonw_str(w, "description", status_title(atoi(status)));
		jsonw_object(w, "content");
		add_content_type(w, "application/problem+json", "Problem");
		jsonw_object_end(w);
		jsonw_object_end(w);
	}
}

static void add_operation(struct jsonw *w, const struct route *r)
{
	char method[8];
	str_copy(method, sizeof(method), method_word(r->method));
	for (char *c = method; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	jsonw_object(w, method);
	jsonw_str(w, "operationId", r->id);
	jsonw_array(w, "tags");
	jsonw_str(w, NULL, r->tag);
	jsonw_array_end(w);
	jsonw_str(w, "summary", r->summary);
	add_parameters(w, r);
	if (r->body) {
		jsonw_object(w, "requestBody");
		jsonw_bool(w, "required", true);
		jsonw_object(w, "content");
		add_content_type(w, "application/json", r->body);
		jsonw_object_end(w);
		jsonw_object_end(w);
	}
	jsonw_object(w, "responses");
	add_success(w, r);
	add_errors(w, r);
	jsonw_object_end(w);
	jsonw_object_end(w);
}

static bool is_first_of_path(const struct route *all, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (str_eq(all[k].pattern, all[i].pattern))
			return false;
	return true;
}

static void add_paths(struct jsonw *w)
{
	size_t n;
	const struct route *all = routes_all(&n);
	jsonw_object(w, "paths");
	for (size_t i = 0; i < n; i++) {
		if (!is_first_of_path(all, i))
			continue;
		jsonw_object(w, all[i].pattern);
		for (size_t k = i; k < n; k++)
			if (str_eq(all[k].pattern, all[i].pattern))
				add_operation(w, &all[k]);
		jsonw_object_end(w);
	}
	jsonw_object_end(w);
}

/* The profilers, so that a reader of the document sees what can be started with which parameters. */
static void add_profilers(struct jsonw *w)
{
	size_t n;
	const struct profiler *const *all = profiler_all(&n);
	jsonw_array(w, "x-profilers");
	for (size_t i = 0; i < n; i++)
		json_profiler(w, NULL, all[i], NULL);
	jsonw_array_end(w);
}

void openapi_document(struct buf *out)
{
	struct jsonw w = jsonw_make(out, false);
	jsonw_object(&w, NULL);
	jsonw_str(&w, "openapi", "3.0.3");
	jsonw_object(&w, "info");
	jsonw_str(&w, "title", "drdotnet");
	jsonw_str(&w, "version", DRDOTNET_VERSION);
	jsonw_str(&w, "description", "Examines running .NET processes. Errors are application/problem+json.");
	jsonw_object_end(&w);
	add_paths(&w);
	jsonw_object(&w, "components");
	jsonw_object(&w, "schemas");
	for (const struct schema *s = schemas; s->name; s++)
		add_schema(&w, s);
	jsonw_object_end(&w);
	jsonw_object(&w, "securitySchemes");
	jsonw_object(&w, "bearer");
	jsonw_str(&w, "type", "http");
	jsonw_str(&w, "scheme", "bearer");
	jsonw_object_end(&w);
	jsonw_object_end(&w);
	jsonw_object_end(&w);
	jsonw_array(&w, "security");
	jsonw_object(&w, NULL);
	jsonw_object_end(&w);
	jsonw_object(&w, NULL);
	jsonw_array(&w, "bearer");
	jsonw_array_end(&w);
	jsonw_object_end(&w);
	jsonw_array_end(&w);
	add_profilers(&w);
	jsonw_object_end(&w);
}

/* ---- the page ---- */

static void page_route(struct buf *out, const struct route *r)
{
	buf_printf(out, "\n### %s %s\n%s", method_word(r->method), r->pattern, r->summary);
	buf_printf(out, "%s\n", r->flags & ROUTE_CONTRACT ? " *(Dr-Dotnet contract)*" : "");
	for (const struct route_query *q = r->query; q && q->name; q++)
		buf_printf(out, "%s- `?%s=` %s%s: %s\n", q == r->query ? "\n" : "", q->name, q->type,
			   q->required ? ", required" : "", q->help);
	buf_char(out, '\n');
	if (r->body)
		buf_printf(out, "- Body: `%s`\n", r->body);
	buf_printf(out, "- Answer: %s%s%s", r->result ? "`" : "",
		   r->result  ? r->result
		   : r->types ? ""
			      : "204, nothing",
		   r->result ? "`" : "");
	buf_printf(out, "%s%s\n", r->result && r->types ? ", or " : "", r->types ? r->types : "");
	if (r->errors)
		buf_printf(out, "- Errors: %s\n", r->errors);
	buf_printf(out, "- Scope: %s\n", r->scope == SCOPE_FULL ? "full" : r->scope == SCOPE_READ ? "read" : "none");
}

void openapi_page(struct buf *out)
{
	size_t n;
	const struct route *all = routes_all(&n);
	buf_str(out,
		"# REST reference\n\nMade from the tables in `src/server` by `make docs`; a running server has the "
		"same as "
		"OpenAPI at `/swagger/v1/swagger.json` and to try out at `/swagger`.\n\n"
		"Paths are matched in any case. Errors are `application/problem+json` (`Problem`); a 404 of the "
		"contract "
		"is one plain sentence, a JSON string under `Accept: application/json`, a `Problem` under `Accept: "
		"application/problem+json`. `HEAD` works wherever `GET` does.\n\n## Routes\n");
	for (size_t i = 0; i < n; i++)
		page_route(out, &all[i]);
	buf_str(out, "\n## Objects\n\nA type with `?` may be null, with `*` may be left out.\n");
	for (const struct schema *s = schemas; s->name; s++) {
		buf_printf(out, "\n### %s\n%s\n\n| Field | Type | |\n|---|---|---|\n", s->name, s->help);
		for (const struct schema_field *f = s->fields; f->name; f++)
			buf_printf(out, "| %s | %s | %s |\n", f->name, f->type, f->help);
	}
}

struct err *api_openapi(struct request *r)
{
	respond(r, 200, TYPE_JSON);
	openapi_document(&r->response.body);
	return NULL;
}
