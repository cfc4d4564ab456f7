#include "unit.h"

#include "build_activity.h"
#include "requests/request_events.h"
#include "requests/routes.h"
#include "requests/spans.h"

/* Requests as they were told, one after the other. */
struct stage {
	struct request_spans *spans;
	enum activity_form form;
	size_t told;
	struct request_seen last;
	char path[SPANS_TEXT_MAX + 1];
	size_t failed_spans, open_spans;
	uint64_t all_ns, parts_ns; /* of all requests */
};

static void on_seen(void *user, const struct request_seen *request)
{
	struct stage *s = user;
	uint64_t sum = 0;
	s->told++;
	s->last = *request;
	snprintf(s->path, sizeof(s->path), "%s", request->path);
	s->failed_spans = s->open_spans = 0;
	for (size_t i = 0; i < request->n_spans; i++) {
		s->failed_spans += request->spans[i].failed;
		s->open_spans += request->spans[i].open;
	}
	for (size_t i = 0; i < REQUEST_PARTS; i++)
		sum += request->parts_ns[i];
	assert_true(sum == request->to_ns - request->from_ns);
	s->all_ns += request->to_ns - request->from_ns;
	s->parts_ns += sum;
}

static void stage_begin(struct stage *s, enum activity_form form)
{
	*s = (struct stage){ .form = form };
	s->spans = request_spans_new(form, on_seen, s);
}

struct at {
	uint64_t ns, thread;
};

#define PATH(...) (const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)

static void say(struct stage *s, struct span_event e, struct at at, const uint32_t *numbers, size_t n, size_t n_related)
{
	uint8_t id[16], related[16];
	e.time_ns = at.ns;
	e.thread = at.thread;
	if (n) {
		build_activity(id, s->form, numbers, n);
		e.id = id;
	}
	if (n_related) {
		build_activity(related, s->form, numbers, n_related);
		e.related = related;
	}
	request_spans_add(s->spans, &e);
}

static void request_begins(struct stage *s, uint64_t ns, uint64_t thread, uint32_t number, const char *path)
{
	say(s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_REQUEST, .method = "GET", .label = path },
	    (struct at){ ns, thread }, PATH(1, number), 0);
}

static void request_ends(struct stage *s, uint64_t ns, uint64_t thread, uint32_t number)
{
	say(s, (struct span_event){ .news = SPAN_END, .what = SPAN_REQUEST }, (struct at){ ns, thread },
	    PATH(1, number), 0);
}

static void begins(struct stage *s, enum span_what what, uint64_t ns, uint64_t thread, const uint32_t *path, size_t n)
{
	say(s, (struct span_event){ .news = SPAN_BEGIN, .what = what, .label = "it" }, (struct at){ ns, thread }, path,
	    n, n - 1);
}

static void ends(struct stage *s, enum span_what what, uint64_t ns, uint64_t thread, const uint32_t *path, size_t n)
{
	say(s, (struct span_event){ .news = SPAN_END, .what = what }, (struct at){ ns, thread }, path, n, 0);
}

static void idle(struct stage *s, uint64_t ns, uint64_t thread)
{
	say(s, (struct span_event){ .news = SPAN_IDLE }, (struct at){ ns, thread }, NULL, 0, 0);
}

#define assert_part(stage, part, ns) assert_int_equal((stage)->last.parts_ns[part], ns)

/* As Npgsql has it: the end of a command carries the id of its request. */
static void a_command_ends_with_the_id_of_its_request(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET8);
	request_begins(&s, 1000, 7, 4, "/orders/17");
	begins(&s, SPAN_SQL, 1010, 7, PATH(1, 4, 1));
	idle(&s, 1012, 7);
	ends(&s, SPAN_SQL, 1040, 8, PATH(1, 4));
	request_ends(&s, 1055, 8, 4);
	assert_int_equal(s.told, 1);
	assert_string_equal(s.path, "/orders/17");
	assert_part(&s, PART_SQL, 30);
	assert_part(&s, PART_THREAD, 25);
	assert_part(&s, PART_UNEXPLAINED, 0);
	assert_int_equal(request_spans_counts(s.spans)->unpaired, 0);
	request_spans_free(s.spans);
}

static void a_thread_that_was_elsewhere_is_not_the_requests(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET10);
	request_begins(&s, 100, 7, 4, "/a");
	idle(&s, 110, 7); /* it awaits */
	request_begins(&s, 150, 7, 5, "/b");
	request_ends(&s, 170, 7, 5);
	assert_part(&s, PART_THREAD, 20);
	request_ends(&s, 200, 7, 4);
	assert_part(&s, PART_THREAD, 10);
	assert_part(&s, PART_UNEXPLAINED, 90);
	request_begins(&s, 300, 7, 6, "/c");
	request_begins(&s, 320, 7, 7, "/d"); /* without a word the thread does something else */
	request_ends(&s, 340, 7, 6);
	assert_part(&s, PART_THREAD, 0);
	assert_part(&s, PART_UNEXPLAINED, 40);
	request_spans_free(s.spans);
}

static void a_call_and_what_it_is_made_of(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET10);
	request_begins(&s, 1000, 7, 4, "/a");
	idle(&s, 1000, 7);
	begins(&s, SPAN_HTTP, 1000, 8, PATH(1, 4, 1));
	begins(&s, SPAN_DNS, 1010, 8, PATH(1, 4, 1, 1));
	idle(&s, 1010, 8);
	ends(&s, SPAN_DNS, 1020, 9, PATH(1, 4, 1, 1));
	/* Its path is below the name's, which has ended: the related id tells. */
	say(&s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_CONNECT }, (struct at){ 1020, 9 },
	    PATH(1, 4, 1, 1, 1), 3);
	idle(&s, 1020, 9);
	ends(&s, SPAN_CONNECT, 1030, 8, PATH(1, 4, 1, 1, 1));
	begins(&s, SPAN_TLS, 1030, 8, PATH(1, 4, 1, 2));
	ends(&s, SPAN_TLS, 1050, 8, PATH(1, 4, 1, 2));
	say(&s, (struct span_event){ .news = SPAN_LEFT_QUEUE, .what = SPAN_HTTP, .queued_ns = 55 },
	    (struct at){ 1055, 8 }, PATH(1, 4, 1), 0);
	begins(&s, SPAN_BODY, 1080, 8, PATH(1, 4, 1, 3));
	ends(&s, SPAN_BODY, 1090, 8, PATH(1, 4, 1, 3));
	say(&s, (struct span_event){ .news = SPAN_END, .what = SPAN_HTTP, .failed = true }, (struct at){ 1095, 8 },
	    PATH(1, 4, 1), 0);
	idle(&s, 1095, 8);
	request_ends(&s, 1100, 9, 4);
	assert_part(&s, PART_DNS, 10);
	assert_part(&s, PART_CONNECT, 10);
	assert_part(&s, PART_TLS, 20);
	assert_part(&s, PART_HTTP_QUEUE, 15);
	assert_part(&s, PART_HTTP_BODY, 10);
	assert_part(&s, PART_HTTP, 30);
	assert_part(&s, PART_UNEXPLAINED, 5);
	assert_int_equal(s.failed_spans, 1);
	request_spans_free(s.spans);
}

/* .NET 10 gives the 11th to the 255th child one id, and they may overlap. */
static void many_calls_of_one_request(void **state UNUSED)
{
	for (size_t form = 0; form < 2; form++) {
		struct stage s;
		stage_begin(&s, form ? ACTIVITY_FORM_NET10 : ACTIVITY_FORM_NET8);
		request_begins(&s, 1000, 7, 6, "/a");
		idle(&s, 1000, 7);
		for (uint32_t i = 1; i <= 40; i += 2) {
			uint64_t at = 1000 + i * 10;
			begins(&s, SPAN_HTTP, at, 50 + i, PATH(1, 6, i));
			begins(&s, SPAN_HTTP, at, 51 + i, PATH(1, 6, i + 1));
			idle(&s, at, 50 + i);
			idle(&s, at, 51 + i);
			ends(&s, SPAN_HTTP, at + 10, 8, PATH(1, 6, i));
			ends(&s, SPAN_HTTP, at + 10, 8, PATH(1, 6, i + 1));
			idle(&s, at + 10, 8);
		}
		request_ends(&s, 1500, 9, 6);
		assert_int_equal(s.last.n_spans, 40);
		assert_part(&s, PART_HTTP, 200);
		assert_part(&s, PART_UNEXPLAINED, 300);
		assert_int_equal(request_spans_counts(s.spans)->unpaired, 0);
		request_spans_free(s.spans);
	}
}

static void locks_waits_and_collections(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET8);
	request_begins(&s, 1000, 7, 4, "/a");
	begins(&s, SPAN_LOCK, 1010, 7, PATH(1, 4));
	begins(&s, SPAN_WAIT, 1012, 7, PATH(1, 4)); /* as the runtime waits for a lock */
	ends(&s, SPAN_WAIT, 1029, 7, PATH(1, 4));
	ends(&s, SPAN_LOCK, 1030, 7, PATH(1, 4));
	begins(&s, SPAN_WAIT, 1040, 7, PATH(1, 4));
	ends(&s, SPAN_WAIT, 1045, 7, PATH(1, 4));
	say(&s, (struct span_event){ .news = SPAN_SUSPENDED }, (struct at){ 1050, 3 }, NULL, 0, 0);
	say(&s, (struct span_event){ .news = SPAN_RESUMED }, (struct at){ 1057, 3 }, NULL, 0, 0);
	idle(&s, 1060, 7);
	say(&s, (struct span_event){ .news = SPAN_SUSPENDED }, (struct at){ 1070, 3 }, NULL, 0, 0);
	say(&s, (struct span_event){ .news = SPAN_RESUMED }, (struct at){ 1077, 3 }, NULL, 0, 0);
	request_ends(&s, 1100, 7, 4);
	assert_part(&s, PART_LOCK, 20);
	assert_part(&s, PART_WAIT, 5);
	assert_part(&s, PART_GC, 7); /* not the one that it did not notice */
	assert_part(&s, PART_THREAD, 28);
	assert_part(&s, PART_UNEXPLAINED, 40);
	request_spans_free(s.spans);
}

/* The thread had a CPU for the first ten, and wanted one until it was told to wait. */
static void ran(void *user UNUSED, struct request_spans *s, uint64_t thread, uint64_t from_ns, uint64_t to_ns)
{
	assert_int_equal(thread, 7);
	assert_true(from_ns == 1000 && to_ns == 1060);
	request_spans_ran(s, PART_CPU, from_ns, from_ns + 10);
	request_spans_ran(s, PART_READY, from_ns + 10, from_ns + 30);
	request_spans_ran(s, PART_SQL, from_ns, to_ns); /* nobody's to say */
}

static void what_threads_did_is_asked(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET8);
	request_spans_tell(s.spans, ran);
	request_spans_ran(s.spans, PART_CPU, 0, 100); /* nobody asked */
	request_begins(&s, 1000, 7, 4, "/a");
	begins(&s, SPAN_LOCK, 1025, 7, PATH(1, 4));
	ends(&s, SPAN_LOCK, 1050, 7, PATH(1, 4));
	idle(&s, 1060, 7);
	request_ends(&s, 1100, 8, 4);
	assert_part(&s, PART_CPU, 10);
	assert_part(&s, PART_READY, 20);
	assert_part(&s, PART_LOCK, 20);
	assert_part(&s, PART_THREAD, 10);
	assert_part(&s, PART_UNEXPLAINED, 40);
	request_spans_free(s.spans);
}

static void what_belongs_to_no_request(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET8);
	say(&s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_REQUEST }, (struct at){ 10, 1 }, NULL, 0, 0);
	request_ends(&s, 20, 1, 3); /* began before */
	say(&s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_SQL }, (struct at){ 30, 1 }, PATH(1, 9), 0);
	request_begins(&s, 40, 1, 4, "/a");
	request_ends(&s, 50, 1, 4);
	say(&s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_HTTP }, (struct at){ 60, 1 }, PATH(1, 4, 1), 0);
	ends(&s, SPAN_SQL, 70, 1, PATH(1, 4));
	request_begins(&s, 80, 1, 5, "/b");
	ends(&s, SPAN_SQL, 85, 1, PATH(1, 5));
	request_spans_end(s.spans, 100);
	assert_int_equal(s.told, 2);
	assert_true(s.last.open && s.last.to_ns == 100);
	const struct request_spans_counts *c = request_spans_counts(s.spans);
	assert_int_equal(c->requests, 1);
	assert_int_equal(c->without_id, 1);
	assert_int_equal(c->ended_only, 1);
	assert_int_equal(c->outside, 1);
	assert_int_equal(c->left_behind, 1);
	assert_int_equal(c->unpaired, 1);
	request_spans_free(s.spans);
}

/* An id that is not of this process, or none at all, is nobody's. */
static void ids_of_others_are_no_requests(void **state UNUSED)
{
	struct stage s;
	uint8_t other[16];
	stage_begin(&s, ACTIVITY_FORM_NET8);
	request_begins(&s, 10, 1, 4, "/a");
	build_activity(other, s.form, PATH(1, 4, 1));
	other[15] ^= 1;
	request_spans_add(
		s.spans,
		&(struct span_event){ .news = SPAN_BEGIN, .what = SPAN_SQL, .time_ns = 20, .thread = 2, .id = other });
	request_ends(&s, 30, 1, 4);
	assert_int_equal(s.last.n_spans, 1); /* of its thread */
	assert_part(&s, PART_SQL, 0);
	request_spans_free(s.spans);
}

static void what_is_open_when_events_pause_is_dropped(void **state UNUSED)
{
	struct stage s;
	stage_begin(&s, ACTIVITY_FORM_NET8);
	request_begins(&s, 10, 1, 4, "/a");
	begins(&s, SPAN_SQL, 20, 1, PATH(1, 4, 1));
	request_spans_pause(s.spans);
	request_ends(&s, 100, 1, 4);
	assert_int_equal(s.told, 0);
	assert_int_equal(request_spans_counts(s.spans)->cut, 1);
	request_begins(&s, 110, 1, 5, "/b");
	begins(&s, SPAN_SQL, 120, 1, PATH(1, 5, 1));
	request_ends(&s, 150, 1, 5);
	assert_int_equal(s.open_spans, 1);
	assert_part(&s, PART_SQL, 30);
	assert_part(&s, PART_THREAD, 10);
	request_spans_free(s.spans);
}

static void more_than_is_kept(void **state UNUSED)
{
	enum { REQUESTS = 50000, CALLS = 6000 };
	struct stage s;
	CLEANUP(mem_freep) char *path = mem_alloc(65537);
	memset(path, '\x1b', 65536);
	path[65536] = '\0';
	stage_begin(&s, ACTIVITY_FORM_NET8);
	for (uint32_t i = 0; i < REQUESTS; i++)
		request_begins(&s, 10 + i, i, 300 + i, path);
	assert_true(request_spans_counts(s.spans)->not_kept > 0);
	for (uint32_t i = 0; i < REQUESTS; i++)
		request_ends(&s, 100000 + i, i, 300 + i);
	assert_int_equal(s.told + request_spans_counts(s.spans)->not_kept, REQUESTS);
	assert_int_equal(strlen(s.path), SPANS_TEXT_MAX);
	request_begins(&s, 200000, 1, 7, "/many");
	for (uint32_t i = 0; i < CALLS; i++) {
		char label[32];
		snprintf(label, sizeof(label), "select %u", i);
		say(&s, (struct span_event){ .news = SPAN_BEGIN, .what = SPAN_SQL, .label = label },
		    (struct at){ 200000 + i * 10, 1 }, PATH(1, 7, i + 1), 2);
		ends(&s, SPAN_SQL, 200005 + i * 10, 1, PATH(1, 7));
	}
	request_ends(&s, 300000, 1, 7);
	assert_true(s.last.truncated);
	assert_true(s.last.n_spans < CALLS);
	request_begins(&s, 400000, 1, 8, "/after");
	begins(&s, SPAN_SQL, 400000, 1, PATH(1, 8, 1));
	ends(&s, SPAN_SQL, 400010, 1, PATH(1, 8));
	request_ends(&s, 400010, 1, 8);
	assert_part(&s, PART_SQL, 10);
	request_spans_free(s.spans);
}

/* Any events in any order: nothing breaks, and each sum is its request's time. */
static void any_events(void **state UNUSED)
{
	uint64_t x = 88172645463325252ull;
	for (size_t form = 0; form < 2; form++) {
		struct stage s;
		stage_begin(&s, form ? ACTIVITY_FORM_NET10 : ACTIVITY_FORM_NET8);
		for (uint64_t i = 0; i < 100000; i++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			const uint32_t numbers[4] = { 1, 1 + (uint32_t)(x >> 8) % 30, 1 + (uint32_t)(x >> 16) % 300,
						      1 + (uint32_t)(x >> 24) % 3 };
			struct span_event e = { .news = (enum span_news)(x % (SPAN_RESUMED + 1)),
						.what = (enum span_what)((x >> 32) % (SPAN_WAIT + 1)),
						.label = "x",
						.queued_ns = x >> 50 };
			size_t n = 2 + (x >> 40) % 3;
			if (e.what == SPAN_REQUEST)
				n = MIN(n, (size_t)3);
			say(&s, e, (struct at){ 1000 + i, x >> 60 }, numbers, n, (x >> 44) % n);
			if (x >> 32 == 5)
				request_spans_pause(s.spans);
		}
		request_spans_end(s.spans, 200000);
		assert_true(s.told > 100 && s.all_ns == s.parts_ns);
		request_spans_free(s.spans);
	}
}

/* ---- routes ---- */

static void check_route(const struct routes *r, const char *method, const char *path, const char *pattern)
{
	size_t i = routes_match(r, method, path);
	const char *found = i == ROUTE_NONE ? "none" : routes_facts(r, i).pattern;
	if (strcmp(found, pattern))
		fail_msg("%s: %s, not %s", path, found, pattern);
}

static void paths_find_their_templates(void **state UNUSED)
{
	static const char *const patterns[] = { "/orders/{id:int}",
						"/orders/{name}",
						"/orders/open",
						"/orders/{id:int}/lines/{line}",
						"/files/{**path}",
						"{controller=Home}/{action=Index}/{id?}",
						"api/v{version}/things/{id:guid}",
						"/range/{n:range(1,5)}",
						"/r/{x:regex(^a/b$)}" };
	CLEANUP(routes_freep) struct routes *r = routes_new();
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		routes_add(r, "GET", patterns[i], 1, 0);
	routes_add(r, "POST", "/orders", 1, 0);
	check_route(r, "GET", "/orders/17", "/orders/{id:int}");
	check_route(r, "GET", "/ORDERS/Open", "/orders/open");
	check_route(r, "GET", "/orders/latest", "/orders/{name}");
	check_route(r, "GET", "/orders/17/lines/a", "/orders/{id:int}/lines/{line}");
	check_route(r, "GET", "/files/a/b/c.txt", "/files/{**path}");
	check_route(r, "GET", "/files", "/files/{**path}");
	check_route(r, "GET", "/", "{controller=Home}/{action=Index}/{id?}");
	check_route(r, "GET", "/shop", "{controller=Home}/{action=Index}/{id?}");
	check_route(r, "GET", "/api/v2/things/0f8fad5b-d9cb-469f-a165-70867728950e", "api/v{version}/things/{id:guid}");
	check_route(r, "GET", "/api/v2/things/17", "none");
	check_route(r, "GET", "/range/3", "/range/{n:range(1,5)}");
	check_route(r, "POST", "/orders", "/orders");
	check_route(r, "DELETE", "/orders/17", "none");
}

static void templates_come_from_the_meters_tags(void **state UNUSED)
{
	CLEANUP(routes_freep) struct routes *r = routes_new();
	routes_add_tags(
		r,
		"http.request.method=GET,http.response.status_code=200,http.route=/a/{n:range(1,5)},network.protocol.version=1.1,url.scheme=http",
		7);
	routes_add_tags(
		r,
		"error.type=System.Exception,http.request.method=GET,http.response.status_code=500,http.route=/a/{n:range(1,5)}",
		2);
	routes_add_tags(r, "http.request.method=GET,http.response.status_code=404,url.scheme=http", 5);
	routes_add_tags(r, "", 5);
	assert_int_equal(routes_count(r), 1);
	struct route_facts f = routes_facts(r, 0);
	assert_string_equal(f.pattern, "/a/{n:range(1,5)}");
	assert_true(f.requests == 9 && f.failed == 2);
}

static void check_fold(const char *path, const char *want)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	route_fold(path, &out);
	assert_string_equal(buf_cstr(&out), want);
}

static void ids_in_paths_are_folded(void **state UNUSED)
{
	check_fold("/orders/17", "/orders/{id}");
	check_fold("/orders/0f8fad5b-d9cb-469f-a165-70867728950e/lines", "/orders/{id}/lines");
	check_fold("/blobs/0123456789abcdef", "/blobs/{id}");
	check_fold("/deadbeefdeadbeef/cafe", "/deadbeefdeadbeef/cafe"); /* letters alone may be a word */
	check_fold("/session-of-customer-no-12345678", "/{id}");
	check_fold("/v2/things", "/v2/things");
	check_fold("/", "/");
	check_fold("//a//b/", "/a/b");
}

static void many_siblings_are_one(void **state UNUSED)
{
	enum { PATHS = 10000 };
	char **paths = mem_array(PATHS, sizeof(*paths));
	for (size_t i = 0; i < PATHS; i++)
		paths[i] = i < 5 ? mem_printf("/api/kind%zu/all", i) : mem_printf("/users/name%zu/profile", i);
	routes_merge(paths, PATHS);
	assert_string_equal(paths[4], "/api/kind4/all");
	assert_string_equal(paths[5], "/users/{id}/profile");
	assert_string_equal(paths[PATHS - 1], "/users/{id}/profile");
	for (size_t i = 0; i < PATHS; i++)
		mem_free(paths[i]);
	mem_free(paths);
}

/* ---- statements ---- */

static void check_shape(const char *sql, const char *want)
{
	CLEANUP(buf_free) struct buf out = { 0 };
	sql_shape(sql, strlen(sql), &out);
	assert_string_equal(buf_cstr(&out), want);
}

static void statements_lose_their_values(void **state UNUSED)
{
	check_shape("SELECT * FROM t WHERE id = 17 AND name='O''Brien'", "SELECT * FROM t WHERE id = ? AND name=?");
	check_shape("select  1.5e3,\n\t'x' -- secret\n from t2", "select ?... from t2");
	check_shape("select a from t where x in (1, 2,3 , 'four')", "select a from t where x in (?...)");
	check_shape("select $1, @name, :p, /* hidden */ x", "select $1, @name, :p, x");
	check_shape("select $$it's$$, $tag$ a $$ b $tag$ from t", "select ?... from t");
	check_shape("select E'a\\'secret' from t", "select E? from t");
	check_shape("update t set a = 'never closed", "update t set a = ?");
	check_shape("select 0xFF, -3", "select ?, -?");
	check_shape("", "");
	CLEANUP(buf_free) struct buf longest = { 0 }, out = { 0 };
	buf_repeat(&longest, "sp\xc3\xa4lte ", 1000);
	sql_shape(buf_cstr(&longest), longest.len, &out);
	assert_true(out.len <= 303 && !strcmp(buf_cstr(&out) + out.len - 3, "..."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_ends_with_the_id_of_its_request),
		cmocka_unit_test(a_thread_that_was_elsewhere_is_not_the_requests),
		cmocka_unit_test(a_call_and_what_it_is_made_of),
		cmocka_unit_test(many_calls_of_one_request),
		cmocka_unit_test(locks_waits_and_collections),
		cmocka_unit_test(what_threads_did_is_asked),
		cmocka_unit_test(what_belongs_to_no_request),
		cmocka_unit_test(ids_of_others_are_no_requests),
		cmocka_unit_test(what_is_open_when_events_pause_is_dropped),
		cmocka_unit_test(more_than_is_kept),
		cmocka_unit_test(any_events),
		cmocka_unit_test(paths_find_their_templates),
		cmocka_unit_test(templates_come_from_the_meters_tags),
		cmocka_unit_test(ids_in_paths_are_folded),
		cmocka_unit_test(many_siblings_are_one),
		cmocka_unit_test(statements_lose_their_values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
