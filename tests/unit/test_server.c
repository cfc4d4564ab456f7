/* The parts of the server that need no socket: matching, negotiation, bodies, masking, streams, the tables. */

#include "unit.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/vec.h"
#include "server/api.h"
#include "server/auth.h"
#include "server/local.h"
#include "server/token.h"
#include "server/openapi.h"
#include "server/schema.h"
#include <sys/socket.h>
#include <sys/stat.h>

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

static struct request *make_request(const char *method, const char *path)
{
	struct request *r = request_new(NULL);
	r->method = method_parse(method);
	r->method_name = method;
	r->path = path;
	return r;
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

/* ---- orders ---- */

static struct err *read_order(const char *text, struct scheduler_order **ret)
{
	CLEANUP(scheduler_order_freep) struct scheduler_order *order = mem_zalloc(sizeof(*order));
	CLEANUP(json_decrefp) json_t *body = NULL;
	int pid = 0;
	assert_ok(json_parse(text, strlen(text), 65536, &body));
	TRY(api_order_read(body, order, &pid));
	assert_int_equal(pid, 7);
	*ret = STEAL(order);
	return NULL;
}

#define EXCEPTIONS "805A308B-061C-47F3-9B30-F785C3186E82"

static void good_orders_are_taken(void **state UNUSED)
{
	static const struct {
		const char *body, *duration;
	} cases[] = {
		{ "{\"profilerGuid\":\"" EXCEPTIONS "\",\"processId\":7}", "10" },
		{ "{\"ProfilerGuid\":\"805a308b-061c-47f3-9b30-f785c3186e82\",\"PROCESSID\":7,\"Parameters\":null}",
		  "10" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"3\"}]}",
		  "3" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\","
		  "\"valueInt32\":4}]}",
		  "4" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"Key\":\"duration\",\"value\":5}]"
		  "}",
		  "5" },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"name\":"
		  "\"Duration\","
		  "\"type\":2,\"value\":\"6\",\"valueInt32\":1,\"valueFloat32\":1,\"valueBoolean\":false}]}",
		  "6" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scheduler_order *order = NULL;
		assert_ok(read_order(cases[i].body, &order));
		assert_string_equal(order->profiler->id, "exceptions");
		assert_string_equal(params_text(order->params, "duration"), cases[i].duration);
		scheduler_order_free(order);
	}
}

static void bad_orders_are_refused_before_anything_is_touched(void **state UNUSED)
{
	static const struct {
		const char *body;
		enum err_kind kind;
	} cases[] = {
		{ "{}", ERR_USAGE },
		{ "{\"profilerGuid\":1,\"processId\":7}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":\"7\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":-1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":99999999999}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7.5}", ERR_USAGE },
		{ "{\"profilerGuid\":\"nothing\",\"processId\":7}", ERR_NOT_FOUND },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"more\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"way\":\"magic\"}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"way\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"keepRecording\":1}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":{}}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[1]}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"value\":\"1\"}]}", ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"x\",\"value\":\"1\"}]}",
		  ERR_NOT_FOUND },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"ten\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":"
		  "\"0\"}]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"value\":[]}"
		  "]}",
		  ERR_USAGE },
		{ "{\"profilerGuid\":\"exceptions\",\"processId\":7,\"parameters\":[{\"key\":\"duration\",\"vlaue\":"
		  "\"1\"}]}",
		  ERR_USAGE },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scheduler_order *order = NULL;
		assert_err(read_order(cases[i].body, &order), cases[i].kind);
	}
}

static void guids_come_in_several_spellings(void **state UNUSED)
{
	char guid[STORE_GUID_LEN + 1];
	assert_ok(api_guid("805A308B-061C-47F3-9B30-F785C3186E82", guid));
	assert_string_equal(guid, "805a308b-061c-47f3-9b30-f785c3186e82");
	assert_ok(api_guid("805a308b061c47f39b30f785c3186e82", guid));
	assert_string_equal(guid, "805a308b-061c-47f3-9b30-f785c3186e82");
	static const char *const bad[] = { "",
					   "x",
					   "..",
					   "805A308B-061C-47F3-9B30-F785C3186E8",
					   "805A308B-061C-47F3-9B30-F785C3186E822",
					   "-805A308B061C47F39B30F785C3186E82",
					   "805A308B--061C-47F3-9B30-F785C3186E8g" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_err(api_guid(bad[i], guid), ERR_USAGE);
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

/* ---- who may do what ---- */

#define TOKEN "full-token-0123456789"
#define READ_TOKEN "read-token-0123456789"

static struct auth *make_auth(bool loopback, bool off, const char *token)
{
	static const char *const hosts[] = { "diag.example.com", NULL };
	static char dir[64];
	static unsigned n;
	struct auth *a = NULL;
	if (!dir[0])
		unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/shares%u.json", dir, n);
	CLEANUP(mem_freep) char *kept = mem_printf("%s/token%u", dir, n++);
	struct auth_options o = { .loopback = loopback,
				  .off = off,
				  .token = token,
				  .read_token = READ_TOKEN,
				  .hosts = hosts,
				  .token_path = kept,
				  .shares_path = path };
	assert_ok(auth_new(&o, &a));
	return a;
}

struct ask {
	const char *method, *path, *host, *origin, *bearer, *cookie, *site, *mode;
	enum local_peer peer;
};

/* The status, 0 when it may pass. */
static int check(struct auth *a, struct ask ask)
{
	struct request *r = make_request(ask.method, ask.path);
	const struct pair all[] = { { "Host", ask.host ? ask.host : "127.0.0.1:9292" },
				    { "Origin", ask.origin },
				    { "Authorization", ask.bearer },
				    { "Cookie", ask.cookie },
				    { "Sec-Fetch-Site", ask.site },
				    { "Sec-Fetch-Mode", ask.mode } };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].value)
			vec_push(&r->headers, all[i]);
	unsigned allowed;
	routes_find(r, &allowed);
	r->peer = ask.peer;
	auth_check(a, r);
	int status = r->response.status;
	request_free(r);
	return status;
}

static void loopback_needs_a_token_and_a_name_of_ours(void **state UNUSED)
{
	struct auth *a = make_auth(true, false, NULL);
	assert_int_equal(auth_mode(a), AUTH_TOKEN);
	CLEANUP(mem_freep) char *bearer = mem_printf("Bearer %s", auth_token(a));
	static const char *const methods[] = { "GET", "POST", "DELETE" };
	size_t n;
	const struct route *all = routes_all(&n);
	for (size_t i = 0; i < n; i++)
		for (size_t m = 0; m < ARRAY_SIZE(methods); m++)
			if (method_parse(methods[m]) == all[i].method)
				assert_int_equal(check(a, (struct ask){ .method = methods[m], .path = all[i].pattern }),
						 all[i].scope == SCOPE_NONE ? 0 : 401);
	static const char *const good[] = { "localhost",   "localhost:8000", "127.0.0.1",	 "[::1]:9292",
					    "10.0.0.7:92", "drdotnet:92",    "diag.example.com", "a.localhost" };
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = good[i],
							.bearer = bearer }),
				 0);
	static const char *const bad[] = { "evil.example.com",
					   "evil.example.com:9292",
					   "127.0.0.1.evil.com",
					   "localhost.evil.com",
					   "",
					   ":80",
					   "[evil",
					   "[evil.com]:1" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = bad[i],
							.bearer = bearer }),
				 421);
	auth_free(a);
}

static void the_socket_in_the_home_needs_no_token(void **state UNUSED)
{
	struct auth *a = make_auth(true, false, NULL);
	struct ask start = { .method = "POST", .path = "/api/sessions", .host = "any", .peer = LOCAL_TRUSTED };
	assert_int_equal(check(a, start), 0);
	/* A token narrows what one may do also here; and no page of another site gets in this way. */
	start.bearer = "Bearer " READ_TOKEN;
	assert_int_equal(check(a, start), 403);
	start.bearer = NULL;
	start.origin = "http://evil.example.com";
	assert_int_equal(check(a, start), 403);
	start.origin = NULL;
	start.peer = LOCAL_STRANGER;
	assert_int_equal(check(a, start), 401);
	auth_free(a);
}

static void the_kernel_says_who_connects(void **state UNUSED)
{
	int pair[2];
	uid_t uid = 12345;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(local_peer(pair[0], &uid), LOCAL_TRUSTED);
	assert_int_equal(uid, geteuid());
	close(pair[0]);
	close(pair[1]);
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(local_peer(tcp, &uid), LOCAL_NONE);
	assert_int_equal(local_peer(-1, &uid), LOCAL_NONE);
	close(tcp);
}

static void one_server_has_the_socket_of_a_port(void **state UNUSED)
{
	char dir[64];
	int first = -1, second = -1, client = -1;
	struct stat st;
	unit_temp_dir(dir, sizeof(dir));
	/* Longer than the address of a socket may be. */
	CLEANUP(mem_freep) char *home = mem_printf("%s/%0120d", dir, 0);
	CLEANUP(mem_freep) char *path = mem_printf("%s/9292.sock", home);
	assert_ok(dir_make(home, 0700));
	setenv("DRDOTNET_HOME", home, 1);
	assert_err(local_connect(9292, deadline_in_ms(1000), &client), ERR_NOT_FOUND);
	assert_ok(local_listen(home, 9292, &first));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	assert_err(local_listen(home, 9292, &second), ERR_BUSY);
	assert_ok(local_connect(9292, deadline_in_ms(1000), &client));
	close(client);
	/* It dies, and its name stays. */
	close(first);
	assert_err(local_connect(9292, deadline_in_ms(1000), &client), ERR_NOT_FOUND);
	assert_ok(local_listen(home, 9292, &second));
	local_remove(home, 9292);
	assert_int_equal(stat(path, &st), -1);
	close(second);
	/* What is no socket is nobody's to remove. */
	assert_ok(file_put(path, "x", 1, 0600));
	assert_err(local_listen(home, 9292, &first), ERR_DENIED);
	assert_int_equal(stat(path, &st), 0);
	unsetenv("DRDOTNET_HOME");
	assert_ok(dir_remove(dir));
}

static void the_token_is_kept_in_a_safe_file(void **state UNUSED)
{
	char dir[64];
	struct stat st;
	CLEANUP(mem_freep) char *one = NULL, *again = NULL, *none = NULL;
	unit_temp_dir(dir, sizeof(dir));
	CLEANUP(mem_freep) char *path = mem_printf("%s/token", dir);
	CLEANUP(mem_freep) char *other = mem_printf("%s/other", dir);
	assert_ok(token_keep(path, &one));
	assert_ok(token_keep(path, &again));
	assert_string_equal(one, again);
	assert_int_equal(strlen(one), TOKEN_LEN);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0666 };
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_err(token_keep(path, &none), ERR_DENIED);
	}
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
		assert_err(token_keep(path, &none), ERR_DENIED);
		assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	}
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	assert_err(token_keep(path, &none), ERR_DENIED);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_err(token_keep(path, &none), ERR_DENIED);
	assert_int_equal(unlink(path), 0);
	assert_ok(file_put(path, "short\n", 6, 0600));
	assert_err(token_keep(path, &none), ERR_USAGE);
	assert_null(none);
	assert_ok(dir_remove(dir));
}

static void other_sites_are_kept_out(void **state UNUSED)
{
	struct auth *a = make_auth(true, true, NULL);
	static const char local[] = "localhost:9292";
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = "/api/sessions",
						.host = local,
						.origin = "http://localhost:9292" }),
			 0);
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = "/api/sessions",
						.host = local,
						.origin = "https://diag.example.com" }),
			 0);
	static const char *const bad[] = { "http://evil.com", "null", "http://localhost:1",
					   "http://localhost.evil.com:9292", "x" };
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(check(a, (struct ask){ .method = "POST",
							.path = "/api/sessions",
							.host = local,
							.origin = bad[i] }),
				 403);
		assert_int_equal(check(a, (struct ask){ .method = "GET",
							.path = "/api/sessions",
							.host = local,
							.origin = bad[i] }),
				 403);
	}
	/* Without an origin, as pictures and links are asked for. */
	struct ask image = { .method = "GET",
			     .path = "/api/processes/1/stacks",
			     .host = local,
			     .site = "cross-site",
			     .mode = "no-cors" };
	assert_int_equal(check(a, image), 403);
	struct ask link = {
		.method = "GET", .path = "/api/sessions", .host = local, .site = "cross-site", .mode = "navigate"
	};
	assert_int_equal(check(a, link), 0);
	link.path = "/api/processes/1/stacks";
	assert_int_equal(check(a, link), 403);
	struct ask page = {
		.method = "GET", .path = "/sessions", .host = local, .site = "cross-site", .mode = "navigate"
	};
	assert_int_equal(check(a, page), 0);
	auth_free(a);
}

static void elsewhere_a_token_is_needed(void **state UNUSED)
{
	struct auth *a = make_auth(false, false, TOKEN);
	assert_int_equal(auth_mode(a), AUTH_TOKEN);
	static const char sessions[] = "/api/sessions", any[] = "host.example.org";
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = sessions, .host = any }), 401);
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " TOKEN }), 0);
	assert_int_equal(
		check(a, (struct ask){ .method = "POST", .path = sessions, .host = any, .bearer = "bearer  " TOKEN }),
		0);
	assert_int_equal(
		check(a,
		      (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " READ_TOKEN }),
		0);
	assert_int_equal(
		check(a,
		      (struct ask){ .method = "POST", .path = sessions, .host = any, .bearer = "Bearer " READ_TOKEN }),
		403);
	assert_int_equal(check(a, (struct ask){ .method = "GET",
						.path = sessions,
						.host = any,
						.cookie = "x=1; drdotnet_token=" TOKEN }),
			 0);
	/* "pprof:" and the token, "x:" and the read token: the password of an address. */
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = sessions,
						.host = any,
						.bearer = "Basic cHByb2Y6ZnVsbC10b2tlbi0wMTIzNDU2Nzg5" }),
			 0);
	assert_int_equal(check(a, (struct ask){ .method = "POST",
						.path = sessions,
						.host = any,
						.bearer = "Basic eDpyZWFkLXRva2VuLTAxMjM0NTY3ODk=" }),
			 403);
	static const char *const wrong[] = {
		"Bearer", "Bearer ",	    "Bearer x", "Bearer " TOKEN "x",  "Bearer full-token-012345678",
		TOKEN,	  ("Basic " TOKEN), "Basic ",	"Basic cHByb2Y6eA==", "Basic ====!",
	};
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(
			check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = wrong[i] }),
			401);
	assert_int_equal(check(a, (struct ask){ .method = "GET",
						.path = sessions,
						.host = any,
						.cookie = "drdotnet_token=; drdotnet_token2=" TOKEN }),
			 401);
	/* Each port of a host has its own. */
	struct ask port = { .method = "GET",
			    .path = sessions,
			    .host = "localhost:9292",
			    .cookie = "drdotnet_token_9292=" TOKEN "; drdotnet_token_8000=x" };
	assert_int_equal(check(a, port), 0);
	port.host = "localhost:8000";
	assert_int_equal(check(a, port), 401);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/healthz", .host = any }), 0);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/metrics", .host = any }), 401);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = "/sessions", .host = any }), 0);
	/* Guessing is slow. */
	for (int i = 0; i < 40; i++)
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer guess" });
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer guess" }),
		429);
	assert_int_equal(
		check(a, (struct ask){ .method = "GET", .path = sessions, .host = any, .bearer = "Bearer " TOKEN }), 0);
	auth_free(a);
}

static void tokens_are_made_and_checked(void **state UNUSED)
{
	struct auth *a = make_auth(false, false, NULL), *b = make_auth(false, false, NULL),
		    *off = make_auth(false, true, NULL);
	assert_int_equal(strlen(auth_token(a)), 48);
	assert_string_not_equal(auth_token(a), auth_token(b));
	assert_int_equal(auth_mode(off), AUTH_OFF);
	assert_int_equal(check(off, (struct ask){ .method = "POST", .path = "/api/sessions" }), 0);
	assert_int_equal(
		check(off, (struct ask){ .method = "POST", .path = "/api/sessions", .host = "evil.example.com" }), 421);
	auth_free(a);
	auth_free(b);
	auth_free(off);
	struct auth_options o = { .token = "short", .shares_path = "/nonexistent" };
	assert_err(auth_new(&o, &a), ERR_USAGE);
	o.token = "with blanks in it";
	assert_err(auth_new(&o, &a), ERR_USAGE);
}

static void a_share_link_opens_one_session(void **state UNUSED)
{
	static const char one[] = "805a308b-061c-47f3-9b30-f785c3186e82",
			  other[] = "905a308b-061c-47f3-9b30-f785c3186e82";
	struct auth *a = make_auth(false, false, TOKEN);
	CLEANUP(buf_free) struct buf text = { 0 };
	CLEANUP(json_decrefp) json_t *share = NULL;
	struct jsonw w = jsonw_make(&text, false);
	assert_ok(auth_share(a, one, 1, &w));
	assert_ok(json_parse(text.data, text.len, text.len, &share));
	const char *token = json_get_str(share, "token", "");
	CLEANUP(mem_freep) char *cookie = mem_printf("drdotnet_share_9292=%s", token);
	char guid[37], path[100];
	assert_true(auth_shared(a, token, guid));
	assert_string_equal(guid, one);
	static const struct {
		const char *method, *pattern, *guid;
		int status;
	} cases[] = {
		{ "GET", "/api/sessions/%s", one, 0 },
		{ "GET", "/api/sessions/%s/report", one, 0 },
		{ "GET", "/api/sessions/%s/files/x", one, 0 },
		{ "GET", "/api/sessions/%s", other, 401 },
		{ "DELETE", "/api/sessions/%s", one, 401 },
		{ "POST", "/api/sessions/%s/cancel", one, 401 },
		{ "GET", "/api/sessions/%s/shares", one, 401 },
		{ "GET", "/api/sessions", one, 401 },
		{ "GET", "/api/server", one, 0 },
		{ "GET", "/api/server/logs", one, 401 },
		{ "GET", "/api/processes", one, 401 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool has = strstr(cases[i].pattern, "%s") != NULL;
		str_copy(path, sizeof(path), cases[i].pattern);
		if (has) {
			CLEANUP(mem_freep) char *tail = mem_strdup(strstr(cases[i].pattern, "%s") + 2);
			snprintf(path, sizeof(path), "/api/sessions/%s%s", cases[i].guid, tail);
		}
		assert_int_equal(check(a, (struct ask){ .method = cases[i].method, .path = path, .cookie = cookie }),
				 cases[i].status);
	}
	assert_err(auth_unshare(a, other, token), ERR_NOT_FOUND);
	assert_ok(auth_unshare(a, one, token));
	assert_false(auth_shared(a, token, guid));
	snprintf(path, sizeof(path), "/api/sessions/%s", one);
	assert_int_equal(check(a, (struct ask){ .method = "GET", .path = path, .cookie = cookie }), 401);
	auth_free(a);
}

/* ---- streams ---- */

struct reader {
	unsigned slept, woken, room;
};
static void on_sleep(void *user)
{
	((struct reader *)user)->slept++;
}
static void on_wake(void *user)
{
	((struct reader *)user)->woken++;
}
static void on_room(void *user)
{
	((struct reader *)user)->room++;
}

static void a_stream_is_bounded_and_wakes_its_reader(void **state UNUSED)
{
	struct reader reader = { 0 };
	struct stream *s = stream_new(10);
	char data[16];
	size_t n = 0;
	stream_attach(s, &(struct stream_reader){ on_sleep, on_wake, &reader });
	stream_on_room(s, on_room, &reader);
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_WAIT);
	assert_int_equal(reader.slept, 1);
	assert_true(stream_write(s, "12345678", 8));
	assert_int_equal(reader.woken, 1);
	assert_int_equal(stream_room(s), 2);
	assert_false(stream_write(s, "abc", 3));
	assert_int_equal(stream_read(s, data, 4, &n), STREAM_DATA);
	assert_int_equal(n, 4);
	assert_int_equal(reader.room, 1);
	assert_true(stream_write(s, "abc", 3));
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_DATA);
	assert_int_equal(n, 7);
	assert_memory_equal(data, "5678abc", 7);
	stream_end(s, false);
	assert_false(stream_write(s, "x", 1));
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_END);
	assert_false(stream_reader_gone(s));
	stream_detach(s);
	assert_true(stream_reader_gone(s));
	stream_unref(s);
	s = stream_new(10);
	stream_end(s, true);
	assert_int_equal(stream_read(s, data, sizeof(data), &n), STREAM_BROKEN);
	stream_unref(s);
}

static void listeners_hear_what_concerns_them(void **state UNUSED)
{
	static const char a[] = "805a308b-061c-47f3-9b30-f785c3186e82", b[] = "905a308b-061c-47f3-9b30-f785c3186e82";
	struct sse *live = sse_new();
	struct stream *all = sse_listen(live, NULL, false), *one = sse_listen(live, a, false);
	char data[200];
	size_t n = 0;
	sse_tell(live, b, "progress", "{}", false);
	sse_tell(live, a, "session", "{\"x\":1}", true);
	assert_int_equal(stream_read(one, data, sizeof(data), &n), STREAM_DATA);
	data[n] = '\0';
	assert_string_equal(data, "event: session\ndata: {\"x\":1}\n\n");
	assert_int_equal(stream_read(one, data, sizeof(data), &n), STREAM_END);
	assert_int_equal(stream_read(all, data, sizeof(data), &n), STREAM_DATA);
	data[n] = '\0';
	assert_non_null(strstr(data, "progress"));
	assert_non_null(strstr(data, "session"));
	assert_int_equal(sse_listeners(live), 1);
	stream_detach(all);
	sse_heartbeat(live);
	assert_int_equal(sse_listeners(live), 0);
	stream_unref(all);
	stream_unref(one);
	sse_free(live);
}

static void check_body(const char *schema, const char *text, const char *words)
{
	json_t *body = NULL;
	assert_ok(json_parse(text, strlen(text), 1000, &body));
	struct err *err = schema_check(schema, body);
	if (words) {
		assert_non_null(err);
		assert_int_equal(err_kind(err), ERR_USAGE);
		assert_non_null(strstr(err_text(err), words));
	} else {
		assert_null(err);
	}
	err_free(err);
	json_decref(body);
}

static void bodies_are_checked_by_their_schema(void **state UNUSED)
{
	check_body("TakeCore", "{\"processId\": 1, \"type\": \"mini\", \"maxPauseMs\": 5}", NULL);
	check_body("TakeCore", "{\"processId\": 1, \"type\": null}", NULL);
	check_body("TakeCore", "{}", NULL);
	check_body("TakeCore", "{\"processId\": \"1\"}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"processId\": 1.5}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"processId\": null}", "'processId' must be a whole number");
	check_body("TakeCore", "{\"type\": 1}", "'type' must be a text");
	check_body("TakeCore", "{\"surprise\": 1}", "no field 'surprise'");
	check_body("RunCommand", "{\"arguments\": [\"ps\"], \"utf8\": true}", NULL);
	check_body("RunCommand", "{\"arguments\": [\"ps\", 1]}", "'arguments' must be an array of texts");
	check_body("RunCommand", "{\"arguments\": \"ps\"}", "'arguments' must be an array of texts");
	check_body("RunCommand", "{\"utf8\": 1}", "'utf8' must be true or false");
	check_body("no such schema", "{\"x\": 1}", NULL);
}

static void names_of_core_files_lead_nowhere_else(void **state UNUSED)
{
	static const char *const bad[] = { "", ".", "..", ".x", "a/b", "a\\b", "a b", "a%2f", "\xc3\xa4", "a\n" };
	char long_name[200];
	assert_true(api_core_name("Shop.Api-4211-20261115-031500.core"));
	assert_true(api_core_name("x"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(api_core_name(bad[i]));
	memset(long_name, 'a', sizeof(long_name));
	long_name[121] = '\0';
	assert_false(api_core_name(long_name));
	long_name[120] = '\0';
	assert_true(api_core_name(long_name));
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
		cmocka_unit_test(good_orders_are_taken),
		cmocka_unit_test(bad_orders_are_refused_before_anything_is_touched),
		cmocka_unit_test(guids_come_in_several_spellings),
		cmocka_unit_test(secrets_are_masked),
		cmocka_unit_test(loopback_needs_a_token_and_a_name_of_ours),
		cmocka_unit_test(the_socket_in_the_home_needs_no_token),
		cmocka_unit_test(the_kernel_says_who_connects),
		cmocka_unit_test(one_server_has_the_socket_of_a_port),
		cmocka_unit_test(the_token_is_kept_in_a_safe_file),
		cmocka_unit_test(other_sites_are_kept_out),
		cmocka_unit_test(elsewhere_a_token_is_needed),
		cmocka_unit_test(tokens_are_made_and_checked),
		cmocka_unit_test(a_share_link_opens_one_session),
		cmocka_unit_test(a_stream_is_bounded_and_wakes_its_reader),
		cmocka_unit_test(listeners_hear_what_concerns_them),
		cmocka_unit_test(bodies_are_checked_by_their_schema),
		cmocka_unit_test(names_of_core_files_lead_nowhere_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
