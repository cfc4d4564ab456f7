/* The parts of the server that need no socket: matching, negotiation, masking, comparing, the tables. */

#include "unit.h"
#include "base/str.h"
#include "base/vec.h"
#include "server/api.h"
#include "server/openapi.h"
#include "server/schema.h"
#include "server_request.h"

/* ---- routes ---- */

static bool matches(const char *pattern, const char *path, const char *first)
{
	struct arena arena = { 0 };
	const char *params[REQUEST_PARAMS_MAX] = { 0 };
	size_t n = 0;
	bool ok = route_match(pattern, path, &arena, params, &n);
	if (ok && first)
		ok = n > 0 && str_eq(params[0], first);
	arena_free(&arena);
	return ok;
}

static void patterns_match_whole_segments_in_any_case(void **state UNUSED)
{
	assert_true(matches("/api/sessions", "/api/sessions", NULL));
	assert_true(matches("/api/sessions", "/API/Sessions", NULL));
	assert_true(matches("/api/sessions", "/api/sessions/", NULL));
	assert_true(matches("/api/sessions/{guid}", "/api/sessions/AbC", "AbC"));
	assert_true(matches("/api/sessions/{guid}/files/{name}", "/api/sessions/x/files/report.md", "x"));
	assert_false(matches("/api/sessions", "/api/session", NULL));
	assert_false(matches("/api/sessions", "/api/sessions/x", NULL));
	assert_false(matches("/api/sessions", "/api/sessions//", NULL));
	assert_false(matches("/api/sessions/{guid}", "/api/sessions/", NULL));
	assert_false(matches("/api/sessions/{guid}", "/api/sessions/x/y", NULL));
	assert_false(matches("/api/sessions/{guid}/log", "/api/sessions//log", NULL));
	assert_false(matches("/api", "", NULL));
	assert_false(matches("/api", "api", NULL));
	assert_true(matches("/", "/", NULL));
}

static void a_wrong_method_names_the_right_ones(void **state UNUSED)
{
	unsigned allowed;
	struct request *r = make_request("HEAD", "/api/sessions");
	assert_non_null(routes_find(r, &allowed));
	assert_string_equal(r->route->id, "listSessions");
	r->method = METHOD_DELETE;
	assert_null(routes_find(r, &allowed));
	assert_int_equal(allowed, METHOD_GET | METHOD_POST);
	r->path = "/api/nothing";
	assert_null(routes_find(r, &allowed));
	assert_int_equal(allowed, 0);
	request_free(r);
	assert_int_equal(method_parse("PATCH"), 0);
	assert_int_equal(method_parse("get"), 0);
}

static bool has_schema(const char *type)
{
	CLEANUP(mem_freep) char *name = mem_strndup(type, strcspn(type, "[?*"));
	static const char *const simple[] = { "string", "integer", "number", "boolean", "object", "any" };
	for (size_t i = 0; i < ARRAY_SIZE(simple); i++)
		if (str_eq(simple[i], name))
			return true;
	for (const struct schema *s = schemas; s->name; s++)
		if (str_eq(s->name, name))
			return true;
	return false;
}

static void the_tables_fit_together(void **state UNUSED)
{
	size_t n;
	const struct route *all = routes_all(&n);
	for (size_t i = 0; i < n; i++) {
		const struct route *r = &all[i];
		assert_non_null(r->handle);
		assert_non_null(r->id);
		assert_non_null(r->tag);
		assert_non_null(r->summary);
		assert_true(!r->result || has_schema(r->result));
		assert_true(!r->body || has_schema(r->body));
		/* What changes something needs the full right. */
		assert_true(r->method == METHOD_GET || r->scope != SCOPE_READ);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(all[k].id, r->id);
			assert_false(all[k].method == r->method && str_eq(all[k].pattern, r->pattern));
		}
	}
	for (const struct schema *s = schemas; s->name; s++)
		for (const struct schema_field *f = s->fields; f->name; f++)
			if (!has_schema(f->type))
				fail_msg("%s.%s is a %s", s->name, f->name, f->type);
}

static void the_openapi_document_has_every_route(void **state UNUSED)
{
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(json_decrefp) json_t *document = NULL;
	openapi_document(&text);
	assert_ok(json_parse(text.data, text.len, text.len, &document));
	const json_t *paths = json_object_get(document, "paths");
	size_t n, operations = 0;
	const struct route *all = routes_all(&n);
	for (size_t i = 0; i < n; i++) {
		static const char *const words[] = {
			[METHOD_GET] = "get", [METHOD_POST] = "post", [METHOD_PUT] = "put", [METHOD_DELETE] = "delete"
		};
		const json_t *operation = json_object_get(json_object_get(paths, all[i].pattern), words[all[i].method]);
		assert_string_equal(json_get_str(operation, "operationId", ""), all[i].id);
	}
	for (void *it = json_object_iter((json_t *)(uintptr_t)paths); it;
	     it = json_object_iter_next((json_t *)(uintptr_t)paths, it))
		operations += json_object_size(json_object_iter_value(it));
	assert_int_equal(operations, n);
}

/* ---- requests ---- */

static void set_header(struct request *r, const char *name, const char *value)
{
	vec_push(&r->headers, ((struct pair){ name, value }));
}

static bool accepts(const char *accept, const char *type, bool any)
{
	struct request *r = make_request("GET", "/");
	set_header(r, "accept", accept);
	bool ok = any ? request_accepts_any(r, type) : request_accepts(r, type);
	request_free(r);
	return ok;
}

static void accept_is_read_as_browsers_write_it(void **state UNUSED)
{
	assert_true(accepts("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "text/html", false));
	assert_false(accepts("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "application/json", false));
	assert_true(accepts("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "application/json", true));
	assert_true(accepts("application/json ; q=1", "application/json", false));
	assert_true(accepts("APPLICATION/JSON", "application/json", false));
	assert_false(accepts("application/json;q=0", "application/json", true));
	assert_false(accepts("application/json;q=0.0", "application/json", true));
	assert_true(accepts("application/*", "application/json", true));
	assert_false(accepts("image/png", "application/json", true));
	assert_true(accepts("", "application/json", true));
	assert_false(accepts(",,;;q=,", "application/json", true));
}

static struct err *read_body(const char *type, const char *body, int *ret_status)
{
	struct request *r = make_request("POST", "/api/sessions");
	json_t *j = NULL;
	if (type)
		set_header(r, "Content-Type", type);
	buf_str(&r->body, body);
	struct err *err = request_json(r, &j);
	if (err) {
		respond_error(r, err);
		*ret_status = r->response.status;
	}
	json_decref(j);
	request_free(r);
	return err;
}

static void bodies_must_be_json_objects(void **state UNUSED)
{
	int status = 0;
	assert_ok(read_body("application/json", "{}", &status));
	assert_ok(read_body("application/json; charset=utf-8", "{\"a\":1}", &status));
	assert_ok(read_body("application/vnd.x+json", "{}", &status));
	assert_err(read_body("application/json", "", &status), ERR_USAGE);
	assert_int_equal(status, 400);
	assert_err(read_body("application/json", "[]", &status), ERR_USAGE);
	assert_err(read_body("application/json", "{", &status), ERR_USAGE);
	assert_err(read_body("application/json", "{\"a\":1,\"a\":2}", &status), ERR_USAGE);
	assert_err(read_body("text/plain", "{}", &status), ERR_UNSUPPORTED);
	assert_int_equal(status, 415);
	assert_err(read_body(NULL, "{}", &status), ERR_UNSUPPORTED);
	assert_int_equal(status, 415);
}

static void a_contract_404_is_a_sentence(void **state UNUSED)
{
	CLEANUP(err_freep) struct err *err = err_new(ERR_NOT_FOUND, "No session found with guid 'x'");
	static const struct {
		const char *accept, *type, *body;
	} cases[] = {
		{ "*/*", TYPE_TEXT, "No session found with guid 'x'" },
		{ "application/json", TYPE_JSON, "\"No session found with guid 'x'\"" },
		{ "application/json, application/problem+json", TYPE_PROBLEM, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct request *r = make_request("GET", "/api/sessions/x");
		set_header(r, "Accept", cases[i].accept);
		respond_error(r, err);
		assert_int_equal(r->response.status, 404);
		assert_string_equal(r->response.type, cases[i].type);
		if (cases[i].body)
			assert_string_equal(buf_cstr(&r->response.body), cases[i].body);
		request_free(r);
	}
}

/* ---- secrets ---- */

static void secrets_are_masked(void **state UNUSED)
{
	static const struct {
		const char *text, *masked;
	} cases[] = {
		{ "dotnet Shop.dll --urls http://*:80", "dotnet Shop.dll --urls http://*:80" },
		{ "app --password=hunter2 --x", "app --password=*** --x" },
		{ "app --password hunter2 --x", "app --password *** --x" },
		{ "app --db-password 'a b' x", "app --db-password *** x" },
		{ "app Server=db;User Id=sa;Password=p@ss;Timeout=5",
		  "app Server=db;User Id=sa;Password=***;Timeout=5" },
		{ "app \"Server=db;Pwd=geheim\"", "app \"Server=db;Pwd=***\"" },
		{ "app postgres://shop:geheim@db/x", "app postgres://shop:***@db/x" },
		{ "app http://host:80/path@x", "app http://host:80/path@x" },
		{ "app --Jwt:Secret=abc", "app --Jwt:Secret=***" },
		{ "app AccountKey=abc==;EndpointSuffix=x", "app AccountKey=***;EndpointSuffix=x" },
		{ "app --design=1 --assign x", "app --design=1 --assign x" },
		{ "app ?sig=abc&x=1", "app ?sig=***&x=1" },
		{ "app --password", "app --password" },
		{ "app --password ", "app --password " },
		{ "app --token --verbose", "app --token --verbose" },
		{ "app password=\"never closed", "app password=***" },
		{ "", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(buf_free) struct buf out = { 0 };
		mask_secrets(&out, cases[i].text);
		assert_string_equal(buf_cstr(&out), cases[i].masked);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_whole_segments_in_any_case),
		cmocka_unit_test(a_wrong_method_names_the_right_ones),
		cmocka_unit_test(the_tables_fit_together),
		cmocka_unit_test(the_openapi_document_has_every_route),
		cmocka_unit_test(accept_is_read_as_browsers_write_it),
		cmocka_unit_test(bodies_must_be_json_objects),
		cmocka_unit_test(a_contract_404_is_a_sentence),
		cmocka_unit_test(secrets_are_masked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
